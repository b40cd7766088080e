"""What one schedule did, as the record has it: slots, figures, revisions; also after it was deleted (X4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from everwhen.errors import UnknownScheduleError
from everwhen.model.events import Event
from everwhen.model.history import OF_SLOTS, Revision
from everwhen.model.job import FAILURES, Job
from everwhen.model.schedule import State
from everwhen.model.shared import FOR_EVER
from everwhen.operations.submissions import Caller
from everwhen.ports.ledger import EventFilter, JobFilter
from everwhen.ports.runtime import Runtime

Fate = Literal["fired", "skipped", "missed", "caught_up", "held"]
MOST_LOOKED_AT = 1_000  # jobs that figures are made from

_FATES: dict[str, Fate] = {
    "schedule.skipped": "skipped",
    "schedule.missed": "missed",
    "schedule.caught_up": "caught_up",
}


@dataclass(frozen=True, slots=True)
class SlotEntry:
    """One slot, or a range of slots that one event stands for: the first, the last, how many."""

    slot_at: int
    fate: Fate
    reason: str | None = None
    job: Job | None = None
    count: int = 1
    first_at: int | None = None
    last_at: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """How the last jobs went; durations in microseconds."""

    looked_at: int
    succeeded: int
    failed: int
    cancelled: int
    shortest: int | None = None
    median: int | None = None
    nearly_longest: int | None = None  # 95 of 100 are shorter
    longest: int | None = None
    since: int | None = None


def uid_for(runtime: Runtime, schedule_id: str, caller: Caller, at: int = FOR_EVER) -> str:
    """The uid behind an id that the caller may ask about, also when its schedule is deleted.

    One that was deleted and added again has two lives under one id; `at` chooses the one that had begun by then.
    """
    entry = runtime.catalogue.entry(schedule_id)
    if entry is not None:
        caller.refuse_stranger(entry.schedule)
        earlier = _gone(runtime, schedule_id, caller, at) if at < entry.created_at else None
        return earlier or entry.schedule.state.uid
    uid = _gone(runtime, schedule_id, caller, at)
    if uid is None:
        raise UnknownScheduleError(schedule_id)
    return uid


def _gone(runtime: Runtime, schedule_id: str, caller: Caller, at: int) -> str | None:
    """The uid that the record knows under an id, if the caller may see it."""
    uid = runtime.ledger.uid_of(schedule_id, at) if _is_a_name(schedule_id) else None
    last = runtime.ledger.events(EventFilter(uid=uid), limit=1) if uid is not None else []
    return uid if last and caller.token.sees(last[0].event.owner) else None


def _is_a_name(schedule_id: str) -> bool:
    plain = schedule_id.replace("-", "").replace("_", "").replace(".", "")
    return plain.isascii() and plain.isalnum() and len(schedule_id) <= 201


def slots_of(runtime: Runtime, uid: str, *, limit: int, before: int | None = None) -> list[SlotEntry]:
    """What became of the slots before an instant, newest first."""
    own = JobFilter(uid=uid, origins=("schedule", "catch_up"), until=before)
    jobs = runtime.ledger.jobs(own, limit=limit)
    events = runtime.ledger.events(
        EventFilter(uid=uid, types=tuple(OF_SLOTS), slots_until=before), limit=limit
    )
    found = [SlotEntry(job.slot_at, "fired", None, job) for job in jobs]
    found += [_entry(recorded.event) for recorded in events]
    if before is None:
        schedule = runtime.catalogue.get(uid)
        found += _held(schedule.state) if schedule is not None else []
    return sorted(found, key=lambda entry: -entry.slot_at)[:limit]


def _held(state: State) -> list[SlotEntry]:
    if state.held_slot_at is None:
        return []
    return [SlotEntry(state.held_slot_at, "held", state.held_reason)]


def _entry(event: Event) -> SlotEntry:
    first, last = event.detail.get("first"), event.detail.get("last")
    return SlotEntry(
        event.slot_at or 0,
        _FATES[event.type],
        event.reason,
        count=event.slot_count,
        first_at=first if isinstance(first, int) else event.slot_at,
        last_at=last if isinstance(last, int) else event.slot_at,
    )


def figures_of(runtime: Runtime, uid: str) -> Figures:
    """How the last jobs of a schedule went."""
    jobs = runtime.ledger.jobs(JobFilter(uid=uid), limit=MOST_LOOKED_AT)
    ended = [job for job in jobs if job.ended_at is not None]
    return Figures(
        looked_at=len(jobs),
        succeeded=sum(job.status == "succeeded" for job in ended),
        failed=sum(job.status in FAILURES for job in ended),
        cancelled=sum(job.status == "cancelled" for job in ended),
        **_durations(
            sorted(
                job.ended_at - job.started_at
                for job in ended
                if job.ended_at is not None and job.started_at is not None
            )
        ),
        since=jobs[-1].created_at if jobs else None,
    )


def _durations(lengths: Sequence[int]) -> dict[str, int]:
    if not lengths:
        return {}
    last = len(lengths) - 1
    return {
        "shortest": lengths[0],
        "median": lengths[last // 2],
        "nearly_longest": lengths[last * 95 // 100],
        "longest": lengths[-1],
    }


def revisions_of(runtime: Runtime, uid: str) -> list[Revision]:
    """The revisions of a definition, newest first."""
    with runtime.ledger.history([uid]) as record:
        history = next(iter(record.histories))
        return list(reversed(history.revisions))
