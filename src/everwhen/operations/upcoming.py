"""Upcoming slots with their jitter and what will happen to them; previews; the timeline of past and future."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple

from everwhen.decide.outlook import Conditions, coming_slots, explain_status, explain_system
from everwhen.errors import TimetableError
from everwhen.model.declare import Declared
from everwhen.model.instants import DAY, SECOND
from everwhen.model.job import Job
from everwhen.model.queries import EventFilter
from everwhen.model.schedule import Plan, Schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import zone
from everwhen.timetable.describe import describe, describe_dst
from everwhen.timetable.occurrences import series_of

if TYPE_CHECKING:
    from everwhen.model.declare import Declared

_ALONE = Conditions()


@dataclass(frozen=True, slots=True)
class UpcomingSlot:
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


def upcoming(runtime: Runtime, schedule_id: str, count: int = 10) -> list[UpcomingSlot]:
    """Return the next slots of one schedule."""
    from everwhen.operations.schedules import get_schedule  # `why` needs none of what changes schedules

    schedule = get_schedule(runtime, schedule_id)
    return upcoming_of(schedule, count, conditions_of(runtime, [schedule]))


def upcoming_of_all(runtime: Runtime, count: int, *, owner: str | None = None) -> list[UpcomingSlot]:
    """Return the next slots of all schedules, or of an owner's: they come from the schedules that are due soonest."""
    soonest = store_of(runtime).catalogue.soonest(count, owner=owner)
    return list(islice(in_order(soonest, conditions_of(runtime, soonest)), count))


def conditions_of(runtime: Runtime, schedules: Sequence[Schedule]) -> Conditions:
    """Return the limits and breakers of these schedules, and whether the system is paused."""
    store = store_of(runtime)
    shared = store.catalogue.shared_of(*schedules)
    return Conditions(runtime.clock.now(), shared, store.catalogue.system_paused_at())


def explain_silence(runtime: Runtime, schedule: Schedule | None = None) -> str | None:
    """Explain why a schedule (any schedule, if none is given) does not fire in its present state, and what to do."""
    conditions = Conditions(
        runtime.clock.now(),
        system_paused_at=store_of(runtime).catalogue.system_paused_at(),
        source=source_of(runtime, schedule),
    )
    if schedule is None:
        return explain_system(conditions, zone(runtime.timezone))
    return explain_status(schedule, conditions) or explain_system(conditions, schedule.definition.zone)


def source_of(runtime: Runtime, schedule: Schedule | None) -> str | None:
    """Return where a schedule that is over is declared; of others no answer names it."""
    if schedule is None or schedule.state.status not in ("done", "dead"):
        return None
    entry = store_of(runtime).catalogue.entry(schedule.state.schedule_id)
    return None if entry is None else entry.source


def upcoming_of(schedule: Schedule, count: int, conditions: Conditions = _ALONE) -> list[UpcomingSlot]:
    """Return the next slots of a schedule in its present state."""
    return list(islice(coming(schedule, conditions), count))


def in_order(schedules: Iterable[Schedule], conditions: Conditions, start: int = 0) -> Iterator[UpcomingSlot]:
    """Merge the slots of many schedules by due time; slots are computed only when consumed."""
    lines = (coming(schedule, conditions, start) for schedule in schedules)
    return merge(*lines, key=lambda slot: (slot.due_at, slot.schedule_id))


