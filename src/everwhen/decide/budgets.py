"""Budgets: firings and cost, reserved before a run and settled after it.

Every attempt of every origin counts. A slot of the clock fires when spent + reserved + its estimate fit into every
limit; catch-up has only a share of a window. Nothing is stopped for money: a run may cost more than its estimate, and
then the next one waits. The working copy (`Shared`) holds the locked rows; events about budgets are collected there,
once per key, limit and window, and written by the commit that crosses the threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from everwhen.decide import spacing
from everwhen.errors import CostLimitError, FiringLimitError, LimitError, TooSoonError
from everwhen.model.cost import (
    NOTHING,
    UNMEASURED_AFTER,
    Cost,
    Reserved,
    ScheduleCosts,
    reserved_in,
    reserved_text,
)
from everwhen.model.events import Event, EventType
from everwhen.model.group import asks_for_max_cost
from everwhen.model.instants import DAY, HOUR, SECOND, format_instant, to_datetime
from everwhen.model.job import OWN_ORIGINS, Job, NewJob, Origin
from everwhen.model.limits import Shared
from everwhen.model.policy import BUDGET, Budget
from everwhen.model.schedule import Definition, State
from everwhen.model.spending import Announcement, Level, Spending, Usage, month_after
from everwhen.timetable.cautions import fires_per_day, most_fires_per_day

OWNER_BUDGET = "budget:owner:"


class Attempt(NamedTuple):
    """The attempt that an event about a budget is about."""

    schedule_id: str | None
    uid: str | None
    owner: str | None
    job_id: str | None = None


def attempt_of(job: Job, definition: Definition) -> Attempt:
    return Attempt(job.schedule_id, job.uid, definition.owner, job.job_id)


def attempt_in(state: State, job_id: str | None = None) -> Attempt:
    return Attempt(state.schedule_id, state.uid, state.owner, job_id)


class Refusal(NamedTuple):
    """The limit that an attempt does not fit into, and when its window ends; `needs`: what it would take of it."""

    budget: Budget
    usage: Usage
    needs: int = 0

    @property
    def refill_at(self) -> int:
        return self.usage.ends_at

    @property
    def is_lasting(self) -> bool:
        """Return whether the estimate does not fit into an empty window either: no refill helps."""
        return self.usage.is_cost and self.needs > self.usage.most


def usages(shared: Shared, budget: Budget, now: int) -> Iterator[Usage]:
    """Yield the limits of a budget, each with what is used of it in the window at that instant."""
    spending = shared.spending(budget.key).at(now).in_unit(budget.unit)
    hour_fires, day_fires = shared.limit(budget.key).fires(now)
    hour, day = spending.hour, spending.day
    if budget.per_hour is not None:
        yield Usage(
            "fires_per_hour", hour_fires, budget.per_hour, spending.caught_up_hour, hour, ends_at=hour + HOUR
        )
    if budget.per_day is not None:
        yield Usage(
            "fires_per_day", day_fires, budget.per_day, spending.caught_up_day, day, ends_at=day + DAY
        )
    yield from cost_usages(spending, budget)


def cost_usages(spending: Spending, budget: Budget) -> Iterator[Usage]:
    """Yield the limits of a budget that count cost; `spending` is that of the current windows, in its unit."""
    day, month = spending.day, spending.month
    reserved, caught_up = spending.reserved, spending.caught_up_reserved
    if budget.cost_per_day is not None:
        used, share = spending.day_cost + reserved, spending.caught_up_day_cost + caught_up
        # Release 0.2 counts a cost, and not whether it is an estimate.
        estimated = min(spending.estimated_day_cost, spending.day_cost) + reserved
        yield Usage(
            "cost_per_day",
            used,
            budget.cost_per_day,
            share,
            day,
            ends_at=day + DAY,
            estimated=estimated,
        )
    if budget.cost_per_month is not None:
        used, share = spending.month_cost + reserved, spending.caught_up_month_cost + caught_up
        estimated = min(spending.estimated_month_cost, spending.month_cost) + reserved
        yield Usage(
            "cost_per_month",
            used,
            budget.cost_per_month,
            share,
            month,
            ends_at=month_after(month),
            estimated=estimated,
        )


# -- what a run will cost --


def estimate(budgets: Sequence[Budget], unit: str, costs: ScheduleCosts) -> int:
    """Return what a run is expected to cost: the mean of its reports, else the limit of a run, else a tenth of the
    smallest limit.
    """
    counting = [budget for budget in budgets if budget.unit == unit]
    per_run = min((one.cost_per_run for one in counting if one.cost_per_run is not None), default=None)
    mean = costs.mean(unit)
    if mean is not None:
        return mean if per_run is None else min(mean, per_run)
    if per_run is not None:
        return per_run
    limits = (limit for one in counting for limit in (one.cost_per_day, one.cost_per_month))
    smallest = min((limit for limit in limits if limit is not None), default=0)
    return -(-smallest // 10)


def max_cost(definition: Definition) -> Cost | None:
    """Return the most that one run may cost, which is handed over to it; None when that is not limited."""
    limited = [budget for budget in definition.budgets if budget.cost_per_run is not None and budget.unit]
    if not limited:
        return None
    unit = limited[0].unit
    assert unit is not None
    return Cost(min(one.cost_per_run or 0 for one in limited if one.unit == unit), unit)


def lacks_max_cost(definition: Definition) -> bool:
    """Return whether the command of an agent contains the most that a run may cost, and no budget says it."""
    return asks_for_max_cost(definition.target) and max_cost(definition) is None


class DailyCost(NamedTuple):
    """What the slots of a schedule cost a day when every run takes all that it may.

    `mean`: on average over a year, each slot once; `most`: on its busiest day, in UTC, each slot with all its retries.
    """

    mean: Cost
    most: Cost


def cost_per_day(definition: Definition, now: int) -> DailyCost | None:
    """Return what a schedule costs a day; None when a run has no limit, or it does not repeat."""
    limit, trigger = max_cost(definition), definition.trigger
    mean = fires_per_day(trigger, to_datetime(now).year)
    most = most_fires_per_day(trigger, definition.zone, definition.dst, now // SECOND)
    if limit is None or mean is None or most is None:
        return None
    attempts = 1 + (definition.max_retries or 0)
    return DailyCost(
        Cost(round(limit.amount * mean), limit.unit), Cost(limit.amount * most * attempts, limit.unit)
    )


# -- whether an attempt fits --


def refusal(
    shared: Shared,
    uid: str,
    budgets: Sequence[Budget],
    now: int,
    *,
    count: int = 1,
    is_catch_up: bool = False,
) -> Refusal | None:
    """Return the limit that `count` more attempts do not fit into; of several, the one that refills last.

    With a `count` of 0, the attempts are counted already.
    """
    found: Refusal | None = None
    for budget in budgets:
        if budget.on_reached == "alert":
            continue
        for usage in usages(shared, budget, now):
            needs = count
            if usage.is_cost and count:
                assert budget.unit is not None
                needs = count * estimate(budgets, budget.unit, shared.costs_of(uid))
            fits = usage.used + needs <= usage.most
            if is_catch_up:
                fits = fits and usage.caught_up + needs <= _share(budget, usage)
            if not fits and (found is None or usage.ends_at > found.refill_at):
                found = Refusal(budget, usage, needs)
    return found


def _share(budget: Budget, usage: Usage) -> int:
    """Return what catch-up may take of a window; of firings at least one."""
    share = usage.most * budget.catch_up_share // 100
    return share if usage.is_cost else max(share, 1)


# -- attempts that begin --


def charge(
    shared: Shared,
    attempt: Attempt,
    budgets: Sequence[Budget],
    now: int,
    *,
    is_catch_up: bool = False,
    estimated_with: Sequence[Budget] | None = None,
) -> str | None:
    """Count an attempt, reserve its estimate, and return what its row holds of that.

    `estimated_with`: the budgets that the estimate depends on, if there are more than these.
    """
    if not budgets:
        return None
    reserved: Reserved = {}
    costs = shared.costs_of(attempt.uid or "")
    for budget in budgets:
        shared.put(shared.limit(budget.key).fired(now))
        if budget.unit is not None or is_catch_up:
            spending = _refilled(shared, budget.key, now).at(now).in_unit(budget.unit)
            if is_catch_up:
                spending = spending.caught_up()
            if budget.unit is not None:
                cost = Cost(estimate(estimated_with or budgets, budget.unit, costs), budget.unit)
                spending = spending.reserve(cost.amount, is_catch_up=is_catch_up)
                reserved[budget.key] = cost
            shared.put_spending(spending)
        _tell_usage(shared, attempt, budget, now)
    return reserved_text(reserved)


def refuse(shared: Shared, attempt: Attempt, refused: Refusal, now: int) -> None:
    """Count a slot that a budget skips, and record that the budget is reached, if that is not on record."""
    budget, usage, _ = refused
    spending = _refilled(shared, budget.key, now).at(now)
    announced = spending.announcements()
    if not _is_announced(announced, usage, "reached"):
        shared.events.append(_event(attempt, budget, usage, "reached", now))
        announced = (*announced, _announcement(usage, "reached"))
    is_it = [one[:2] == (usage.limit, usage.window) and one.level == "reached" for one in announced]
    announced = tuple(
        one._replace(skipped=one.skipped + 1) if is_this else one
        for one, is_this in zip(announced, is_it, strict=True)
    )
    shared.put_spending(spending.with_announcements(announced))


def _tell_usage(shared: Shared, attempt: Attempt, budget: Budget, now: int) -> None:
    """Record the limits that are at 80 or 100 per cent now, each once in its window."""
    for usage in usages(shared, budget, now):
        level = usage.level
        if level is None:
            continue
        spending = _refilled(shared, budget.key, now)
        announced = spending.announcements()
        if not _is_announced(announced, usage, level):
            shared.events.append(_event(attempt, budget, usage, level, now))
            shared.put_spending(spending.with_announcements((*announced, _announcement(usage, level))))


def _is_announced(announced: Iterable[Announcement], usage: Usage, level: Level) -> bool:
    """Return whether the level is on record for this window; after `reached` no warning follows."""
    levels = (level, "reached")
    return any(one[:2] == (usage.limit, usage.window) and one.level in levels for one in announced)


def _announcement(usage: Usage, level: Level) -> Announcement:
    return Announcement(usage.limit, usage.window, usage.ends_at, level)


def _event(attempt: Attempt, budget: Budget, usage: Usage, level: Level, now: int) -> Event:
    kind: EventType = "budget.reached" if level == "reached" else "budget.warning"
    detail: dict[str, object] = {
        "key": budget.key,
        "limit": usage.limit,
        "used": usage.used,
        "most": usage.most,
        "window": usage.window,
        "refill_at": usage.ends_at,
    }
    if usage.is_cost:
        detail |= {"unit": budget.unit, "estimated": usage.estimated}
    if level == "reached":
        detail["on_reached"] = budget.on_reached
    return Event(kind, now, *attempt[:3], job_id=attempt.job_id, detail=detail)


def refill(shared: Shared, key: str, now: int) -> None:
    """Record the windows of a budget that are over and that were announced."""
    _refilled(shared, key, now)


def _refilled(shared: Shared, key: str, now: int) -> Spending:
    spending = shared.spending(key)
    if spending.refill_at is None or spending.refill_at > now:
        return spending
    announced = spending.announcements()
    over = [one for one in announced if one.ends_at <= now]
    for limit, window in dict.fromkeys(one[:2] for one in over):
        about = [one for one in over if one[:2] == (limit, window)]
        detail: dict[str, object] = {
            "key": key,
            "limit": limit,
            "window": window,
            "refilled_at": about[0].ends_at,
            "reached": any(one.level == "reached" for one in about),
            "skipped": sum(one.skipped for one in about),
        }
        owner = key.removeprefix(OWNER_BUDGET) if key.startswith(OWNER_BUDGET) else None
        shared.events.append(Event("budget.refilled", now, owner=owner, detail=detail))
    spending = spending.with_announcements(tuple(one for one in announced if one.ends_at > now))
    shared.put_spending(spending)
    return spending


# -- attempts that are over --


class RunCost(NamedTuple):
    """What a run cost, for the row of its job."""

    amount: int
    unit: str
    is_reported: bool


def cost_of_run(job: Job, reported: Cost | None) -> RunCost | None:
    """Return what a run cost: as it reported, else as it was estimated; None when neither is known, or nothing ran."""
    if reported == NOTHING:
        return None
    if reported is not None:
        return RunCost(reported.amount, reported.unit, is_reported=True)
    estimated = next(iter(reserved_in(job.cost_reserved).values()), None)
    return None if estimated is None else RunCost(estimated.amount, estimated.unit, is_reported=False)


def settle(shared: Shared, job: Job, reported: Cost | None, definition: Definition | None, now: int) -> None:
    """Replace what a run had reserved by what it cost; `definition` is None when its schedule is deleted."""
    reserved = reserved_in(job.cost_reserved)
    if not reserved:
        return
    if reported == NOTHING:
        release(shared, job)
        return
    _spend(shared, job, reported, now, is_over=True)
    if definition is None:
        return
    attempt = attempt_of(job, definition)
    for budget in definition.budgets:
        if budget.key in reserved:
            _tell_usage(shared, attempt, budget, now)
    _note_report(shared, attempt, reported, reserved, now)


def settle_late(shared: Shared, job: Job, now: int) -> None:
    """Count a run that ended earlier, and was not settled, as its estimate: in the windows in which it ended.

    What it had reserved is counted anew by the caller.
    """
    for key, cost in reserved_in(job.cost_reserved).items():
        spending = _refilled(shared, key, now).at(now)
        if spending.unit == cost.unit and job.ended_at is not None:
            is_catch_up = job.origin == "catch_up"
            shared.put_spending(
                spending.spend(cost.amount, is_catch_up=is_catch_up, is_estimate=True, ended_at=job.ended_at)
            )


def release(shared: Shared, job: Job) -> None:
    """Give back what a job had reserved that never began, or not again, or found nothing to do."""
    for key, cost in reserved_in(job.cost_reserved).items():
        spending = shared.spending(key)
        if spending.unit == cost.unit:
            shared.put_spending(spending.release(cost.amount, is_catch_up=job.origin == "catch_up"))


def begin_again(shared: Shared, job: Job, definition: Definition, now: int) -> Mapping[str, int]:
    """Count the attempt that follows a lost one, and the lost one as its estimate; return that, by budget."""
    reserved = reserved_in(job.cost_reserved)
    attempt = attempt_of(job, definition)
    for budget in definition.budgets:
        shared.put(shared.limit(budget.key).fired(now))
    if reserved:
        _spend(shared, job, None, now, is_over=False)
    for budget in definition.budgets:
        _tell_usage(shared, attempt, budget, now)
    return {key: cost.amount for key, cost in reserved.items()}


def _spend(shared: Shared, job: Job, reported: Cost | None, now: int, *, is_over: bool) -> None:
    is_catch_up = job.origin == "catch_up"
    for key, cost in reserved_in(job.cost_reserved).items():
        spending = _refilled(shared, key, now).at(now)
        if spending.unit != cost.unit:  # the budget counts in another unit since
            continue
        is_estimate = reported is None or reported.unit != cost.unit
        actual = cost.amount if reported is None or is_estimate else reported.amount
        if is_over:
            spending = spending.release(cost.amount, is_catch_up=is_catch_up)
        shared.put_spending(spending.spend(actual, is_catch_up=is_catch_up, is_estimate=is_estimate))


def _note_report(
    shared: Shared, attempt: Attempt, reported: Cost | None, reserved: Reserved, now: int
) -> None:
    """Remember a report, for the next estimates; the tenth run in a row without one is recorded."""
    assert attempt.uid is not None
    costs = shared.costs_of(attempt.uid)
    if reported is not None and any(cost.unit == reported.unit for cost in reserved.values()):
        shared.put_costs(costs.reported(reported))
        if costs.unreported >= UNMEASURED_AFTER:
            detail: dict[str, object] = {"keys": sorted(reserved), "runs": costs.unreported}
            shared.events.append(
                Event("budget.measured", now, *attempt[:3], job_id=attempt.job_id, detail=detail)
            )
        return
    costs = costs.not_reported()
    shared.put_costs(costs)
    if costs.unreported == UNMEASURED_AFTER:
        detail = {"keys": sorted(reserved), "runs": costs.unreported}
        shared.events.append(
            Event("budget.unmeasured", now, *attempt[:3], job_id=attempt.job_id, detail=detail)
        )


# -- what the calls of a token cause --


def charge_caller(
    shared: Shared,
    attempt: Attempt,
    jobs: Sequence[NewJob],
    definition: Definition,
    budgets: Sequence[Budget],
    *,
    now: int,
    is_agent: bool = False,
) -> list[NewJob]:
    """Count requested jobs against the budgets of the tokens that cause them; return the jobs, with what they reserve.

    The jobs are counted against the schedule's own budgets already; `is_agent`: those of the group and the owner refuse
    what does not fit. Raise FiringLimitError when they do not fit, and LimitError when they would not fit into an empty
    window: trying again later cannot help.
    """
    if not jobs:
        return list(jobs)
    uid, origin = attempt.uid or "", jobs[0].origin
    known = {budget.key for budget in requested_budgets(definition, origin)}
    every = {budget.key: budget for budget in budgets}
    others = [budget for budget in every.values() if budget.key not in known]
    counted = [budget for budget in every.values() if budget.key in known]
    if is_agent:
        counted += common_budgets(definition)
    _refuse_many((*counted, *others), len(jobs))
    if (free_at := spacing.free_at(shared, uid, every.values(), now)) is not None:
        raise TooSoonError(_seconds_until(free_at, now))
    _raise_refusal(refusal(shared, uid, counted, now, count=0), now)
    _raise_refusal(refusal(shared, uid, others, now, count=len(jobs)), now)
    spacing.note_firing(shared, uid, every.values(), now)
    return [
        job._replace(
            cost_reserved=_merged(
                job.cost_reserved, charge(shared, attempt._replace(job_id=job.job_id), others, now)
            )
        )
        for job in jobs
    ]


def _refuse_many(budgets: Iterable[Budget], count: int) -> None:
    for budget in budgets:
        if count > 1 and budget.min_interval is not None:
            text = f"these are {count} firings of one schedule, and this token has a min_interval; take one slot a call"
            raise LimitError(text, limit="min_interval")
        most = min((most for most in (budget.per_hour, budget.per_day) if most is not None), default=count)
        if count > max(most, 1) and budget.on_reached != "alert":
            whose = f"{_whose(budget)} may cause"
            text = f"these are {count} firings, and {whose} {most} in a window; take fewer"
            raise LimitError(text, limit="fires")


def _whose(budget: Budget) -> str:
    """Return whose budget it is, for a sentence: `the group bot`, for example."""
    if budget.is_of_token:
        return "this token"
    if budget.key.startswith(OWNER_BUDGET):
        return f"the owner {budget.key.removeprefix(OWNER_BUDGET)}"
    return f"the group {budget.key.removeprefix(BUDGET)}"


def _raise_refusal(refused: Refusal | None, now: int) -> None:
    if refused is None:
        return
    seconds, whose = _seconds_until(refused.refill_at, now), _whose(refused.budget)
    if refused.usage.is_cost:
        raise CostLimitError(seconds, whose)
    raise FiringLimitError(seconds, whose)


def warning_of(shared: Shared, uid: str, definition: Definition, now: int) -> str | None:
    """Say which budget of the group or the owner is exceeded by what was just counted; None: none is."""
    exceeded = refusal(shared, uid, common_budgets(definition), now, count=0)
    if exceeded is None:
        return None
    budget, usage, _ = exceeded
    most = str(usage.most) if budget.unit is None or not usage.is_cost else str(Cost(usage.most, budget.unit))
    refill = format_instant(usage.ends_at, definition.zone)
    return (
        f"this run exceeds the budget of {_whose(budget)}, {usage.limit} {most}; the clock fires nothing there until "
        f"{refill}"
    )


def _seconds_until(instant: int, now: int) -> int:
    return -((now - instant) // SECOND)


def _merged(first: str | None, second: str | None) -> str | None:
    return reserved_text({**reserved_in(first), **reserved_in(second)})


def requested_budgets(definition: Definition, origin: Origin) -> tuple[Budget, ...]:
    """Return the budgets of a schedule that a requested job counts towards.

    The limits of its makers bound what they cause: their hooks, by any caller, but not what others trigger.
    """
    return definition.budgets if origin in OWN_ORIGINS else common_budgets(definition)


def common_budgets(definition: Definition) -> tuple[Budget, ...]:
    """Return the budgets of the group and the owner of a schedule."""
    return tuple(budget for budget in definition.budgets if not budget.is_of_token)


def makers_budgets(definition: Definition) -> tuple[Budget, ...]:
    """Return the limits of the tokens that created or changed a schedule."""
    return tuple(budget for budget in definition.budgets if budget.is_of_token)
