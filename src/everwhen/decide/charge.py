"""Firings that a token's calls cause, counted against its limits: triggers, re-runs, backfills, hooks (O5).

Firings by the clock are counted where they are decided (`decide.tick`), retries where they begin (`decide.claim`).
"""

from __future__ import annotations

from collections.abc import Iterable

from everwhen.errors import FiringLimitError, LimitError
from everwhen.model.instants import SECOND
from everwhen.model.policy import Budget
from everwhen.model.schedule import Definition
from everwhen.model.shared import Shared


def charge(shared: Shared, budgets: Iterable[Budget], count: int, now: int) -> None:
    """Count firings against budgets whose rows are locked; raise FiringLimitError when there are too many."""
    for budget in {budget.key: budget for budget in budgets}.values():
        limit = shared.limit(budget.key)
        _refuse_impossible(budget, count)
        refill_at = limit.refill_at(budget, now, count)
        if refill_at is not None:
            raise FiringLimitError(-((now - refill_at) // SECOND))
        if count:
            shared.put(limit.fired(now, count))


def makers_budgets(definition: Definition) -> tuple[Budget, ...]:
    """Return the limits of the tokens that created or changed a schedule."""
    return tuple(budget for budget in definition.budgets if budget.is_of_token)


def _refuse_impossible(budget: Budget, count: int) -> None:
    """Raise LimitError for more firings than fit into an empty window: trying again later cannot help."""
    most = min((most for most in (budget.per_hour, budget.per_day) if most is not None), default=count)
    if count > max(most, 1):
        raise LimitError(
            f"these are {count} firings, and this token may cause {most} in a window; take fewer",
            limit="fires",
        )