def coming(schedule: Schedule, conditions: Conditions, start: int = 0) -> Iterator[UpcomingSlot]:
    """Yield the slots of one schedule that are due at or after `start`."""
    schedule_id = schedule.state.schedule_id
    for slot in coming_slots(schedule, conditions, start):
        fate, reason, until = slot.outlook
        yield UpcomingSlot(
            schedule_id,
            slot_at=slot.slot_at,
            due_at=slot.due_at,
            skip_reason=reason if fate == "skipped" else None,
            is_estimate=slot.is_estimate,
            hold_reason=reason if fate == "held" else None,
            until=until,
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """The trigger in words, and the slots, each with a note if a clock change affects it."""

    sentence: str
    slots: list[UpcomingSlot]
    notes: list[str | None]


def preview(runtime: Runtime, declared: Declared, count: int) -> Preview:
    """Preview a declared schedule without writing."""
    from everwhen.decide import edit
    from everwhen.operations.schedules import QuietHoursByName

    definition, now = declared.definition, runtime.clock.now()
    plan = Plan(declared.schedule_id, definition, QuietHoursByName(runtime).of(definition))
    state = edit.create(plan, declared.schedule_id, now).state
    slots = upcoming_of(Schedule(state, plan), count)
    series = series_of(
        definition.trigger,
        zone=definition.zone,
        anchor_at=(state.anchor_at or 0) // SECOND,
        dst=definition.dst,
    )
    notes = [describe_dst(series, slot.slot_at // SECOND) for slot in slots]
    return Preview(describe(definition.trigger, definition.zone), slots, notes)


# A timeline of past and future: jobs and skips of the past from the ledger, upcoming slots from calendars.
#
# The work is bounded, whatever the span and the number of schedules: above 10,000 bars the past is counted by
# intervals, and the future ends at the instant at which that many are reached.


MOST_BARS = 10_000
STRETCHES = 200
LONGEST = 400 * DAY

Kind = Literal["job", "skipped", "missed", "upcoming"]


class Bar(NamedTuple):
    """One slot: what happened to it, or what will."""

    kind: Kind
    schedule_id: str
    slot_at: int
    due_at: int
    slots: int = 1  # that one event covers
    reason: str | None = None
    job: Job | None = None
    is_estimate: bool = False


class Stretch(NamedTuple):
    """A part of the span, with the number of entries by kind; of jobs, by status."""

    start: int
    end: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bars, or their numbers (`stretches`). `complete_until`: the end of the part of the future that is included."""

    now: int
    bars: list[Bar]
    stretches: list[Stretch]
    complete_until: int

    @property
    def is_aggregated(self) -> bool:
        return bool(self.stretches)


def timeline(runtime: Runtime, start: int, end: int, *, owner: str | None = None) -> Timeline:
    """Return the span [start, end), of all schedules or of an owner's."""
    if not 0 < end - start <= LONGEST:
        raise TimetableError("to must be after from, by at most 400 days", key="to", value=end)
    now = runtime.clock.now()
    future, complete_until = _future(runtime, start, end, owner)
    past = _past(runtime, start, min(end, now + 1), owner)
    bars = sorted(past + future, key=lambda bar: (bar.due_at, bar.schedule_id))
    if len(bars) <= MOST_BARS:
        return Timeline(now, bars, [], complete_until)
    return Timeline(now, [], _stretches(runtime, start, end, bars, owner), complete_until)


def _past(runtime: Runtime, start: int, end: int, owner: str | None) -> list[Bar]:
    store = store_of(runtime)
    jobs = store.ledger.jobs_between(start, end, owner=owner, limit=MOST_BARS + 1)
    found = [Bar("job", job.schedule_id, job.slot_at, job.due_at, reason=job.reason, job=job) for job in jobs]
    wanted = EventFilter(types=("schedule.skipped", "schedule.missed"), since=start, until=end)
    for recorded in store.ledger.events(wanted, limit=MOST_BARS + 1):
        event = recorded.event
        kind: Kind = "skipped" if event.type == "schedule.skipped" else "missed"
        slot_at = event.slot_at if event.slot_at is not None else event.at
        if owner in (None, event.owner):
            name, count = event.schedule_id or "", event.slot_count
            found.append(Bar(kind, name, slot_at, slot_at, count, reason=event.reason))
    return found


def _future(runtime: Runtime, start: int, end: int, owner: str | None) -> tuple[list[Bar], int]:
    """Return the first upcoming slots in order, also undecided ones that are due, and until when they are complete.

    Only the schedules that are due soonest are read. If there are more, the slots of the others begin where the first
    of those is due, and up to there nothing is missing.
    """
    store = store_of(runtime)
    if not any((each.state.next_run_at or end) < end for each in store.catalogue.soonest(1, owner=owner)):
        return [], end  # nearly always a span of the past
    soonest = store.catalogue.soonest(MOST_BARS + 1, owner=owner)
    if len(soonest) > MOST_BARS:
        end = min(end, soonest.pop().state.next_run_at or end)
    conditions = conditions_of(runtime, soonest)
    slots = takewhile(lambda slot: slot.due_at < end, in_order(soonest, conditions, start))
    found: list[Bar] = []
    for slot in islice(slots, MOST_BARS + 1):
        reason = slot.skip_reason or slot.hold_reason
        bar = Bar("upcoming", slot.schedule_id, slot.slot_at, slot.due_at, reason=reason)
        found.append(bar._replace(is_estimate=slot.is_estimate))
    return found, found[-1].due_at if len(found) > MOST_BARS else end


def _stretches(runtime: Runtime, start: int, end: int, bars: list[Bar], owner: str | None) -> list[Stretch]:
    """Count by intervals: the database counts all jobs, the other kinds are counted from the bars."""
    width = -(-(end - start) // STRETCHES)
    counts: list[Counter[str]] = [Counter() for _ in range(STRETCHES)]
    for found in store_of(runtime).ledger.job_counts(
        start, min(end, runtime.clock.now() + 1), owner=owner, width=width
    ):
        counts[found.stretch][found.status] += found.jobs
    for bar in bars:
        number = (bar.due_at - start) // width
        if bar.kind != "job" and 0 <= number < STRETCHES:
            counts[number][bar.kind] += bar.slots
    return [
        Stretch(start + number * width, min(start + (number + 1) * width, end), dict(found))
        for number, found in enumerate(counts)
        if start + number * width < end
    ]
