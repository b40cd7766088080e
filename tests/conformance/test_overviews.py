"""What lists and the time line show of many schedules at once, on every database."""

from __future__ import annotations

from everwhen.model.instants import MINUTE
from everwhen.model.outcome import SUCCEEDED
from everwhen.model.queries import ScheduleFilter
from everwhen.operations.recent import recent_of
from everwhen.operations.record import days_of, slots_of
from everwhen.operations.timeline import TimelineQuery, timeline
from tests.conformance.tenant import FAILED, Tenant


def test_the_last_slots_of_many_schedules_are_found_by_their_numbers(runtime: Tenant) -> None:
    good = runtime.add("good", every="1m")
    bad = runtime.add("bad", every="2m", max_retries=1, retry_delay="1s")
    for _ in range(4):
        runtime.wait_and_step("1m")
        for claim in runtime.claim():
            runtime.settle(claim, outcome=FAILED if claim.job.uid == bad.uid else SUCCEEDED)
    states = [entry.schedule.state for entry in runtime.runtime.catalogue.entries(ScheduleFilter(), limit=9)]
    found = recent_of(runtime.runtime, states, count=3)
    assert [slot.outcome for slot in found[good.uid].slots] == ["succeeded"] * 3
    assert found[good.uid].usual == 0 and found[bad.uid].usual is None
    assert {slot.outcome for slot in found[bad.uid].slots} <= {"failed", "queued", "running", "skipped"}


def test_schedules_are_ordered_and_counted(runtime: Tenant) -> None:
    for name, every, owner in (("b", "2m", "x"), ("a", "3m", None), ("c", "1m", "x")):
        runtime.add(name, every=every, owner=owner, first_run="after_interval")
    catalogue, everything = runtime.runtime.catalogue, ScheduleFilter()

    def ids(order: str, **more: bool) -> list[str]:
        entries = catalogue.ordered_entries(everything, order, limit=9, **more)  # type: ignore[arg-type]
        return [entry.schedule.state.schedule_id for entry in entries]

    assert ids("name") == ["a", "b", "c"] == list(reversed(ids("name", is_descending=True)))
    assert ids("next_run_at") == ["c", "b", "a"] and ids("owner")[0] == "a"
    assert {tuple(ids(order)) for order in ("status", "last_fired_at", "created_at")} <= {("b", "a", "c")}
    facets = catalogue.facets(everything, ("status", "group", "owner"), most=9)
    assert list(facets["owner"].items()) == [("x", 2), ("", 1)] and list(facets["group"]) == [""]
    assert facets["status"] == {"active": 3, "failing": 0, "running": 0, "held": 0}
    assert catalogue.facets(everything, ("owner",), most=1) == {"owner": {"x": 2}}
    assert len(catalogue.uids(ScheduleFilter(owner="x"), most=9)) == 2
    assert [entry.schedule.state.schedule_id for entry in catalogue.entries_of(["a", "nobody"])] == ["a"]
    assert [one.state.schedule_id for one in catalogue.soonest(9, ScheduleFilter(owner="x"))] == ["c", "b"]


def test_the_line_and_the_days_of_a_schedule(runtime: Tenant) -> None:
    made = runtime.add("a", every="1m")
    begin = runtime.now
    for _ in range(3):
        runtime.wait_and_step("1m")
        runtime.run()
    (day,) = days_of(runtime.runtime, made.uid, 2)
    assert day.counts["succeeded"] >= 3
    wanted = TimelineQuery(ScheduleFilter(text="a", is_failing=False), rows=5, width=MINUTE)
    found = timeline(runtime.runtime, begin, begin + 10 * MINUTE, wanted)
    assert [row.entry.schedule.state.schedule_id for row in found.rows] == ["a"] and len(
        found.stretches
    ) == 10
    rare = timeline(runtime.runtime, begin, begin + 10 * MINUTE, wanted._replace(rare=2))
    assert rare.bars == [] and sum(sum(one.counts.values()) for one in rare.stretches) == len(found.bars)
    assert (
        timeline(runtime.runtime, begin, begin + MINUTE, TimelineQuery(ScheduleFilter(is_held=True))).bars
        == []
    )


def test_the_slots_of_a_schedule_have_the_skips_that_only_its_row_counts(runtime: Tenant) -> None:
    made = runtime.add("a", every="10s", not_on=["mon"])
    runtime.step()
    for _ in range(4):
        runtime.wait_and_step("10s")
    runtime.pause("a")  # which writes what was gathered
    runtime.resume("a")
    for _ in range(8):
        runtime.wait_and_step("10s")
    entries = slots_of(runtime.runtime, made.uid, limit=50)
    assert {(entry.fate, entry.reason) for entry in entries} == {("skipped", "excluded_day")}
    assert [entry.count for entry in entries] == [7, 1, 4, 1]  # the first of a run has an event of its own
    assert entries[0].last_at == runtime.now and entries[0].slot_at == entries[0].first_at
    older = slots_of(runtime.runtime, made.uid, limit=50, before=entries[0].slot_at)
    assert [entry.count for entry in older] == [1, 4, 1]


def test_the_days_of_a_schedule_have_every_slot_that_did_not_fire(runtime: Tenant) -> None:
    """Those that an outage of three days missed lie on the days on which they were due."""
    often = runtime.add("often", every="10m", first_run="after_interval")
    quiet = runtime.add("quiet", every="10s", not_on=["mon"])
    runtime.step()
    for _ in range(11):
        runtime.wait_and_step("10s")
    (day,) = days_of(runtime.runtime, quiet.uid, 1)
    assert day.counts == {"skipped": 12}
    runtime.wait("72h")
    runtime.beat()
    runtime.step()
    counts = [day.counts.get("missed", 0) for day in days_of(runtime.runtime, often.uid, 5)]
    assert counts == [16 * 6 - 1, 144, 144, 8 * 6]  # the last one fired, a little late
    runtime.delete("often")
    assert [day.counts.get("missed", 0) for day in days_of(runtime.runtime, often.uid, 5)] == counts
