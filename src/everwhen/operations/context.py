"""What a caller has to know before it makes a schedule: the time, its limits and what is left of them, and its targets.

Programs and models cannot guess the date, nor what a token may still do.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from everwhen.decide.budgets import DailyCost, cost_per_day, usages
from everwhen.errors import QuotaError, SchedulerError
from everwhen.model.cost import Cost
from everwhen.model.declare import Declared
from everwhen.model.instants import SECOND
from everwhen.model.policy import Budget
from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import Plan
from everwhen.model.target_kinds import KINDS
from everwhen.model.token import Token, budget_of, refuse_beyond
from everwhen.operations.access import Caller, list_entries
from everwhen.operations.schedules import QuietHoursByName
from everwhen.operations.submissions import made_by, on_terms
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.civil_time import Zone, zone

LOOKED_AT = 100  # schedules whose zones are counted
ZONES = 5


class Left(NamedTuple):
    """What a token may still do; None: not limited."""

    schedules: int | None = None
    fires_this_hour: int | None = None
    fires_today: int | None = None
    cost_today: str | None = None
    cost_this_month: str | None = None


class Usable(NamedTuple):
    """What a caller may let schedules run: kinds of targets, and the names of agents, workflows and plugins."""

    kinds: list[str]
    agents: list[str]
    workflows: list[str]
    plugins: list[str]


class Surroundings(NamedTuple):
    """The time, and what a caller may still do."""

    now: int
    zone: Zone
    zones: list[str]
    left: Left
    usable: Usable


def surroundings_of(runtime: Runtime, caller: Caller) -> Surroundings:
    """Return what a caller has to know before it makes a schedule."""
    return Surroundings(
        runtime.clock.now(),
        zone(runtime.timezone),
        zones_in_use(runtime, caller),
        left_of(runtime, caller.token),
        usable_targets(caller),
    )


def left_of(runtime: Runtime, token: Token) -> Left:
    """Return what is left of the limits of a token."""
    catalogue, budget, schedules = store_of(runtime).catalogue, budget_of(token), None
    if (most := token.limits.max_schedules) is not None:
        schedules = max(most - catalogue.count_of_token(token.token_id), 0)
    if budget is None:
        return Left(schedules)
    shared = catalogue.shared_by([budget.key])
    rest = {use.limit: max(use.most - use.used, 0) for use in usages(shared, budget, runtime.clock.now())}
    return Left(
        schedules,
        rest.get("fires_per_hour"),
        rest.get("fires_per_day"),
        _cost_text(rest.get("cost_per_day"), budget),
        _cost_text(rest.get("cost_per_month"), budget),
    )


def _cost_text(amount: int | None, budget: Budget) -> str | None:
    return None if amount is None or budget.unit is None else str(Cost(amount, budget.unit))


def usable_targets(caller: Caller) -> Usable:
    """Return what this caller may let schedules run."""
    limits = caller.token.limits
    codeless = [name for name, kind in KINDS.items() if caller.may_run_code or not kind.runs_code]
    kinds = [name for name in codeless if limits.targets is None or name in limits.targets]
    groups = caller.usable_groups(caller.groups())
    named = {
        wanted: sorted(name for kind, name in groups if kind == wanted) if wanted in kinds else []
        for wanted in ("agent", "workflow", "plugin")
    }
    return Usable(kinds, named["agent"], named["workflow"], named["plugin"])


def zones_in_use(runtime: Runtime, caller: Caller) -> list[str]:
    """Return the zones of the newest schedules that the caller sees, the most frequent first."""
    page = list_entries(runtime, ScheduleFilter(), caller, limit=LOOKED_AT)
    counts = Counter(entry.schedule.definition.zone.name for entry in page.entries)
    return [name for name, _ in counts.most_common(ZONES)]


class Prospect(NamedTuple):
    """What would become of a submission of this caller: its end, whether it waits, and why it would be refused."""

    ends_at: int | None
    needs_approval: bool
    refusal: str | None
    refused_by: str | None  # the limit of the token
    cost_per_day: DailyCost | None  # None: not known


def prospect_of(runtime: Runtime, declared: Declared, caller: Caller) -> Prospect:
    """Return what the limits of a caller would do to a submission; nothing is written."""
    definition, limits, now = declared.definition, caller.token.limits, runtime.clock.now()
    refusal: str | None = None
    refused_by: str | None = None
    try:
        definition = on_terms(definition, caller, now)
        plan = Plan(declared.schedule_id, definition, QuietHoursByName(runtime).of(definition))
        refuse_beyond(limits, plan, now, now)
        made_by(caller)
        if limits.max_schedules is not None and left_of(runtime, caller.token).schedules == 0:
            raise QuotaError(limits.max_schedules)
    except SchedulerError as error:
        refusal = str(error)
        refused_by = getattr(error, "limit", None)
    ends_at = None if definition.end_at is None else definition.end_at * SECOND
    needs_approval, cost = caller.needs_approval_of(definition), cost_per_day(definition, now)
    return Prospect(ends_at, needs_approval, refusal, refused_by, cost_per_day=cost)
