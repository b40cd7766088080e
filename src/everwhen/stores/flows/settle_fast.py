"""The fast path for the ends of nearly all jobs: successes with no job waiting behind them, counted in the statement.

Neither a job nor the row of its schedule is read whole, and there are no decisions per job. It writes what the full
path would have written (a test compares the two); ends that need more are left to the full path, untouched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from everwhen.decide.fast_path import awaits_successes
from everwhen.model.job import OWN_ORIGINS, Job
from everwhen.model.outcome import SUCCEEDED, JobEnd, NewMessage, Outcome
from everwhen.model.schedule import Plan
from everwhen.model.shared import Shared
from everwhen.stores.flows.load import add_shared
from everwhen.stores.plans import PlanCache
from everwhen.stores.storable import storable
from everwhen.stores.transaction import Finished, Transaction

Plans = Mapping[tuple[str, int], Plan]


def settle_fast(
    tx: Transaction, plans: PlanCache, ends: Sequence[JobEnd], shared: Shared, now: int
) -> Sequence[JobEnd]:
    """Settle ordinary ends; return the others. `shared` is updated; the caller writes it."""
    found = {job.job_id: job for job in tx.finished([end.job_id for end in ends])}
    if len(found) < len(ends) and len({end.job_id for end in ends}) < len(ends):
        return ends  # of a job that is named twice the first outcome counts
    keys = {(job.uid, job.revision) for job in found.values() if job.revision is not None}
    known = plans.load(tx, keys)
    ordinary: list[tuple[Finished, Outcome]] = []
    left: list[JobEnd] = []
    for end in ends:
        job = found.get(end.job_id)
        if job is not None and _is_fast(job, end, known):
            ordinary.append((job, storable_outcome(end.outcome)))
        else:
            left.append(end)
    if ordinary:
        jobs = [job for job, _ in ordinary]
        tx.end_jobs(ordinary, now)
        tx.count_successes(jobs, now)
        messages = [outcome.also for _, outcome in ordinary if isinstance(outcome.also, NewMessage)]
        if messages:
            tx.insert_messages(messages, now)
        add_shared(tx, shared, (), jobs)
        _give_places_back(jobs, shared)
    return left


def _is_fast(job: Finished, end: JobEnd, known: Plans) -> bool:
    """Return whether this is a success of a counted run (the clock's or another origin) with no job behind it."""
    if not is_held_by(job, end.fence) or job.status != "running" or job.origin not in OWN_ORIGINS:
        return False
    if job.outstanding != 1 or job.revision is None or job.breaker_key is not None:
        return False
    return _is_plain(end.outcome) and not awaits_successes(known[job.uid, job.revision].definition)


def _is_plain(outcome: Outcome) -> bool:
    """Return whether this is a success with only a result and a message; fields added to outcomes later are covered."""
    if outcome is SUCCEEDED:
        return True
    also = outcome.also if isinstance(outcome.also, NewMessage) else None
    return outcome == Outcome("succeeded", result=outcome.result, also=also)


def _give_places_back(jobs: Sequence[Finished], shared: Shared) -> None:
    """Free the places of these jobs, once for each key."""
    outstanding: dict[str, int] = {}
    running: dict[str, int] = {}
    for job in jobs:
        if job.guard_key is not None and job.is_counted:
            outstanding[job.guard_key] = outstanding.get(job.guard_key, 0) + 1
        if job.capacity_key is not None:
            running[job.capacity_key] = running.get(job.capacity_key, 0) + 1
            outstanding[job.capacity_key] = outstanding.get(job.capacity_key, 0) + bool(job.is_counted)
    for key, count in outstanding.items():
        shared.move(key, outstanding=-count, running=-running.get(key, 0))


def is_held_by(job: Job | Finished, fence: int) -> bool:
    return job.fence == fence and job.node is not None and job.released_at is None


def storable_outcome(outcome: Outcome) -> Outcome:
    error, result = _clean(outcome.error), _clean(outcome.result)
    if error == outcome.error and result == outcome.result:  # nearly always
        return outcome
    return replace(outcome, error=error, result=result)


def _clean(text: str | None) -> str | None:
    return storable(text) if text else text
