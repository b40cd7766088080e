"""The check whether a schedule would fire now, in the order of E2."""

from __future__ import annotations

from everwhen.decide import breaker as breakers
from everwhen.model.reasons import ScheduleCheckResult, ScheduleSkipReason
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.timetable.trigger import OnRequest


def check_schedule(schedule: Schedule, now: int, shared: Shared) -> ScheduleCheckResult:
    """Check status, overlap, capacity and due time, then closed times, breaker, budget and guard; report the first."""
    reason = _first_reason(schedule, now, shared)
    return ScheduleCheckResult(reason is None, reason)


def _first_reason(schedule: Schedule, now: int, shared: Shared) -> ScheduleSkipReason | None:
    state, definition = schedule.state, schedule.definition
    capacity, guard = definition.capacity, definition.guard
    if isinstance(definition.trigger, OnRequest):
        return "unsupported_type"
    if state.status != "active":
        return "disabled"
    if state.outstanding and definition.if_running == "skip":
        return "already_running"
    is_limited = definition.if_running in ("skip", "allow")  # the other values enqueue the job, which waits
    if is_limited and capacity is not None and shared.limit(capacity.key).outstanding >= capacity.limit:
        return "at_capacity"
    if state.next_run_at is None or state.next_run_at > now:
        return "not_due"
    closed = schedule.plan.calendar(state.anchor_at).closed_reason(now)
    if closed is not None:
        return closed
    if breakers.gate(shared, definition.breaker, now) == "shut":
        return "circuit_open"
    if shared.spent_budget(definition.budgets, now) is not None:
        return "budget"
    if is_limited and guard is not None and shared.limit(guard.key).outstanding >= guard.limit:
        return "outstanding_limit"
    return None
