"""Jobs whose node is gone: back into the queue, or ended as lost (R8).

A node keeps what it runs by one heartbeat for all of it. When that has not come for a whole lease, or the node
said farewell, any other node may take its jobs. The new fence shuts the old worker out, should it still live.
"""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.decide.rescue import rescue
from everwhen.model.events import Event, EventType
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.shared import Shared
from everwhen.stores.flows.commit import move_states, write_shared
from everwhen.stores.flows.load import add_shared, hold
from everwhen.stores.flows.settle import Ended, end_jobs
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Glimpse, Transaction


def rescue_jobs(tx: Transaction, plans: PlanCache, now: int, *, node: str, lease: int) -> int:
    """How many jobs of dead nodes were taken care of."""
    found = tx.jobs_of_dead_nodes(node=node, oldest=now - lease, newest=now + lease)
    if not found:
        return 0
    shared = hold(
        tx, plans, [Glimpse(j.uid, j.revision, j.guard_key, j.capacity_key, j.breaker_key) for j in found]
    )
    tx.lock_schedules({job.uid for job in found})
    fresh = tx.jobs([job.job_id for job in found])
    jobs = [job for old in found if (job := fresh.get(old.job_id)) and _is_still_lost(job, old)]
    known = plans.load(tx, [(job.uid, job.revision) for job in jobs])
    again: list[Job] = []
    lost: list[Ended] = []
    for job in jobs:
        outcome = rescue(job, known[job.uid, job.revision].definition.on_lost)
        if job.status != "running" or outcome is not None:
            lost.append((job, outcome or Outcome("lost")))
        else:
            again.append(job)
    _record(tx, jobs, again, now)
    if again:
        _requeue(tx, again, shared, now)
    if lost:
        end_jobs(tx, plans, lost, Shared(), now)
    return len(jobs)


def _is_still_lost(job: Job, seen: Job) -> bool:
    """Another node may have rescued it, or its own worker settled it, since it was found."""
    return job.fence == seen.fence and job.node == seen.node and job.released_at is None


def _record(tx: Transaction, jobs: Sequence[Job], again: Sequence[Job], now: int) -> None:
    events = [_about(job, "job.lost", now) for job in jobs if job.status == "running"]
    tx.insert_events(events + [_about(job, "job.rescued", now) for job in again])


def _requeue(tx: Transaction, jobs: Sequence[Job], shared: Shared, now: int) -> None:
    """Same id, new fencing token; it keeps its place in the limits but runs nowhere."""
    add_shared(tx, shared, (), jobs)
    before = tx.states({job.uid for job in jobs})
    after = dict(before)
    for job in jobs:
        shared.move(job.capacity_key, running=-1)
        if state := after.get(job.uid):
            running_jobs = state.running_jobs - (job.origin != "backfill")
            after[job.uid] = state._replace(running_jobs=running_jobs)
    tx.requeue_jobs(jobs, now)
    move_states(tx, [(before[uid], after[uid]) for uid in before])
    write_shared(tx, shared, now)


def _about(job: Job, kind: EventType, now: int) -> Event:
    return Event(kind, now, job.schedule_id, job.uid, slot_at=job.slot_at, job_id=job.job_id)
