"""The closed list of reasons. Every slot that did not fire has one of these."""

from __future__ import annotations

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
CancelReason = Literal["pause", "done", "dead", "deleted", "overlap", "circuit_open", "person"]

SKIP_REASONS: tuple[str, ...] = get_args(SkipReason)
HOLD_REASONS: tuple[str, ...] = get_args(HoldReason)
MISS_REASONS: tuple[str, ...] = get_args(MissReason)


class ScheduleCheckResult(NamedTuple):
    """Whether the schedule would fire, or the first reason why not."""

    should_trigger: bool
    skip_reason: ScheduleSkipReason | None = None
