"""Budgets as they stand: what is used of each limit, what is left, and when it refills.

The limits of groups and owners are those of the configuration in force, the limits of tokens are the tokens' own; those
of the tokens that runs of an agent get are its `self_schedule`, and count for all its runs together. A caller with an
owner sees the budgets of that owner and of its groups. A caller without the role admin sees no token but its own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from everwhen.decide.budgets import OWNER_BUDGET, usages
from everwhen.errors import CostError
from everwhen.model.budget_terms import budget_terms
from everwhen.model.limits import Shared
from everwhen.model.policy import BUDGET, TOKEN_BUDGET, Budget
from everwhen.model.spending import BudgetKind, Spending, Usage
from everwhen.model.token import NO_LIMITS, Token, TokenLimits, budget_of, limits_of_runs, token_id_of_agent
from everwhen.operations.access import Caller
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

log = logging.getLogger("everwhen")
_SECTION = "budgets."


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """One budget: what it limits, and how much of that is used now. `skipped`: slots, in the current windows.

    `terms` are the limits of a token on what it makes, `schedules` how many it has.
    """

    kind: BudgetKind
    name: str
    budget: Budget
    spending: Spending
    limits: tuple[Usage, ...]
    skipped: int
    spent_until: int | None = None
    terms: TokenLimits = NO_LIMITS
    schedules: int | None = None


def list_spent_budgets(runtime: Runtime, caller: Caller | None) -> list[BudgetUsage]:
    """Return the budgets with a limit that is reached, the first to refill first."""
    found = [one for one in list_budgets(runtime, caller) if one.spent_until is not None]
    return sorted(found, key=lambda one: one.spent_until or 0)


def list_budgets(runtime: Runtime, caller: Caller | None, *, is_binding: bool = False) -> list[BudgetUsage]:
    """Return the budgets that the caller may see: of groups and owners by name, then of tokens. None sees all.

    `is_binding`: those that bind what the caller causes. The token of a run sees no others.
    """
    store = store_of(runtime)
    if caller is not None and (is_binding or caller.token.confined is not None):
        may_see = partial(_binds, caller, {name for _, name in caller.usable_groups(caller.groups())})
        tokens = [caller.token] if _is_limited(caller.token.limits) else []
    else:
        may_see = partial(_may_see, caller)
        tokens = [one for one in (*_of_runs(caller), *_of_tokens(runtime, caller)) if _is_limited(one.limits)]
    declared = list(_declared(store.catalogue.config_sections() or {}, may_see))
    of_tokens = [(one, budget_of(one) or Budget(f"{TOKEN_BUDGET}{one.token_id}")) for one in tokens]
    keys = [budget.key for _, _, budget in declared] + [budget.key for _, budget in of_tokens]
    shared, now = store.catalogue.shared_by(keys), runtime.clock.now()
    counts = store.catalogue.counts_of_tokens([one.token_id for one in tokens])
    return [_usage_of(kind, name, budget, shared, now) for kind, name, budget in declared] + [
        replace(
            _usage_of("token", token.name, budget, shared, now),
            terms=token.limits,
            schedules=counts.get(token.token_id, 0),
        )
        for token, budget in of_tokens
    ]


def give_back_leftovers(runtime: Runtime) -> int:
    """Give back what jobs have reserved that a process of release 0.1 ended; return how many budgets changed."""
    changed = store_of(runtime).catalogue.give_back_leftovers(runtime.clock.now())
    if changed:
        log.info(
            "budgets: reservations of jobs that release 0.1 ended were given back, in %s budgets", changed
        )
    return changed


class CostSum(NamedTuple):
    """A sum of costs, in millionths of their unit, and what of it is estimated."""

    amount: int = 0
    estimated: int = 0


def costs_by_budget(runtime: Runtime) -> dict[tuple[str, str], CostSum]:
    """Return what was ever spent, by the name of a group or owner, and its unit; tokens are added up."""
    costs: dict[tuple[str, str], CostSum] = {}
    for spending in store_of(runtime).catalogue.spendings():
        name = spending.key.removeprefix(BUDGET)
        label = "token" if name.startswith("token:") else name
        if spending.unit is not None:
            amount, estimated = costs.get((label, spending.unit), CostSum())
            costs[label, spending.unit] = CostSum(
                amount + spending.total_cost, estimated + spending.estimated_total_cost
            )
    return costs


def _usage_of(kind: BudgetKind, name: str, budget: Budget, shared: Shared, now: int) -> BudgetUsage:
    limits = tuple(usages(shared, budget, now))
    spending = shared.spending(budget.key).at(now).in_unit(budget.unit)
    announced = [one for one in spending.announcements() if one.ends_at > now]
    skipped = sum(one.skipped for one in announced)
    # A limit into which the next run does not fit is announced as reached as well.
    ends = [one.ends_at for one in limits if one.level == "reached"]
    ends += [one.ends_at for one in announced if one.level == "reached"]
    return BudgetUsage(
        kind, name, budget, spending, limits=limits, skipped=skipped, spent_until=max(ends, default=None)
    )


def _declared(
    sections: dict[str, str], may_see: Callable[[BudgetKind, str], bool]
) -> Iterator[tuple[BudgetKind, str, Budget]]:
    for path, text in sorted(sections.items()):
        if not path.startswith(_SECTION):
            continue
        name = path.removeprefix(_SECTION)
        try:
            terms = budget_terms(json.loads(text))
        except (CostError, ValueError, AttributeError):  # written by a newer everwhen
            continue
        key = f"{BUDGET}{name}"
        kind: BudgetKind = "owner" if key.startswith(OWNER_BUDGET) else "group"
        shown = name.removeprefix("owner:")
        if terms is not None and may_see(kind, shown):
            yield kind, shown, Budget(key, **terms)


def _binds(caller: Caller, groups: Collection[str], kind: BudgetKind, name: str) -> bool:
    """Return whether a budget binds what the caller causes, also on a group that others share with it."""
    if kind == "group":
        return name in groups
    token = caller.token
    return name == token.owner or (token.owner is None and token.confined is None)


def _may_see(caller: Caller | None, kind: BudgetKind, name: str) -> bool:
    if caller is None:
        return True
    owner = caller.token.owner
    if owner is None or name == owner:
        return True
    groups = [group for (_, known), group in caller.groups().items() if known == name]
    return kind == "group" and any(group.get("owner") == owner for group in groups)


def _is_limited(limits: TokenLimits) -> bool:
    """Return whether a token has a limit beside those on what it may do at all."""
    return limits._replace(targets=None, approval=None) != NO_LIMITS


def _of_runs(caller: Caller | None) -> Iterator[Token]:
    """Yield the token of the runs of each agent that schedules itself, as the caller sees them."""
    for (kind, name), group in ({} if caller is None else caller.groups()).items():
        allowed = group.get("self_schedule")
        if kind != "agent" or allowed is None or not _may_see(caller, "group", name):
            continue
        owner, limits = group.get("owner"), limits_of_runs(allowed)[0]
        token_id = token_id_of_agent(name, owner)
        yield Token(token_id, f"runs of {name}", "operator", owner, limits, created_at=0)


def _of_tokens(runtime: Runtime, caller: Caller | None) -> Iterator[Token]:
    own = None if caller is None else caller.token
    for token in store_of(runtime).tokens.all():
        is_visible = (
            own is None or own.token_id == token.token_id or (own.may("admin") and own.sees(token.owner))
        )
        if is_visible and token.is_good(runtime.clock.now()):
            yield token
