"""The closed list of reasons, each with its text. Every slot that did not fire has one of these.

A text is a clause with names of figures, which `decide.outlook` fills in. `were` and `are` in it are replaced by the
verb in the right tense: what was, is, or will be in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

SkipReason = Literal[
    "excluded_day",
    "outside_window",
    "quiet_hours",
    "circuit_open",
    "already_running",
    "retrying",
    "queue_full",
    "budget",
    "superseded",
    "edited",
    "paused",
]
HoldReason = Literal["outstanding_limit", "at_capacity", "excluded_day", "outside_window", "quiet_hours"]
MissReason = Literal["down", "late", "catch_up_limit", "circuit_open", "budget"]
SpanReason = Literal["paused", "invalid", "done", "dead", "in_the_past", "system", "restored"]
ScheduleSkipReason = Literal[
    "unsupported_type",
    "disabled",
    "already_running",
    "at_capacity",
    "not_due",
    "excluded_day",
    "outside_window",
    "quiet_hours",
    "circuit_open",
    "budget",
    "outstanding_limit",
]
CancelReason = Literal["pause", "done", "dead", "deleted", "overlap", "circuit_open", "budget", "person"]

SKIP_REASONS: tuple[str, ...] = get_args(SkipReason)
HOLD_REASONS: tuple[str, ...] = get_args(HoldReason)
MISS_REASONS: tuple[str, ...] = get_args(MissReason)

# -- the texts --

WAS_HELD = "it was held, and "  # replaced by a clause with the reason of the hold, where that is on record
CLOSED = {
    "excluded_day": "the schedule does not run on a {weekday} (not_on)",
    "outside_window": "{time} is outside its window {window} (only_between)",
    "quiet_hours": "quiet hours {quiet} {were} in force",
}
SKIPPED: Mapping[str, str] = {
    **CLOSED,
    "circuit_open": "the circuit breaker {breaker} was open",
    "already_running": "an earlier run was still going (if_running: skip)",
    "retrying": "an earlier slot was still waiting for its turn or its retry (if_running: skip)",
    "queue_full": "{queue_limit:,} jobs were waiting already (queue_limit)",
    "budget": "the budget was spent ({budgets})",
    "superseded": f"{WAS_HELD}the next slot came first",
    "edited": "the schedule's times were edited before it was decided",
    "paused": "the schedule was stopped before it was decided",
}
MISSED: Mapping[str, str] = {
    "down": "no scheduler was running then",
    "late": "the scheduler was running but came too late for it",
    "catch_up_limit": "more slots had been missed than the {catch_up_limit:,} that may be caught up (catch_up_limit)",
    "circuit_open": "the circuit breaker {breaker} was open when it could have been caught up",
    "budget": "the budget, or the share of catch-up in it, was spent when it could have been caught up ({budgets})",
}
HELD: Mapping[str, str] = {
    "outstanding_limit": "{guard} of its kind may be outstanding, and that many {are} (max_outstanding)",
    "at_capacity": "{group} may run {capacity} at once, and that many {are} running (max_concurrent)",
    **CLOSED,
}
# For future slots. A condition that holds now and ends at a known instant is shown with that instant.
PRESENT: Mapping[str, str] = {
    "circuit_open": "the circuit breaker {breaker} is open",
    "budget": "the budget ({budgets}) is spent",
}
AHEAD: Mapping[str, str] = {
    **CLOSED,
    **PRESENT,
    "superseded": "it will be held, and the next slot comes first",
    "system": "the system is paused",
}
SPANS: Mapping[str, str] = {
    "paused": "lies in a span in which the schedule was paused",
    "invalid": "lies in a span in which the schedule could not run as configured",
    "done": "lies after the schedule was done",
    "dead": "lies after the schedule died of too many failures",
    "in_the_past": "was already past when the schedule was declared",
    "system": "lies in a span in which the whole system was paused",
    "restored": "lies between a backup and its restore, and what became of it is not on record",
}
ONGOING: Mapping[str, str] = {  # for future slots, as long as the span is not ended
    "paused": "will not fire while the schedule is paused",
    "invalid": "will not fire while the schedule cannot run as configured",
    "done": "will not fire: the schedule is done",
    "dead": "will not fire: the schedule is dead",
    "in_the_past": "will not fire: the schedule is done",
    "system": "will not fire while the system is paused",
    "restored": "will not fire: it lies between a backup and its restore",  # the clock was put back since
}
ON_REQUEST = "is fired by a request, never by the clock"  # `unsupported_type`
CANCELLED: Mapping[str, str] = {
    "pause": "its job was cancelled because the schedule was paused",
    "done": "its job was cancelled because the schedule was done",
    "dead": "its job was cancelled because the schedule died",
    "deleted": "its job was cancelled because the schedule was deleted",
    "overlap": "its job was cancelled by the next slot (if_running: cancel)",
    "circuit_open": "its job was cancelled because the circuit breaker opened",
    "budget": "its retry was cancelled because the budget was spent and the next slot came first",
    "person": "its job was cancelled by a person",
}

CHECKED: Mapping[str, str] = {  # of `check_schedule`, which asks whether a schedule would fire now
    "unsupported_type": f"the schedule {ON_REQUEST}",
    "disabled": "the schedule is not active",
    "already_running": SKIPPED["already_running"],
    "at_capacity": HELD["at_capacity"],
    "not_due": "no slot is due",
    "excluded_day": CLOSED["excluded_day"],
    "outside_window": CLOSED["outside_window"],
    "quiet_hours": CLOSED["quiet_hours"],
    "circuit_open": PRESENT["circuit_open"],
    "budget": PRESENT["budget"],
    "outstanding_limit": HELD["outstanding_limit"],
}


# In few words, for marks and lists: of skips, holds, misses, spans, cancelled jobs and moves of breakers.
BRIEF: Mapping[str, str] = {
    "excluded_day": "it does not run on this day",
    "outside_window": "outside its window",
    "quiet_hours": "quiet hours",
    "circuit_open": "the breaker was open",
    "already_running": "an earlier run was still going",
    "retrying": "an earlier slot was still waiting",
    "queue_full": "too many jobs were waiting",
    "budget": "the budget was spent",
    "superseded": "the next slot came first",
    "edited": "its times were edited first",
    "paused": "the schedule was paused",
    "down": "no scheduler was running",
    "late": "the scheduler came too late",
    "catch_up_limit": "more were missed than may be caught up",
    "outstanding_limit": "waits for a place (max_outstanding)",
    "at_capacity": "waits for a place (max_concurrent)",
    "invalid": "the schedule could not run as configured",
    "done": "the schedule was done",
    "dead": "the schedule was dead",
    "in_the_past": "it was past when the schedule was declared",
    "system": "the system was paused",
    "restored": "between a backup and its restore",
    "pause": "cancelled by a pause",
    "deleted": "cancelled, the schedule was deleted",
    "overlap": "cancelled by the next slot",
    "person": "cancelled by a person",
    "failure_threshold": "its threshold was reached",
    "cooldown_elapsed": "its time to probe came",
    "success": "the probe succeeded",
    "probe_failed": "the probe failed",
    "probe_cancelled": "the probe was cancelled",
    "manual_reset": "reset by a person",
    "unsupported_type": "fired by a request, never by the clock",
    "disabled": "the schedule is not active",
    "not_due": "no slot is due",
}
BRIEF_AHEAD: Mapping[str, str] = {  # of a slot to come, where that is said in other words
    "circuit_open": "the breaker is open",
    "already_running": "an earlier run is still going",
    "retrying": "an earlier slot still waits",
    "queue_full": "too many jobs wait",
    "budget": "the budget is spent",
    "superseded": "the next slot comes first",
    "paused": "the schedule is paused",
    "invalid": "the schedule cannot run as configured",
    "done": "the schedule is done",
    "dead": "the schedule is dead",
    "system": "the system is paused",
}


class ScheduleCheckResult(NamedTuple):
    """Whether the schedule would fire, or the first reason why not."""

    should_trigger: bool
    skip_reason: ScheduleSkipReason | None = None
