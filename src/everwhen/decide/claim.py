"""The claim: which ready jobs a node may take, and what the claim changes.

Jobs of one schedule run one after another unless they may run in parallel. Capacity applies to every origin. A retry
waits while its breaker is open; the first one after `reset_after` is the probe. A retry counts towards the budgets of
its schedule when it begins; one that a budget refuses waits for the refill, or is given up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from everwhen.decide import breaker as breakers
from everwhen.decide import budgets
from everwhen.decide.turns import take_turns
from everwhen.model import row_changes
from everwhen.model.claim import ORDINARY, ClaimedJob, ScheduleCounters, Start
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.policy import Budget
from everwhen.model.schedule import Plan
from everwhen.model.share import NONE_IN_USE, WorkersInUse

LOOK_AGAIN = SECOND


class Claims(NamedTuple):
    """Claimed jobs, retries postponed by their breaker, and what the starts add to the rows of schedules.

    `refused`: retries that a budget refuses, each with the limit. `reserved`: what retries that begin have reserved,
    with their row; other jobs have reserved when they were fired.
    """

    taken: list[ClaimedJob]
    postponed: list[tuple[Job, int]]
    starts: list[tuple[int, Start]]
    refused: list[tuple[Job, budgets.Refusal]]
    reserved: list[tuple[str, int]]


def claim(
    jobs: Sequence[Job],
    plans: Mapping[tuple[str, int], Plan],
    counters: dict[str, ScheduleCounters],
    shared: Shared,
    *,
    node: str,
    limit: int,
    now: int,
    in_use: WorkersInUse = NONE_IN_USE,
) -> Claims:
    """Claim up to `limit` of the ready jobs, by turns of their owners; each claim updates `counters` and `shared`."""
    claims = Claims([], [], [], [], [])

    def may_begin(job: Job) -> bool:
        if not is_its_turn(job, counters) or not has_place(job, shared):
            return False
        return not put_off(job, plans[job.uid, job.revision], claims, shared, now)

    for job in islice(take_turns(in_line(jobs), plans, in_use, may_begin, free=limit), limit):
        plan = plans[job.uid, job.revision]
        if job.origin == "retry":
            job = _charged(job, plan, claims, shared, now)
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


class PutOff(Protocol):
    """Where retries that may not begin now are collected."""

    @property
    def postponed(self) -> list[tuple[Job, int]]: ...

    @property
    def refused(self) -> list[tuple[Job, budgets.Refusal]]: ...


def put_off(job: Job, plan: Plan, collected: PutOff, shared: Shared, now: int) -> bool:
    """Return whether a retry has to wait for its breaker or a budget; then it is collected."""
    if job.origin != "retry":
        return False
    if (waits_until := breaker_wait(job, plan, shared, now)) is not None:
        collected.postponed.append((job, waits_until))
        return True
    if (refusal := refusal_of(job, plan, shared, now)) is not None:
        collected.refused.append((job, refusal))
        return True
    return False


def _charged(job: Job, plan: Plan, claims: Claims, shared: Shared, now: int) -> Job:
    """Count a retry that begins against its budgets; return it with what it has reserved."""
    counted = budgets_of_retry(job, plan)
    reserved = budgets.charge(shared, budgets.attempt_of(job, plan.definition), counted, now)
    if reserved is None:
        return job
    claims.reserved.append((reserved, job.row_id))
    return job._replace(cost_reserved=reserved)


def refusal_of(job: Job, plan: Plan, shared: Shared, now: int) -> budgets.Refusal | None:
    """Return the limit that a retry does not fit into; None when it may begin."""
    counted = budgets_of_retry(job, plan)
    return budgets.refusal(shared, job.uid, counted, now) if counted else None


def budgets_of_retry(job: Job, plan: Plan) -> tuple[Budget, ...]:
    """Return the budgets that a retry counts towards when it begins; a rescued one was counted before."""
    return () if job.origin != "retry" or job.fence else plan.definition.budgets


def breaker_wait(job: Job, plan: Plan, shared: Shared, now: int) -> int | None:
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
    """Take the job's places; return whether it is the probe of its breaker."""
    rule = plan.definition.breaker
    is_probe = job.is_probe
    if job.origin == "retry" and rule is not None and breakers.gate(shared, rule, now) == "probe":
        breakers.begin_probe(shared, rule, job.job_id, now)
        is_probe = True
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
