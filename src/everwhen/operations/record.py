"""What one schedule did, from the record: slots, figures, revisions; also after it was deleted (X4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from everwhen.model.events import Event
from everwhen.model.history import OF_SLOTS, Revision
from everwhen.model.job import FAILURES, Job
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

Fate = Literal["fired", "skipped", "missed", "caught_up", "held"]
MOST_LOOKED_AT = 1_000  # jobs from which figures are computed


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
    """Statistics of the last jobs; durations in microseconds."""

    looked_at: int
    succeeded: int
    failed: int
    cancelled: int
    shortest: int | None = None
    median: int | None = None
    nearly_longest: int | None = None  # the 95th percentile
    longest: int | None = None
    since: int | None = None


def slots_of(runtime: Runtime, uid: str, *, limit: int, before: int | None = None) -> list[SlotEntry]:
    """Return what happened to the slots before an instant, newest first."""
    store = store_of(runtime)
    own = JobFilter(uid=uid, origins=("schedule", "catch_up"), until=before)
    jobs = store.ledger.jobs(own, limit=limit)
    events = store.ledger.events(EventFilter(uid=uid, types=tuple(OF_SLOTS), slots_until=before), limit=limit)
    found = [SlotEntry(job.slot_at, "fired", None, job) for job in jobs]
    found += [_entry(recorded.event) for recorded in events]
    if before is None:
        schedule = store.catalogue.get(uid)
        if schedule is not None and schedule.state.held_slot_at is not None:
            found.append(SlotEntry(schedule.state.held_slot_at, "held", schedule.state.held_reason))
    return sorted(found, key=lambda entry: -entry.slot_at)[:limit]


def _entry(event: Event) -> SlotEntry:
    fate: Fate = event.type.removeprefix("schedule.")  # type: ignore[assignment]  # one of OF_SLOTS
    ends = (event.detail.get(end, event.slot_at) for end in ("first", "last"))
    first, last = (at if isinstance(at, int) else event.slot_at for at in ends)
    slot_at, count = event.slot_at or 0, event.slot_count
    return SlotEntry(slot_at, fate, event.reason, count=count, first_at=first, last_at=last)


def figures_of(runtime: Runtime, uid: str) -> Figures:
    """Compute the statistics of the last jobs of a schedule."""
    jobs = store_of(runtime).ledger.jobs(JobFilter(uid=uid), limit=MOST_LOOKED_AT)
    ended = [job for job in jobs if job.ended_at is not None]
    lengths = sorted((job.ended_at or 0) - job.started_at for job in ended if job.started_at is not None)
    last = len(lengths) - 1
    figures = Figures(
        looked_at=len(jobs),
        succeeded=sum(job.status == "succeeded" for job in ended),
        failed=sum(job.status in FAILURES for job in ended),
        cancelled=sum(job.status == "cancelled" for job in ended),
        since=jobs[-1].created_at if jobs else None,
    )
    if not lengths:
        return figures
    return replace(
        figures,
        shortest=lengths[0],
        median=lengths[last // 2],
        nearly_longest=lengths[last * 95 // 100],
        longest=lengths[-1],
    )


def revisions_of(runtime: Runtime, uid: str) -> list[Revision]:
    """Return the revisions of a definition, newest first."""
    with store_of(runtime).ledger.history([uid]) as record:
        history = next(iter(record.histories))
        return list(reversed(history.revisions))
