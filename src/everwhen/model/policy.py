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


BUDGET = "budget:"  # what the key of every budget begins with
TOKEN_BUDGET = "budget:token:"
OnReached = Literal["skip", "pause", "alert"]
CATCH_UP_SHARE = 50


class Made(NamedTuple):
    """How a schedule was made, where that matters for its runs: over MCP, and in the run of an agent.

    `depth`: 0 for what people and programs make, 1 for what a run of that makes, and so on.
    """

    via: str | None = None
    job_id: str | None = None
    depth: int = 0


class Budget(NamedTuple):
    """Limits that share this key: firings per hour and day, cost per day, month and run, in millionths of `unit`.

    Those of a group or an owner refuse what the clock fires, and what agents cause by themselves; those of a token
    refuse whatever it causes. `catch_up_share`: how many per cent of a window catch-up may take. `on_reached: alert`
    refuses nothing. `min_interval`: seconds between two firings of one schedule, of those that a token causes.
    """

    key: str
    per_hour: int | None = None
    per_day: int | None = None
    cost_per_day: int | None = None
    cost_per_month: int | None = None
    cost_per_run: int | None = None
    unit: str | None = None
    on_reached: OnReached = "skip"
    catch_up_share: int = CATCH_UP_SHARE
    min_interval: int | None = None

    @property
    def is_of_token(self) -> bool:
        """Return whether it limits what a token causes, and not a group or an owner."""
        return self.key.startswith(TOKEN_BUDGET)


BUDGET_FIRES = 3  # the first fields: key and firings, which every release reads
