"""Jobs whose node is gone: requeued, or ended as lost (R8).

A node keeps all the jobs that it runs by one heartbeat. When the heartbeat is older than a whole lease, or the node
has signed off, any other node may take its jobs. The new fence excludes the old worker, should it still be alive.

A node that is alive requeues jobs that it never began, because the response to its claim was lost, and those that it
interrupts because it stops (G1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everwhen.decide.settle import give_back, rescue
from everwhen.model import row_changes
from everwhen.model.events import NOTHING, Event, EventType
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.store.commit import move_states, write_shared
from everwhen.store.dialect import Statement
from everwhen.store.job_rows import JOB
from everwhen.store.load import add_shared, hold
from everwhen.store.settle import Ended, end_jobs
from everwhen.store.transaction import LockHint, Transaction

# idx_jobs_unreleased
_OF_DEAD_NODES = Statement(f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND node IN (
    SELECT node FROM nodes WHERE node <> :node::text
        AND (stopped_at IS NOT NULL OR heartbeat_at NOT BETWEEN :oldest::instant AND :newest::instant))
ORDER BY row_id""")
# The primary key of jobs: under a new fence; `counted`: it counts as a rescue.
_REQUEUE = Statement("""
UPDATE jobs AS j SET status = 'queued', ready_at = :now::instant, node = NULL, fence = j.fence + 1,
    rescues = rescues + :counted, is_ready = true
FROM batch AS v(row_id, fence) WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")


def rescue_jobs(tx: Transaction, now: int, *, node: str, lease: int) -> int:
    """Take care of the jobs of dead nodes; return how many."""
    found = tx.many(Job._make, _OF_DEAD_NODES, node=node, oldest=now - lease, newest=now + lease)
    return rescue_found(tx, found, now) if found else 0


def rescue_found(tx: Transaction, found: Sequence[Job], now: int) -> int:
    """Requeue jobs that no node runs any more, or end them as lost; return how many."""
    shared = _hold(tx, found)
    jobs = _still_lost(tx, found)
    known = tx.load_plans([(job.uid, job.revision) for job in jobs])
    again: list[Job] = []
    over: list[Ended] = []
    for job in jobs:
        outcome = rescue(job, known[job.uid, job.revision].definition.on_lost)
        if job.status != "running" or outcome is not None:
            over.append((job, outcome or Outcome("lost")))
        else:
            again.append(job)
    tx.insert_events([_about(job, "job.lost", now) for job in jobs if job.status == "running"])
    _requeue(tx, again, shared, now, is_rescue=True, detail=NOTHING)
    _end(tx, over, now)
    return len(jobs)


def put_orphans_back(tx: Transaction, found: Sequence[Job], now: int) -> int:
    """Requeue jobs that their own node never began; return how many.

    No node ran them, so nothing was lost: this does not count as one of the three rescues, and `on_lost: fail` allows
    it.
    """
    shared = _hold(tx, found)
    jobs = _still_lost(tx, found)
    again = [job for job in jobs if job.status == "running"]
    _requeue(tx, again, shared, now, is_rescue=False, detail={"began": False})
    _end(tx, [(job, Outcome("lost")) for job in jobs if job.status != "running"], now)
    return len(jobs)


def give_jobs_back(tx: Transaction, found: Sequence[Job], now: int) -> int:
    """Requeue jobs that their own node interrupts, uncounted, or end those that must not run twice; return how many."""
    shared = _hold(tx, found)
    jobs = _still_lost(tx, found)
    known = tx.load_plans([(job.uid, job.revision) for job in jobs])
    running = [job for job in jobs if job.status == "running"]
    outcomes = {job.job_id: give_back(known[job.uid, job.revision].definition.on_lost) for job in running}
    again = [job for job in running if outcomes[job.job_id] is None]
    over = [(job, outcomes.get(job.job_id) or Outcome("lost")) for job in jobs if job not in again]
    tx.insert_events([_about(job, "job.lost", now) for job, _ in over if job.status == "running"])
    _requeue(tx, again, shared, now, is_rescue=False, detail={"interrupted": True})
    _end(tx, over, now)
    return len(jobs)


def _hold(tx: Transaction, found: Sequence[Job]) -> Shared:
    seen = [LockHint(j.uid, j.revision, j.guard_key, j.capacity_key, j.breaker_key) for j in found]
    shared = hold(tx, seen)
    tx.lock_schedules({job.uid for job in found})
    return shared


def _still_lost(tx: Transaction, found: Sequence[Job]) -> list[Job]:
    fresh = tx.jobs([job.job_id for job in found])
    return [job for old in found if (job := fresh.get(old.job_id)) and _is_still_lost(job, old)]


def _is_still_lost(job: Job, seen: Job) -> bool:
    """Return False if another node rescued the job, or its own worker settled it, since it was found."""
    return job.fence == seen.fence and job.node == seen.node and job.released_at is None


def _requeue(
    tx: Transaction,
    jobs: Sequence[Job],
    shared: Shared,
    now: int,
    *,
    is_rescue: bool,
    detail: Mapping[str, object],
) -> None:
    """Requeue jobs under the same id and a new fencing token; each keeps its place in the limits but is not running."""
    if not jobs:
        return
    tx.insert_events([_about(job, "job.rescued", now)._replace(detail=detail) for job in jobs])
    add_shared(tx, shared, (), jobs)
    before = tx.states({job.uid for job in jobs})
    after = dict(before)
    for job in jobs:
        shared.move(job.capacity_key, running=-1)
        if state := after.get(job.uid):
            after[job.uid] = state if job.origin == "backfill" else row_changes.release(state)
    batch = [(job.row_id, job.fence) for job in jobs]
    tx.expect(len(jobs), tx.run(_REQUEUE, now=now, counted=int(is_rescue), batch=batch))
    tx.note_ready((now,))
    move_states(tx, [(before[uid], after[uid]) for uid in before])
    write_shared(tx, shared, now)


def _end(tx: Transaction, over: Sequence[Ended], now: int) -> None:
    """End jobs that are lost, and release jobs that had ended earlier."""
    if over:
        end_jobs(tx, over, Shared(), now)


def _about(job: Job, kind: EventType, now: int) -> Event:
    return Event(kind, now, job.schedule_id, job.uid, slot_at=job.slot_at, job_id=job.job_id)
