"""The claim: which ready jobs a node may take, and what the claim changes (O1, O4, R6).

Jobs of one schedule run one after another unless they may run in parallel. Capacity applies to every origin. A retry
waits while its breaker is open; the first one after `reset_after` is the probe. A retry counts towards the limits of
the token that created its schedule, and waits while they are reached (O5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.errors import FiringLimitError, LimitError
from everwhen.model import row_changes
from everwhen.model.claim import ORDINARY, ClaimedJob, ScheduleCounters, Start
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.policy import Budget
from everwhen.model.schedule import Definition, Plan

LOOK_AGAIN = SECOND


class Claims(NamedTuple):
    """Claimed jobs, retries postponed by breaker or token limits, and what the starts add to the rows of schedules."""

    taken: list[ClaimedJob]
    postponed: list[tuple[Job, int]]
    starts: list[tuple[int, Start]]


def claim(
    jobs: Sequence[Job],
    plans: Mapping[tuple[str, int], Plan],
    counters: dict[str, ScheduleCounters],
    shared: Shared,
    *,
    node: str,
    limit: int,
    now: int,
) -> Claims:
    """Claim up to `limit` of the ready jobs in order; each claim updates `counters` and `shared`."""
    claims = Claims([], [], [])
    for job in in_line(jobs):
        if len(claims.taken) == limit:
            break
        plan = plans[job.uid, job.revision]
        if not is_its_turn(job, counters) or not has_place(job, shared):
            continue
        waits_until = retry_wait(job, plan, shared, now)
        if waits_until is not None:
            claims.postponed.append((job, waits_until))
            continue
        is_probe = _count(job, plan, shared, now)
        counts = counters.get(job.uid)
        if counts is not None:
            start = _start_of(job)
            claims.starts.append((counts.row_id, start))
            counters[job.uid] = counts.started(start.running_jobs)
        definition = plan.definition
        deadline_at = None if definition.timeout is None else now + definition.timeout
        started = row_changes.start_job(job, now, deadline_at, node, is_probe)
        repeats = 0 if counts is None else counts.current_repeat
        claims.taken.append(ClaimedJob(started, definition, definition.name, repeats))
    return claims


def in_line(jobs: Sequence[Job]) -> Sequence[Job]:
    """Return the jobs in the order in which they became ready; those of one schedule, among themselves, by slot_at."""
    if len({job.uid for job in jobs}) == len(jobs):
        return jobs
    of_uid: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: (job.slot_at, job.row_id), reverse=True):
        of_uid.setdefault(job.uid, []).append(job)
    return [of_uid[job.uid].pop() for job in jobs]


def is_its_turn(
    job: Job, counters: Mapping[str, ScheduleCounters], lines_under_way: Collection[str] = ()
) -> bool:
    """Return whether no earlier own job runs; `counters` includes those that this claim has started.

    The other lines need no check: only the first job of each is ready.
    """
    if job.line != "own":
        return True
    counts = counters.get(job.uid)
    return job.uid not in lines_under_way and (counts is None or not counts.running_jobs)


def has_place(job: Job, shared: Shared, under_way: int = 0) -> bool:
    if job.capacity_key is None or job.capacity_limit is None:
        return True
    return shared.limit(job.capacity_key).running + under_way < job.capacity_limit


def retry_wait(job: Job, plan: Plan, shared: Shared, now: int) -> int | None:
    """Return until when a retry must wait for its breaker or its token's limits; None when it may begin."""
    if job.origin != "retry":
        return None
    refills = [shared.limit(one.key).refill_at(one, now) for one in budgets_of_retry(job, plan)]
    waits = [*refills, _breaker_wait(job, plan, shared, now)]
    return max((until for until in waits if until is not None), default=None)


def budgets_of_retry(job: Job, plan: Plan) -> tuple[Budget, ...]:
    """Return the token limits that a retry counts towards when it begins; a rescued one was counted before."""
    return () if job.origin != "retry" or job.fence else makers_budgets(plan.definition)


def _breaker_wait(job: Job, plan: Plan, shared: Shared, now: int) -> int | None:
    """Return until when a retry must wait for its breaker; None when it may begin (perhaps as the probe)."""
    rule = plan.definition.breaker
    if rule is None:
        return None
    breaker = shared.breaker(rule.key)
    if breakers.gate(shared, rule, now) != "shut" or breaker.probe_job_id == job.job_id:
        return None
    if breaker.opened_at is not None and breaker.state == "open":
        return max(breaker.opened_at + rule.reset_after, now + LOOK_AGAIN)
    return now + LOOK_AGAIN


def _count(job: Job, plan: Plan, shared: Shared, now: int) -> bool:
    """Take the job's places and count its firing; return whether it is the probe of its breaker."""
    rule = plan.definition.breaker
    is_probe = job.is_probe
    if job.origin == "retry":
        if rule is not None and breakers.gate(shared, rule, now) == "probe":
            breakers.begin_probe(shared, rule, job.job_id, now)
            is_probe = True
        for budget in budgets_of_retry(job, plan):
            shared.put(shared.limit(budget.key).fired(now))
    if not job.is_counted:
        shared.move(job.guard_key, outstanding=1)
        shared.move(job.capacity_key, outstanding=1)
    shared.move(job.capacity_key, running=1)
    return is_probe


def _start_of(job: Job) -> Start:
    if job.not_before is None and job.is_own:
        return ORDINARY
    was_waiting = job.not_before is not None and not job.fence  # never claimed before
    return Start(
        running_jobs=int(job.origin != "backfill"),
        waiting=-was_waiting,
        retries_waiting=-(was_waiting and job.origin == "retry"),
        is_own=job.is_own,
    )


# Firings that a token's calls cause, counted against its limits: triggers, re-runs, backfills, hooks (O5).
# Firings by the clock are counted where they are decided (`decide.tick`), retries where they begin.


def charge(shared: Shared, budgets: Iterable[Budget], count: int, now: int) -> None:
    """Count firings against budgets whose rows are locked; raise FiringLimitError when there are too many.

    More firings than fit into an empty window raise LimitError: trying again later cannot help.
    """
    for budget in {budget.key: budget for budget in budgets}.values():
        most = min((most for most in (budget.per_hour, budget.per_day) if most is not None), default=count)
        if count > max(most, 1):
            text = f"these are {count} firings, and this token may cause {most} in a window; take fewer"
            raise LimitError(text, limit="fires")
        limit = shared.limit(budget.key)
        refill_at = limit.refill_at(budget, now, count)
        if refill_at is not None:
            raise FiringLimitError(-((now - refill_at) // SECOND))
        if count:
            shared.put(limit.fired(now, count))


def makers_budgets(definition: Definition) -> tuple[Budget, ...]:
    """Return the limits of the tokens that created or changed a schedule."""
    return tuple(budget for budget in definition.budgets if budget.is_of_token)
