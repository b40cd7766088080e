"""The slots of a span that did not fire: found and counted as a look at every event does it, on every database."""

from __future__ import annotations

from collections import Counter
from itertools import product

from everwhen.model.events import Event
from everwhen.model.history import OF_SLOTS
from everwhen.model.instants import HOUR, MINUTE
from everwhen.model.queries import ScheduleFilter
from tests.conformance.tenant import Tenant

EVERYTHING = 1_000


def live(runtime: Tenant) -> list[Event]:
    """Let schedules skip slots, and miss some in an outage: singly, and in ranges; return the events about them."""
    for name, owner in (("a", "ada"), ("b", None), ("gone", "ada")):
        runtime.add(name, every="1m", owner=owner, catch_up="run_once" if name == "b" else "skip")
    runtime.add("closed", every="10s", not_on=["mon"])
    for _ in range(40):
        runtime.wait_and_step("10s")
        runtime.run()
    runtime.wait("3h")
    runtime.beat()
    runtime.step()
    runtime.pause("closed")  # which writes what was gathered
    runtime.delete("gone")
    return [event for event in runtime.events(None) if event.type in OF_SLOTS]


def ends_of(event: Event) -> tuple[int, int]:
    at = event.slot_at or 0
    return int(str(event.detail.get("first", at))), int(str(event.detail.get("last", at)))


def test_slots_that_did_not_fire_are_found_by_their_own_time(runtime: Tenant) -> None:
    begin = runtime.now
    every = live(runtime)
    assert {event.type for event in every} == OF_SLOTS and {event.slot_count > 1 for event in every} == {
        True,
        False,
    }
    uids = {event.schedule_id: event.uid for event in every}
    ledger = runtime.runtime.ledger
    filters: tuple[tuple[ScheduleFilter, set[str]], ...] = (
        (ScheduleFilter(), {"a", "b", "gone", "closed"}),
        (ScheduleFilter(owner="ada"), {"a", "gone"}),
        (ScheduleFilter(text="LOSE"), {"closed"}),
        (ScheduleFilter(text="gone"), set()),  # whose schedules are there
        (ScheduleFilter(uids={uids["gone"] or "", uids["b"] or ""}), {"b", "gone"}),
    )
    spans = ((begin - 2 * HOUR, runtime.now), (begin + 17 * MINUTE, begin + 40 * MINUTE), (begin, begin + 1))
    for (since, until), (wanted, names) in product(spans, filters):
        matching = [
            event
            for event in every
            if event.schedule_id in names and ends_of(event)[0] < until and ends_of(event)[1] >= since
        ]
        listed = ledger.skips_between(since, until, wanted, limit=EVERYTHING)
        assert Counter((one.uid, one.type, one.slot_at, one.slot_count) for one in listed) == Counter(
            (event.uid, event.type, event.slot_at, event.slot_count) for event in matching
        )
        assert {one.reason for one in listed} == {event.reason for event in matching}
        ranges = ledger.skip_ranges(since, until, wanted, limit=EVERYTHING)
        assert ranges == [one for one in listed if one.slot_count > 1]
        assert ledger.skip_range_number(since, until, wanted) == len(ranges)
        assert ledger.skip_ranges(since, until, wanted, limit=2, behind=1) == ranges[1:3]
        assert all(one.slot_count == 1 or one.first_at is not None for one in listed)
        assert ledger.skip_numbers(since, until, wanted) == Counter(event.uid for event in matching)
        single = [event for event in matching if event.slot_count == 1 and event.type != "schedule.caught_up"]
        for width, by_schedule in product((7 * MINUTE, 10 * HOUR), (True, False)):
            counted = ledger.skip_counts(since, until, wanted, width=width, by_schedule=by_schedule)
            assert Counter({(one.uid, one.type, one.stretch): one.slots for one in counted}) == Counter(
                (event.uid if by_schedule else "", event.type, ((event.slot_at or 0) - since) // width)
                for event in single
            )
        assert len(ledger.skips_between(since, until, wanted, limit=2)) == min(2, len(matching))


def test_what_only_rows_have_is_listed_and_counted_alike(runtime: Tenant) -> None:
    """Skips that no event records yet, and slots that are held."""
    begin, catalogue = runtime.now, runtime.runtime.catalogue
    for name, owner in (("a", "ada"), ("b", None)):
        runtime.add(name, every="10s", not_on=["mon"], owner=owner)
    for name, owner in (("g.a", None), ("g.b", "ada"), ("g.c", None)):
        runtime.add(name, every="24h", group="g", max_concurrent=1, owner=owner)
    for _ in range(4):
        runtime.step()
        runtime.wait("10s")
    filters = ((ScheduleFilter(), 2), (ScheduleFilter(owner="ada"), 1), (ScheduleFilter(owner="bob"), 0))
    for wanted, number in filters:
        for since, until, is_inside in ((begin, runtime.now, True), (begin - HOUR, begin, False)):
            gathered = catalogue.gathered_skips(wanted, since, until, limit=EVERYTHING)
            assert len(gathered) == catalogue.gathered_number(wanted, since, until) == number * is_inside
        holds = catalogue.holds(wanted, limit=EVERYTHING)
        assert len(holds) == catalogue.hold_number(wanted, due_before=runtime.now) == number
        assert catalogue.hold_number(wanted, due_before=begin) == 0
