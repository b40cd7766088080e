"""Jobs whose work continues externally, and whose outcome is reported later (CONTRACT 2, HTTP 202).

A worker that receives a 202 hands its job over: the job stays running and belongs to no node. So its worker is free,
no lease of it can expire, and a restart of everwhen does not affect it. The job ends by a report with its token, by
its deadline, or by a cancellation; the first of them counts. When the node dies between the 202 and the hand-over,
the job is rescued like any other: the request is sent again, with the same idempotency key and a new token.
"""

from __future__ import annotations

import hmac

from everwhen.model.job import EXTERNAL, Job
from everwhen.model.outcome import Outcome
from everwhen.stores.flows.load import hold
from everwhen.stores.flows.settle import end_jobs
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Transaction


def take_report(
    tx: Transaction, plans: PlanCache, job_id: str, token_hash: str, outcome: Outcome, now: int
) -> bool:
    """End a job with the reported outcome; False when it does not wait for this token."""
    shared = hold(tx, plans, seen := tx.peek_jobs([job_id]))
    tx.states({lock_hint.uid for lock_hint in seen})  # locked before their jobs
    job = tx.jobs([job_id]).get(job_id)
    if job is None or not is_awaited(job):
        return False
    if not hmac.compare_digest(tx.outcome_token(job_id) or "", token_hash):
        return False
    end_jobs(tx, plans, [(job, outcome)], shared, now)
    return True


def end_overdue(tx: Transaction, plans: PlanCache, now: int) -> int:
    """End jobs that are past their deadline, and release cancelled ones; return how many."""
    found = [job.job_id for job in tx.jobs_external_over(now)]
    if not found:
        return 0
    shared = hold(tx, plans, seen := tx.peek_jobs(found))
    tx.states({lock_hint.uid for lock_hint in seen})
    jobs = [job for job in tx.jobs(found).values() if job.node == EXTERNAL and job.released_at is None]
    over = [job for job in jobs if job.status != "running" or (job.deadline_at or now) <= now]
    outcome = Outcome("timed_out", error="timed out: no outcome was reported in time")
    end_jobs(tx, plans, [(job, outcome) for job in over], shared, now)
    return len(over)


def is_awaited(job: Job) -> bool:
    return job.node == EXTERNAL and job.status == "running"
