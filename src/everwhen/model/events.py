"""The audit events that are recorded. The list of types is closed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from everwhen.model.job import trace_id_of

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
