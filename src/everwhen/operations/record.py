"""What one schedule did, from the record: slots, figures, revisions; also after it was deleted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, NamedTuple

from everwhen.decide.coming_counts import Cell
from everwhen.decide.slow import usual_duration
from everwhen.model.events import Event
from everwhen.model.history import OF_SLOTS, Revision
from everwhen.model.instants import DAY, MINUTE, SECOND
from everwhen.model.job import FAILURES, Job
from everwhen.model.queries import EventFilter, JobFilter, ScheduleFilter
from everwhen.model.schedule import Schedule, State
from everwhen.model.slot_range import SlotRange
from everwhen.operations.access import MOST_OF_PAGE
from everwhen.operations.timeline_bars import (
    MOST_RANGES,
    NOT_FIRED,
    Counts,
    Stretches,
    range_of,
)
from everwhen.runtime import Runtime
from everwhen.store.ledger import Ledger
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import Zone, zone

Fate = Literal["fired", "skipped", "missed", "caught_up", "held"]
MOST_LOOKED_AT = 1_000  # jobs from which figures are computed
QUARTER = 15 * MINUTE


@dataclass(frozen=True, slots=True)
class SlotEntry:
    """One slot, or a range of slots that one event covers: the first, the last, their number."""

    slot_at: int
    fate: Fate
    reason: str | None = None
    job: Job | None = None
    count: int = 1
    first_at: int | None = None
    last_at: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Statistics of the last jobs; durations in microseconds, of those that began (`timed`)."""

    looked_at: int
    succeeded: int
    failed: int
    cancelled: int
    timed: int = 0
    shortest: int | None = None
    median: int | None = None
    nearly_longest: int | None = None  # the 95th percentile, where there are enough to speak of one
    longest: int | None = None
    since: int | None = None


def slots_of(runtime: Runtime, uid: str, *, limit: int, before: int | None = None) -> list[SlotEntry]:
    """Return what happened to the slots before an instant, newest first."""
    store = store_of(runtime)
    own = JobFilter(uid=uid, origins=("schedule", "catch_up"), until=before)
    jobs = store.ledger.jobs(own, limit=limit)
    events = store.ledger.events(EventFilter(uid=uid, types=tuple(OF_SLOTS), slots_until=before), limit=limit)
    entries = [SlotEntry(job.slot_at, "fired", None, job) for job in jobs]
    entries += [_entry(recorded.event) for recorded in events]
    schedule = store.catalogue.get(uid)
    on_row = [] if schedule is None else _entries_on_row(schedule.state)
    entries += [entry for entry in on_row if before is None or entry.slot_at < before]
    return sorted(entries, key=lambda entry: -entry.slot_at)[:limit]


def _entries_on_row(state: State) -> list[SlotEntry]:
    """Return what only the row of a schedule has: the slot that it holds, and the skips that no event records yet."""
    entries = []
    if state.held_slot_at is not None:
        entries.append(SlotEntry(state.held_slot_at, "held", state.held_reason))
    if state.skip_first_at is not None:
        ends = (state.skip_first_at, state.skip_last_at)
        entries.append(
            SlotEntry(state.skip_first_at, "skipped", state.skip_reason, None, state.skip_count, *ends)
        )
    return entries


def _entry(event: Event) -> SlotEntry:
    fate: Fate = event.type.removeprefix("schedule.")  # type: ignore[assignment]  # one of OF_SLOTS
    ends = (event.detail.get(end, event.slot_at) for end in ("first", "last"))
    first, last = (at if isinstance(at, int) else event.slot_at for at in ends)
    slot_at, count = event.slot_at or 0, event.slot_count
    return SlotEntry(slot_at, fate, event.reason, count=count, first_at=first, last_at=last)


class Day(NamedTuple):
    """One day, and how many jobs and slots it had: jobs by status, slots as skipped or missed."""

    day: date
    counts: dict[str, int]


