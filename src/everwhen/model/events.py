"""Events: those that are recorded (a closed list of types), and those that are derived from existing rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from everwhen.model.instants import SECOND
from everwhen.model.job import FINAL, Job, JobStatus, Origin, trace_id_of
from everwhen.model.outcome import message_of

EventType = Literal[
    "schedule.created",
    "schedule.updated",
    "schedule.deleted",
    "schedule.paused",
    "schedule.resumed",
    "schedule.revived",
    "schedule.skipped",
    "schedule.missed",
    "schedule.caught_up",
    "schedule.invalidated",
    "schedule.restored",
    "schedule.done",
    "schedule.died",
    "schedule.approval_requested",
    "schedule.approved",
    "schedule.declined",
    "breaker.opened",
    "breaker.half_opened",
    "breaker.closed",
    "breaker.reset",
    "job.cancelled",
    "job.lost",
    "job.rescued",
    "job.rerun",
    "job.triggered",
    "schedule.overdue",
    "schedule.failing",
    "schedule.slow",
    "schedule.silent",
    "config.reloaded",
    "config.rejected",
    "token.created",
    "token.revoked",
    "auth.denied",
    "scheduler.started",
    "scheduler.stopped",
    "scheduler.stalled",
    "scheduler.clock_stepped",
    "node.lost",
    "alert.sent",
    "budget.reached",
    "request.refused",
    "system.paused",
    "system.resumed",
    "system.restored",
]

NOTHING: Mapping[str, object] = MappingProxyType({})


class Event(NamedTuple):
    """One entry of the audit. A `slot_count` above 1 means a range of slots; `detail` holds its first and last."""

    type: EventType
    at: int
    schedule_id: str | None = None
    uid: str | None = None
    owner: str | None = None
    slot_at: int | None = None
    reason: str | None = None
    slot_count: int = 1
    job_id: str | None = None
    actor: str | None = None
    detail: Mapping[str, object] = NOTHING
    trace_id: str | None = None

    @property
    def trace(self) -> str | None:
        """Return the trace of the event: its own, or that of its job."""
        return self.trace_id or (None if self.job_id is None else trace_id_of(self.job_id))

    def row(self, detail: str) -> tuple[object, ...]:
        """Return the row of the event, in the order of the fields, with `detail` as text."""
        return (
            self.type,
            self.at,
            self.schedule_id,
            self.uid,
            self.owner,
            self.slot_at,
            self.reason,
            self.slot_count,
            self.job_id,
            self.actor,
            detail,
            self.trace,
        )


# Derived events: firings, retries, holds, starts and ends, read from existing rows and not recorded (L2).
#
# They are not audit events: they are not written, they have no number of their own, and the checker and `why`
# read the rows themselves. They have the shape of events, so that a list and a stream can contain both.


DerivedType = Literal[
    "schedule.fired",
    "schedule.retried",
    "schedule.held",
    "job.started",
    "job.succeeded",
    "job.failed",
    "job.timed_out",
]
ENDS: Mapping[JobStatus, DerivedType] = {
    "succeeded": "job.succeeded",
    "failed": "job.failed",
    "timed_out": "job.timed_out",
}
FIRING_ORIGINS: tuple[Origin, ...] = ("schedule", "catch_up", "manual", "backfill", "webhook", "chat")


class Firing(NamedTuple):
    """A job as it was enqueued, with its owner: that of its schedule, as long as the schedule exists."""

    row_id: int
    job_id: str
    uid: str
    schedule_id: str
    revision: int
    number: int
    retry: int
    origin: Origin
    slot_at: int
    created_at: int
    owner: str | None


class Progress(NamedTuple):
    """The start and the end of a job, from its row. Cancelled and lost jobs have audit events instead."""

    row_id: int
    job_id: str
    uid: str
    schedule_id: str
    origin: Origin
    slot_at: int
    status: JobStatus
    attempt: int
    started_at: int | None
    ended_at: int | None
    error: str | None
    node: str | None
    owner: str | None

    @property
    def is_over(self) -> bool:
        return self.status in FINAL


class Hold(NamedTuple):
    """A slot that is currently held."""

    row_id: int
    uid: str
    schedule_id: str
    owner: str | None
    slot_at: int
    due_at: int
    reason: str
    since: int
    key: str | None = None  # of the limit that it waits for


class Derived(NamedTuple):
    """One derived event, with those fields of an audit event that are known.

    `node`: of a start or an end, the node that ran the job.
    """

    type: DerivedType
    at: int
    schedule_id: str
    uid: str
    owner: str | None
    slot_at: int
    reason: str | None
    job_id: str | None
    detail: Mapping[str, object]
    node: str | None = None


# The columns that are read from a job; its schedule has the owner.
FIRING_COLUMNS = tuple(name for name in Firing._fields if name != "owner")
PROGRESS_COLUMNS = tuple(name for name in Progress._fields if name != "owner")


def firing_of(job: Job, owner: str | None) -> Firing:
    return Firing._make((*(getattr(job, name) for name in FIRING_COLUMNS), owner))


def progress_of(job: Job, owner: str | None) -> Progress:
    return Progress._make((*(getattr(job, name) for name in PROGRESS_COLUMNS), owner))


def event_of_start(job: Progress) -> Derived | None:
    """Return the event of an attempt's start, or None when no attempt has started."""
    if job.started_at is None:
        return None
    detail = {"origin": job.origin, "attempt": job.attempt}
    return _derived("job.started", job.started_at, job, detail, job_id=job.job_id)


def event_of_end(job: Progress) -> Derived | None:
    """Return the event of a run's end, or None when it has not ended or its end is an audit event."""
    kind = ENDS.get(job.status)
    if kind is None or job.ended_at is None:
        return None
    detail: dict[str, object] = {"origin": job.origin, "attempt": job.attempt}
    if job.started_at is not None:
        detail["seconds"] = (job.ended_at - job.started_at) / SECOND
    if job.error is not None:
        detail["error"] = message_of(job.error)
    return _derived(kind, job.ended_at, job, detail, job_id=job.job_id)


def type_of(origin: Origin) -> DerivedType:
    return "schedule.retried" if origin == "retry" else "schedule.fired"


def event_of_firing(firing: Firing) -> Derived:
    """Return the event of a firing or a retry, at the time when its job was enqueued."""
    detail = {"origin": firing.origin, "number": firing.number, "revision": firing.revision}
    if firing.retry:
        detail["retry"] = firing.retry
    return _derived(type_of(firing.origin), firing.created_at, firing, detail, job_id=firing.job_id)


def event_of_hold(hold: Hold) -> Derived:
    """Return the event of a held slot, at the time when the hold began."""
    return _derived("schedule.held", hold.since, hold, {"due_at": hold.due_at}, reason=hold.reason)


def _derived(
    kind: DerivedType,
    at: int,
    row: Firing | Progress | Hold,
    detail: Mapping[str, object],
    *,
    reason: str | None = None,
    job_id: str | None = None,
) -> Derived:
    return Derived(
        kind,
        at,
        row.schedule_id,
        row.uid,
        row.owner,
        slot_at=row.slot_at,
        reason=reason,
        job_id=job_id,
        detail=detail,
        node=row.node if isinstance(row, Progress) else None,
    )
