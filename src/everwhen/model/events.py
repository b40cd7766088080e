"""Events: those that are recorded (a closed list of types), and those that are derived from existing rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from everwhen.model.instants import SECOND
from everwhen.model.job import FINAL, Job, JobStatus, Origin, trace_id_of
from everwhen.model.outcome import summary_of

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
    "schedule.expired",
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
    "scheduler.recovered",
    "scheduler.clock_stepped",
    "scheduler.feed_delayed",
    "scheduler.feed_resumed",
    "node.lost",
    "node.unfit",
    "node.fit",
    "alert.sent",
    "alert.failed",
    "alert.acknowledged",
    "alert.silenced",
    "ping.dropped",
    "budget.warning",
    "budget.reached",
    "budget.refilled",
    "budget.unmeasured",
    "budget.measured",
    "request.refused",
    "system.paused",
    "system.resumed",
    "system.restored",
    "webhook.created",
    "webhook.updated",
    "webhook.disabled",
    "webhook.deleted",
]

# What each recorded event means: `docs/reference/events.md`.
MEANINGS: Mapping[EventType, str] = {
    "schedule.created": "A schedule was created.",
    "schedule.updated": "A schedule has a new revision.",
    "schedule.deleted": "A schedule was deleted; the event keeps its name and its key.",
    "schedule.paused": "A schedule was paused: by a person, a token, the configuration, an approval or a budget.",
    "schedule.resumed": "A paused schedule is active again.",
    "schedule.revived": "A dead or done schedule was started again.",
    "schedule.skipped": "A slot, or a range of slots, was skipped, with the reason.",
    "schedule.missed": "The time of a slot passed while no node could fire it, with the reason.",
    "schedule.caught_up": "One job replaces all slots that were missed.",
    "schedule.invalidated": "A schedule cannot run as configured.",
    "schedule.restored": "An invalid schedule can run again.",
    "schedule.done": "A schedule has no further slot: it ran once, or `end_at` or `total_repeats` was reached.",
    "schedule.died": "A schedule was stopped by too many failures in a row (`on_exhausted: stop`).",
    "schedule.approval_requested": "A schedule waits for the approval of a person.",
    "schedule.approved": "A person approved a schedule.",
    "schedule.declined": "A person declined a schedule.",
    "schedule.expired": "A schedule that was not approved in time was deleted.",
    "breaker.opened": "A circuit breaker opened after too many failures in a row.",
    "breaker.half_opened": "A circuit breaker tries one run.",
    "breaker.closed": "A circuit breaker closed: the trial run succeeded.",
    "breaker.reset": "A person closed a circuit breaker.",
    "job.cancelled": "A job was cancelled, with the reason.",
    "job.lost": "The lease of a running job expired.",
    "job.rescued": "A lost job was queued again.",
    "job.rerun": "A person ran a job again.",
    "job.triggered": "A person or a program ran a schedule by hand.",
    "schedule.overdue": "A slot is due, or held for a place, longer than the gap to the next and than a minute.",
    "schedule.failing": "Slots in a row ended failed: one where slots are an hour or more apart, else three.",
    "schedule.slow": "A run took much longer than usual.",
    "schedule.silent": "No success came in time, although `expect` requires one.",
    "config.reloaded": "The configuration file was loaded again.",
    "config.rejected": "A changed configuration file has mistakes; the former one stays in force.",
    "token.created": "A token was created.",
    "token.revoked": "A token was revoked.",
    "auth.denied": "A request was refused: its token is missing, wrong, or may not do this.",
    "scheduler.started": "A node started.",
    "scheduler.stopped": "A node stopped.",
    "scheduler.stalled": "A node is not ready.",
    "scheduler.recovered": "The node is ready again.",
    "scheduler.clock_stepped": "The clock of a machine was set.",
    "scheduler.feed_delayed": "A transaction that stays open holds back the streams of events.",
    "scheduler.feed_resumed": "That transaction has ended.",
    "node.lost": "A node is gone without having stopped.",
    "node.unfit": "The host of a node lets it begin no jobs: it gives them back, claims none, and tries again.",
    "node.fit": "Such a node can begin jobs again, or has stopped.",
    "alert.sent": "A message of an alert was delivered.",
    "alert.failed": "A message of an alert was given up.",
    "alert.acknowledged": "A person acknowledged an alert.",
    "alert.silenced": "A person silenced alerts.",
    "ping.dropped": "A ping was given up after five minutes.",
    "budget.warning": "80 % of a limit of a budget are used.",
    "budget.reached": "A limit of a budget is used up, or a slot did not fit.",
    "budget.refilled": "The window of such a limit is over.",
    "budget.unmeasured": "Ten runs in a row of a schedule with a cost budget reported no cost.",
    "budget.measured": "Such a schedule reported a cost again.",
    "webhook.created": "A webhook for events was registered.",
    "webhook.updated": "A webhook for events was changed, or switched on again.",
    "webhook.disabled": "A webhook for events was switched off, after a day of failures or with the end of its token.",
    "webhook.deleted": "A webhook for events was deleted.",
    "request.refused": "What a program requested inside its own transaction could not be carried out after the commit.",
    "system.paused": "The whole system was paused.",
    "system.resumed": "The system was resumed.",
    "system.restored": "The database was restored from a backup.",
}

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


# Derived events: firings, retries, holds, starts and ends, read from existing rows and not recorded.
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
DERIVED_MEANINGS: Mapping[DerivedType, str] = {
    "schedule.fired": "A slot, or a request, got a job.",
    "schedule.retried": "A failed slot got a further job.",
    "schedule.held": "A slot waits, with the reason.",
    "job.started": "An attempt started.",
    "job.succeeded": "A job succeeded.",
    "job.failed": "A job failed.",
    "job.timed_out": "A job took longer than its `timeout`.",
}
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
    error_type: str | None
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
        detail["error"] = summary_of(job.error, job.error_type)
    if job.error_type is not None:
        detail["error_type"] = job.error_type
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
