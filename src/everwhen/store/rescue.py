"""Jobs whose node is gone: requeued, or ended as lost.

A node keeps all the jobs that it runs by one heartbeat. When the heartbeat is older than a whole lease, or the node
has signed off, any other node may take its jobs. The new fence excludes the old worker, should it still be alive.

A node that is alive requeues jobs that it never began, because the response to its claim was lost, and those that it
interrupts because it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from everwhen.decide.budgets import begin_again
from everwhen.decide.settle import give_back, rescue
from everwhen.model import row_changes
from everwhen.model.events import NOTHING, Event, EventType
from everwhen.model.host_fault import HostFault
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.model.policy import OnLost
from everwhen.model.schedule import Definition, Plan
from everwhen.store.commit import move_states, put_costs, write_shared
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
# The primary key of jobs: under a new fence; `counted`: it counts as a rescue, `not_begun`: its start was none.
_REQUEUE = Statement("""
UPDATE jobs AS j SET status = 'queued', ready_at = :now::instant, node = NULL, fence = j.fence + 1,
    attempt = attempt - :not_begun, rescues = rescues + :counted, is_ready = true
FROM batch AS v(row_id, fence) WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")


def rescue_jobs(tx: Transaction, now: int, *, node: str, lease: int) -> int:
    """Take care of the jobs of dead nodes; return how many."""
    found = tx.many(Job._make, _OF_DEAD_NODES, node=node, oldest=now - lease, newest=now + lease)
    return rescue_found(tx, found, now) if found else 0


def rescue_found(tx: Transaction, found: Sequence[Job], now: int) -> int:
    """Requeue jobs that no node runs any more, or end them as lost; return how many."""
    return _take_back(tx, found, now, rescue, is_rescue=True, detail=NOTHING)


def put_orphans_back(tx: Transaction, found: Sequence[Job], now: int) -> int:
    """Requeue jobs that their own node never began; return how many.

    No node ran them, so nothing was lost: this does not count as one of the three rescues, and `on_lost: fail` allows
    it.
    """
    return _take_back(tx, found, now, lambda _job, _on_lost: None, is_rescue=False, detail={"began": False})


def give_jobs_back(tx: Transaction, found: Sequence[Job], now: int) -> int:
    """Requeue jobs that their own node interrupts, uncounted, or end those that must not run twice; return how many."""

    def end(_job: Job, on_lost: OnLost) -> Outcome | None:
        return give_back(on_lost)

    return _take_back(tx, found, now, end, is_rescue=False, detail={"interrupted": True})


def give_unbegun_back(
    tx: Transaction, found: Sequence[Job], now: int, *, fault: HostFault | None = None
) -> int:
    """Requeue jobs that their own node did not begin: no attempt, no rescue, for any `on_lost`; return how many.

    `fault`: why the host let them not begin. Without one the node claimed them ahead, and other jobs took longer than
    it expected: nothing is recorded about that.
    """
    detail = None if fault is None else {"began": False, "fault": fault}
    return _take_back(
        tx, found, now, lambda _job, _on_lost: None, is_rescue=False, detail=detail, is_attempt=False
    )


def _take_back(
    tx: Transaction,
    found: Sequence[Job],
    now: int,
    decide: Callable[[Job, OnLost], Outcome | None],
    *,
    is_rescue: bool,
    detail: Mapping[str, object] | None,
    is_attempt: bool = True,
) -> int:
    """Requeue running jobs, or end them as decided; release jobs that had ended earlier; return how many they are.

    `detail` is that of the events; None: there are none.
    """
    seen = [
        LockHint(j.uid, j.revision, j.guard_key, j.capacity_key, j.breaker_key, cost_reserved=j.cost_reserved)
        for j in found
    ]
    shared = hold(tx, seen)
    tx.lock_schedules({job.uid for job in found})
    fresh = tx.jobs([job.job_id for job in found])
    jobs = [job for old in found if (job := fresh.get(old.job_id)) and _is_still_lost(job, old)]
    known = tx.load_plans([(job.uid, job.revision) for job in jobs])
    again: list[Job] = []
    over: list[Ended] = []
    for job in jobs:
        outcome = decide(job, known[job.uid, job.revision].definition.on_lost)
        if job.status != "running" or outcome is not None:
            over.append((job, outcome or Outcome("lost")))
        else:
            again.append(job)
    lost = jobs if is_rescue else [job for job, _ in over]
    running = [job for job in lost if job.status == "running"]
    tx.insert_events([event_about(job, "job.lost", now, {"attempt": job.attempt}) for job in running])
    _requeue(tx, again, known, shared, now, is_rescue=is_rescue, detail=detail, is_attempt=is_attempt)
    if over:
        end_jobs(tx, over, Shared(), now)
    return len(jobs)


def _is_still_lost(job: Job, seen: Job) -> bool:
    """Return False if another node rescued the job, or its own worker settled it, since it was found."""
    return job.fence == seen.fence and job.node == seen.node and job.released_at is None


def _requeue(
    tx: Transaction,
    jobs: Sequence[Job],
    plans: Mapping[tuple[str, int], Plan],
    shared: Shared,
    now: int,
    *,
    is_rescue: bool,
    detail: Mapping[str, object] | None,
    is_attempt: bool,
) -> None:
    """Requeue jobs under the same id and a new fencing token; each keeps its place in the limits but is not running."""
    if not jobs:
        return
    add_shared(tx, shared, (), jobs)
    began = detail is not None and detail.get("began", True)  # an attempt that never began costs nothing
    definitions = {job.job_id: plans[job.uid, job.revision].definition for job in jobs if began}
    limited = [job for job in jobs if began and definitions[job.job_id].budgets]
    spent = _count_again(tx, limited, definitions, shared, now) if limited else {}
    if detail is not None:
        tx.insert_events(
            [event_about(job, "job.rescued", now, {**detail, **spent.get(job.job_id, {})}) for job in jobs]
        )
    before = tx.states({job.uid for job in jobs})
    after = dict(before)
    for job in jobs:
        shared.move(job.capacity_key, running=-1)
        if state := after.get(job.uid):
            after[job.uid] = state if job.origin == "backfill" else row_changes.release(state)
    batch = [(job.row_id, job.fence) for job in jobs]
    counted = {"counted": int(is_rescue), "not_begun": int(not is_attempt)}
    tx.expect(len(jobs), tx.run(_REQUEUE, now=now, **counted, batch=batch))
    tx.note_ready((now,))
    move_states(tx, [(before[uid], after[uid]) for uid in before])
    write_shared(tx, shared, now)


def _count_again(
    tx: Transaction, jobs: Sequence[Job], definitions: Mapping[str, Definition], shared: Shared, now: int
) -> dict[str, dict[str, object]]:
    """Count the attempts that follow; return what the lost ones count as, by budget, for their events."""
    keys = {budget.key for job in jobs for budget in definitions[job.job_id].budgets}
    hold(tx, (), shared, limits=keys)
    spent = {job.job_id: begin_again(shared, job, definitions[job.job_id], now) for job in jobs}
    put_costs(tx, [(job, None) for job in jobs])
    return {job_id: {"spent": dict(cost)} for job_id, cost in spent.items() if cost}


def event_about(job: Job, kind: EventType, now: int, detail: Mapping[str, object] = NOTHING) -> Event:
    return Event(kind, now, job.schedule_id, job.uid, slot_at=job.slot_at, job_id=job.job_id, detail=detail)
