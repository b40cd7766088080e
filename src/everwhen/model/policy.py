"""The rules that a schedule may have for closed times, lateness, overlap, limits and failures."""

from __future__ import annotations

from typing import Literal, NamedTuple

from everwhen.model.instants import MINUTE, SECOND

CatchUp = Literal["skip", "run_once", "run_all"]
IfRunning = Literal["skip", "queue", "cancel", "allow"]
WhenClosed = Literal["skip", "defer"]
IntervalFrom = Literal["slot", "completion"]
OnLost = Literal["rerun", "fail"]
OnExhausted = Literal["continue", "stop"]

LEAST_GRACE = 2 * SECOND
MOST_GRACE = 5 * MINUTE
MOST_RESCUES = 3
BACKOFF_CAP = 10


class Guard(NamedTuple):
    """At most `limit` outstanding own jobs share this key (`max_outstanding`)."""

    key: str
    limit: int


class Capacity(NamedTuple):
    """At most `limit` running jobs share this key (`max_concurrent`)."""

    key: str
    limit: int


class BreakerRule(NamedTuple):
    """Open after `threshold` consecutive failures, probe after `reset_after`."""

    key: str
    threshold: int
    reset_after: int


TOKEN_BUDGET = "budget:token:"


class Budget(NamedTuple):
    """At most so many firings per hour and per day share this key: of the clock, and for a token of any origin (O5)."""

    key: str
    per_hour: int | None = None
    per_day: int | None = None

    @property
    def is_of_token(self) -> bool:
        """Return whether it limits the firings of a token, and not of a group or an owner."""
        return self.key.startswith(TOKEN_BUDGET)
