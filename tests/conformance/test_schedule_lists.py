"""Lists of schedules, compared with what Python makes of all schedules: which match, in which order, and how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

import pytest

from everwhen.model.instants import MINUTE
from everwhen.model.queries import SORTS, Entry, Facet, ScheduleFilter, ScheduleOrder
from everwhen.model.schedule import State
from everwhen.model.token import Token, TokenLimits
from everwhen.operations.access import Caller, list_entries
from tests.conformance.tenant import Tenant

ANYBODY = Caller(Token("t", "t", "admin", None, TokenLimits(), 0))
FACETS: tuple[Facet, ...] = ("status", "group", "owner", "type")
MOVED = ("failed_slots", "running_jobs", "held_slot_at", "last_fired_at")
FILTERS = (
    ScheduleFilter(),
    ScheduleFilter(status="paused"),
    ScheduleFilter(status="active"),
    ScheduleFilter(is_failing=True),
    ScheduleFilter(is_running=True),
    ScheduleFilter(is_held=True),
    ScheduleFilter(is_failing=True, is_running=True),
    ScheduleFilter(status="active", is_failing=True),
    ScheduleFilter(paused_by="person"),
    ScheduleFilter(text="S1"),
    ScheduleFilter(text="s1", owner="ada", is_failing=True),
    ScheduleFilter(group="g1", type="cron"),
    ScheduleFilter(text="nothing has this"),
)


@pytest.fixture
def everything(runtime: Tenant) -> Iterator[list[Entry]]:
    """Add schedules with columns that a generator with a fixed start chose; yield them, the oldest first.

    What did not happen to them is taken back, for the ledger is checked when a test is over.
    """
    chosen, before = Random(7), dict[str, State]()
    for number in range(24):
        group = chosen.choice((None, "g1", "g2"))
        name = f"{group or 'none'}.{chosen.choice('sSt')}{number}"
        trigger = {"cron": "0 9 * * *"} if chosen.random() < 0.5 else {"every": "1h"}
        runtime.add(name, group=group, owner=chosen.choice((None, "ada", "bob")), **trigger)
        if chosen.random() < 0.25:
            runtime.pause(name)
        before[name] = runtime.state(name)
        runtime.move_row(
            name,
            failed_slots=chosen.choice((0, 0, 2)),
            running_jobs=chosen.choice((0, 0, 1)),
            held_slot_at=chosen.choice((None, None, runtime.now)),
            last_fired_at=chosen.choice((None, runtime.now, runtime.now + number * MINUTE)),
        )
    yield runtime.runtime.catalogue.entries(ScheduleFilter(), limit=100)[::-1]
    for name, state in before.items():
        runtime.move_row(name, **{column: getattr(state, column) for column in MOVED})


def matches(entry: Entry, wanted: ScheduleFilter) -> bool:
    state, definition = entry.schedule.state, entry.schedule.definition
    conditions = (
        wanted.status in (None, state.status),
        wanted.group in (None, definition.group),
        wanted.owner in (None, state.owner),
        wanted.type in (None, type_of(entry)),
        wanted.paused_by in (None, state.paused_by),
        (wanted.text or "").lower() in f"{definition.name or ''}\n{state.schedule_id}".lower(),
        not wanted.is_failing or state.failed_slots > 0,
        not wanted.is_running or state.running_jobs > 0,
        not wanted.is_held or state.held_slot_at is not None,
    )
    return all(conditions)


def type_of(entry: Entry) -> str:
    return "cron" if "Cron" in type(entry.schedule.definition.trigger).__name__ else "interval"


def counted(entries: Iterable[Entry], facet: Facet) -> dict[str, int]:
    values = Counter(
        {
            "status": lambda entry: entry.schedule.state.status,
            "group": lambda entry: entry.schedule.definition.group or "",
            "owner": lambda entry: entry.schedule.state.owner or "",
            "type": type_of,
        }[facet](entry)
        for entry in entries
    )
    return dict(sorted(values.items(), key=lambda item: (-item[1], item[0])))


def ordered(entries: list[Entry], order: ScheduleOrder, *, is_descending: bool) -> list[str]:
    """Order them as a person would: equal ones by age, those without a value last."""

    def value(entry: Entry) -> object:
        state = entry.schedule.state
        return {
            "created_at": state.row_id,
            "name": state.schedule_id.lower(),
            "status": state.status,
            "owner": state.owner or "",
            "next_run_at": state.next_run_at,
            "last_fired_at": state.last_fired_at,
        }[order]

    there = [entry for entry in entries if value(entry) is not None]
    there.sort(key=lambda entry: (value(entry), entry.schedule.state.row_id), reverse=is_descending)
    empty = [entry for entry in entries if value(entry) is None]
    return [entry.schedule.state.uid for entry in there + (list(reversed(empty)) if is_descending else empty)]


def test_every_filter_finds_and_counts_what_python_finds(runtime: Tenant, everything: list[Entry]) -> None:
    for wanted, limit in product(FILTERS, (3, 50)):
        matching = [entry for entry in everything if matches(entry, wanted)]
        page = list_entries(runtime.runtime, wanted, ANYBODY, limit=limit, facets=FACETS)
        uncounted = list_entries(runtime.runtime, wanted, ANYBODY, limit=limit)
        assert page.entries == uncounted.entries == matching[::-1][:limit], wanted
        assert (page.total, page.is_approximate) == (len(matching), False), wanted
        assert (uncounted.total, uncounted.facets) == (len(matching), None), wanted


def test_columns_are_counted_as_python_counts_them(runtime: Tenant, everything: list[Entry]) -> None:
    catalogue = runtime.runtime.catalogue
    for wanted in FILTERS:
        found = catalogue.facets(wanted, FACETS, most=9)
        matching = [entry for entry in everything if matches(entry, wanted)]
        states = [entry.schedule.state for entry in matching]
        notes = {word: found["status"].pop(word) for word in ("failing", "running", "held")}
        assert notes == {
            "failing": sum(state.failed_slots > 0 for state in states),
            "running": sum(state.running_jobs > 0 for state in states),
            "held": sum(state.held_slot_at is not None for state in states),
        }, wanted
        for facet in FACETS:
            assert list(found[facet].items()) == list(counted(matching, facet).items()), (wanted, facet)
            most = catalogue.facets(wanted, (facet,), most=1)[facet]
            frequent = dict(list(counted(matching, facet).items())[:1])
            assert most == (frequent | notes if facet == "status" else frequent), (wanted, facet)


def test_every_order_is_the_order_of_python_on_every_page(runtime: Tenant, everything: list[Entry]) -> None:
    catalogue = runtime.runtime.catalogue
    for order, is_descending in SORTS.values():
        for wanted in (ScheduleFilter(), ScheduleFilter(text="1")):
            matching = [entry for entry in everything if matches(entry, wanted)]
            pages = [
                catalogue.ordered_entries(wanted, order, is_descending=is_descending, limit=5, offset=offset)
                for offset in range(0, 30, 5)
            ]
            found = [entry.schedule.state.uid for page in pages for entry in page]
            assert found == ordered(matching, order, is_descending=is_descending), (order, is_descending)


def test_a_text_with_letters_beyond_ascii_is_found(runtime: Tenant) -> None:
    runtime.add("a", every="1h", name="Ärger 7")
    for text, is_found in (("Ärger", True), ("ÄRGER 7", True), ("rGe", True), ("Arger", False)):
        page = list_entries(runtime.runtime, ScheduleFilter(text=text), ANYBODY, limit=5)
        assert (page.total == 1) is is_found, text