def last_jobs(runtime: Runtime, uid: str) -> list[Job]:
    """Return the jobs that the statistics of a schedule are about, newest first."""
    return store_of(runtime).ledger.jobs(JobFilter(uid=uid), limit=MOST_LOOKED_AT)


def days_of(runtime: Runtime, uid: str, count: int) -> list[Day]:
    """Count the jobs and slots of the last days in the schedule's zone, the oldest first; empty days are left out.

    The database counts by quarters of an hour, at which every zone's days begin.
    """
    schedule, now = store_of(runtime).catalogue.get(uid), runtime.clock.now()
    days_in = zone(runtime.timezone) if schedule is None else schedule.definition.zone
    until = -(-(now + 1) // QUARTER) * QUARTER
    since = until - count * DAY
    counts: dict[date, Counter[str]] = defaultdict(Counter)
    ledger = store_of(runtime).ledger
    for found in ledger.job_counts_of(uid, since, until, width=QUARTER):
        counts[_day_of(since + found.stretch * QUARTER, days_in)][found.status] += found.jobs
    span = Stretches(since, until, QUARTER)
    for cell, slots in _count_not_fired(ledger, uid, span, schedule).items():
        counts[_day_of(since + cell.stretch * QUARTER, days_in)][cell.word] += slots
    return [Day(day, dict(counts[day])) for day in sorted(counts)]


def _count_not_fired(ledger: Ledger, uid: str, span: Stretches, schedule: Schedule | None) -> Counter[Cell]:
    """Count the slots that did not fire: those with events of their own, ranges, and what only the row counts."""
    limits, counts = (span.start, span.end, ScheduleFilter(uids={uid})), Counts()
    for skips in ledger.skip_counts(*limits, width=span.width):
        counts[Cell(skips.stretch, NOT_FIRED[skips.type])] += skips.slots
    behind = 0
    while ranges := ledger.skip_ranges(*limits, limit=MOST_RANGES, behind=behind):
        for event in ranges:
            if (slots := range_of(event)) is not None:
                span.add_range(counts, slots, NOT_FIRED[event.type])
        behind += len(ranges)
    for entry in [] if schedule is None else _entries_on_row(schedule.state):
        if entry.fate == "skipped":
            first, last = entry.first_at or entry.slot_at, entry.last_at or entry.slot_at
            span.add_range(counts, SlotRange(first, last, entry.count), entry.fate)
    return counts


def _day_of(instant: int, days_in: Zone) -> date:
    return days_in.datetime(instant // SECOND).date()


def figures_of(jobs: Sequence[Job]) -> Figures:
    """Compute the statistics of the last jobs of a schedule."""
    ended = [job for job in jobs if job.ended_at is not None]
    lengths = sorted((job.ended_at or 0) - job.started_at for job in ended if job.started_at is not None)
    last = len(lengths) - 1
    figures = Figures(
        looked_at=len(jobs),
        succeeded=sum(job.status == "succeeded" for job in ended),
        failed=sum(job.status in FAILURES for job in ended),
        cancelled=sum(job.status == "cancelled" for job in ended),
        timed=len(lengths),
        since=jobs[-1].created_at if jobs else None,
    )
    if not lengths:
        return figures
    return replace(
        figures,
        shortest=lengths[0],
        median=lengths[last // 2],
        nearly_longest=usual_duration(lengths),
        longest=lengths[-1],
    )


class RevisionPage(NamedTuple):
    """Some of the revisions of a definition, newest first; `next_before`: where the next page begins, if any."""

    revisions: list[Revision]
    total: int
    next_before: int | None


def list_revisions(runtime: Runtime, uid: str, *, limit: int, before: int | None = None) -> RevisionPage:
    """Return a page of the revisions of a definition; one of large ones ends early."""
    found, total = store_of(runtime).ledger.revisions(uid, limit=limit, before=before, most=MOST_OF_PAGE)
    has_more = bool(found) and found[-1].revision > 1 and len(found) < total
    return RevisionPage(found, total, found[-1].revision if has_more else None)
