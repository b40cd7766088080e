"""Upcoming slots with their jitter and what will happen to them; previews."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from everwhen.decide.outlook import Conditions, coming_slots, explain_status, explain_system
from everwhen.model.declare import Declared
from everwhen.model.instants import SECOND
from everwhen.model.limits import FOR_EVER
from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import Plan, Schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.describe import describe, describe_dst
from everwhen.timetable.occurrences import Series, series_of
from everwhen.timetable.trigger import OnRequest

if TYPE_CHECKING:
    from everwhen.model.declare import Declared

_ALONE = Conditions()
A_DAY = 86_400
CHANGES_WITHIN = 2 * 366 * A_DAY
MOST_AROUND = 5_000


class UpcomingSlot(NamedTuple):
    """An upcoming slot. `is_estimate`: it depends on when something before it ends.

    `until`: how long the reason of a skip holds, if that is known; a slot that will be held fires then.
    """

    schedule_id: str
    slot_at: int
    due_at: int
    skip_reason: str | None = None
    is_estimate: bool = False
    hold_reason: str | None = None
    until: int | None = None
    timezone: str = "UTC"  # the schedule's


def upcoming(runtime: Runtime, schedule_id: str, count: int = 10) -> list[UpcomingSlot]:
    """Return the next slots of one schedule."""
    from everwhen.operations.schedules import get_schedule  # `why` needs none of what changes schedules

    schedule = get_schedule(runtime, schedule_id)
    return upcoming_of(schedule, count, conditions_of(runtime, [schedule]))


def upcoming_of_all(runtime: Runtime, count: int, wanted: ScheduleFilter) -> list[UpcomingSlot]:
    """Return the next slots of all schedules that match: they come from those that are due soonest."""
    soonest = store_of(runtime).catalogue.soonest(count, wanted)
    return list(islice(in_order(soonest, conditions_of(runtime, soonest)), count))


def conditions_of(runtime: Runtime, schedules: Sequence[Schedule]) -> Conditions:
    """Return the limits and breakers of these schedules, and whether the system is paused."""
    store = store_of(runtime)
    shared = store.catalogue.shared_of(*schedules)
    return Conditions(runtime.clock.now(), shared, store.catalogue.system_paused_at())


def explain_silence(runtime: Runtime, schedule: Schedule | None = None) -> str | None:
    """Explain why a schedule (any schedule, if none is given) does not fire in its present state, and what to do."""
    conditions = Conditions(
        runtime.clock.now(), system_paused_at=store_of(runtime).catalogue.system_paused_at()
    )
    conditions = describing(runtime, conditions, schedule)
    if schedule is None:
        return explain_system(conditions, zone(runtime.timezone))
    return explain_status(schedule, conditions) or explain_system(conditions, schedule.definition.zone)


def describing(runtime: Runtime, conditions: Conditions, schedule: Schedule | None) -> Conditions:
    """Return the conditions with all that an answer about a schedule in its present state describes."""
    labels = store_of(runtime).labels
    return replace(
        conditions,
        source=source_of(runtime, schedule),
        pause=labels.pause(schedule.state)
        if schedule is not None and schedule.state.status == "paused"
        else None,
        system_pause=None if conditions.system_paused_at is None else labels.system_pause(),
    )


def source_of(runtime: Runtime, schedule: Schedule | None) -> str | None:
    """Return where a schedule that is over is declared; of others no answer names it."""
    if schedule is None or schedule.state.status not in ("done", "dead"):
        return None
    entry = store_of(runtime).catalogue.entry(schedule.state.schedule_id)
    return None if entry is None else entry.source


def upcoming_of(schedule: Schedule, count: int, conditions: Conditions = _ALONE) -> list[UpcomingSlot]:
    """Return the next slots of a schedule in its present state."""
    return list(islice(coming(schedule, conditions), count))


def in_order(
    schedules: Iterable[Schedule], conditions: Conditions, start: int = 0, until: int = FOR_EVER
) -> Iterator[UpcomingSlot]:
    """Merge the slots of many schedules by due time; slots are computed only when consumed."""
    lines = (coming(schedule, conditions, start, until) for schedule in schedules)
    return merge(*lines, key=attrgetter("due_at", "schedule_id"))


def coming(
    schedule: Schedule, conditions: Conditions, start: int = 0, until: int = FOR_EVER
) -> Iterator[UpcomingSlot]:
    """Yield the slots of one schedule that are due in [start, until)."""
    schedule_id = schedule.state.schedule_id
    for slot in coming_slots(schedule, conditions, start, until):
        fate, reason, ends_at, _ = slot.outlook
        yield UpcomingSlot(
            schedule_id,
            slot_at=slot.slot_at,
            due_at=slot.due_at,
            skip_reason=reason if fate == "skipped" else None,
            is_estimate=slot.is_estimate,
            hold_reason=reason if fate == "held" else None,
            until=ends_at,
            timezone=schedule.definition.zone.name,
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """The trigger in words, and the slots, each with a note if a clock change affects it."""

    sentence: str
    slots: list[UpcomingSlot]
    notes: list[str | None]
    clock_change: ClockChange | None = None


class ClockChange(NamedTuple):
    """The next change of the offset of a schedule's zone behind the slots of a preview.

    `slot_at`: the first slot that it affects, with what it does to it; None: no slot is affected.
    """

    at: int
    forward: int  # by how many seconds the clock is put forward; negative: back
    slot_at: int | None = None
    note: str | None = None


def preview(runtime: Runtime, declared: Declared, count: int, *, waits: bool = False) -> Preview:
    """Preview a declared schedule without writing. `waits`: it fires from an approval on, as if that came now."""
    from everwhen.decide import edit
    from everwhen.decide.slots import slot_after_span
    from everwhen.operations.schedules import QuietHoursByName

    definition, now = declared.definition, runtime.clock.now()
    plan = Plan(declared.schedule_id, definition, QuietHoursByName(runtime).of(definition))
    state = edit.create(plan, declared.schedule_id, now).state
    if waits and not isinstance(definition.trigger, OnRequest):
        found = slot_after_span(plan, state.anchor_at, now, None)
        state = state._replace(
            anchor_at=found.anchor_at, next_slot_at=found.slot_at, next_run_at=found.due_at
        )
    slots = upcoming_of(Schedule(state, plan), count)
    series = series_of(
        definition.trigger,
        zone=definition.zone,
        anchor_at=(state.anchor_at or 0) // SECOND,
        dst=definition.dst,
    )
    notes = [describe_dst(series, slot.slot_at // SECOND) for slot in slots]
    begin = slots[-1].slot_at if slots else now
    change = find_clock_change(series, definition.zone, begin // SECOND)
    return Preview(describe(definition.trigger, definition.zone), slots, notes, change)


def find_clock_change(series: Series, zone: Zone, after: int) -> ClockChange | None:
    """Return the next change of the clock that affects a slot, or the next one at all; None: none within two years.

    Instants are in seconds here.
    """
    first: ClockChange | None = None
    span = zone.span_at(after)
    while span.end < after + CHANGES_WITHIN:
        following = zone.span_at(span.end)
        change = ClockChange(span.end * SECOND, following.offset - span.offset)
        # A gap and a fold are at most a day long; what they do to a slot shows at most that far from the change.
        for slot_at in series.between(max(span.end - A_DAY, after), span.end + A_DAY, MOST_AROUND):
            if (note := describe_dst(series, slot_at)) is not None:
                return change._replace(slot_at=slot_at * SECOND, note=note)
        first, span = first or change, following
    return first
