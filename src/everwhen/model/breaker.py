"""Circuit breakers: their state, and their recorded transitions."""

from __future__ import annotations

from typing import Literal, NamedTuple

BreakerState = Literal["closed", "open", "half_open"]
TransitionReason = Literal[
    "failure_threshold", "cooldown_elapsed", "success", "probe_failed", "probe_cancelled", "manual_reset"
]


class Breaker(NamedTuple):
    """One breaker; `failure_count` counts consecutive failures of own jobs while it is closed."""

    key: str
    state: BreakerState = "closed"
    failure_count: int = 0
    opened_at: int | None = None
    probe_job_id: str | None = None


class Transition(NamedTuple):
    """One change of state of a breaker, appended to its history."""

    key: str
    from_state: BreakerState
    to_state: BreakerState
    reason: TransitionReason
    failure_count: int
    job_id: str | None
    at: int
