"""Claiming ready jobs for a node, within every capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everwhen.decide.budgets import Refusal
from everwhen.decide.claim import Claims, claim
from everwhen.decide.settle import put_off_retry
from everwhen.model.changes import Decision
from everwhen.model.claim import ClaimedJob, ScheduleCounters, counters_of
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.schedule import Plan, Schedule
from everwhen.model.share import NONE_IN_USE, FreeWorkers, WorkersInUse
from everwhen.store.commit import commit_decisions, write_shared, write_starts
from everwhen.store.dialect import Statement
from everwhen.store.job_rows import IS_OURS, JOB
from everwhen.store.load import (
    add_shared,
    claimable,
    hold,
    plans_to_claim,
    schedules_of,
    seen_before,
    system_paused_at,
    with_jobs,
)
from everwhen.store.publish import publish_claimed
from everwhen.store.ready import SeenReady, ShareWindow, look_for_ready
from everwhen.store.records import ReadyQuery
from everwhen.store.transaction import Transaction

# idx_jobs_outstanding
_READY_OF = Statement(f"""
SELECT {JOB} FROM jobs WHERE uid = ANY(:uids::texts) AND status IN ('queued', 'running')
    AND ready_at <= :now::instant AND line = 'own' AND {IS_OURS} ORDER BY uid, slot_at, row_id""")

# The primary key of jobs.
_NOT_BEFORE = Statement("""
UPDATE jobs AS j SET not_before = v.not_before FROM batch AS v(not_before, row_id) WHERE j.row_id = v.row_id""")


def take_jobs(
    tx: Transaction,
    now: int,
    *,
    node: str,
    limit: int,
    queues: Sequence[str] | None,
    in_use: WorkersInUse = NONE_IN_USE,
    window: ShareWindow | None = None,
) -> list[ClaimedJob] | None:
    """Claim up to `limit` jobs for a node; None when others took all that it saw, so that the caller may try again."""
    if system_paused_at(tx) is not None:
        return []
    # Read a few more than are wanted, and many more only where some of the first may not be claimed.
    is_first = True
    for look_at in (limit + 1 + min(limit // 4, 9), 4 * limit + 100):
        look = look_for_ready(tx, ReadyQuery(now, look_at, queues), in_use, window or ShareWindow())
        shared = hold(tx, look.peeked, wait=is_first)  # later keys come after those that are locked already
        is_first = False
        jobs, counters, known = load_ready(tx, look, shared)
        claims = claim(
            claimable(shared, jobs, known),
            known,
            counters,
            shared,
            node=node,
            limit=limit,
            now=now,
            in_use=in_use,
        )
        if len(claims.taken) == limit or not look.is_edge:
            break
    if len(jobs) < len(look.peeked) and not (claims.taken or claims.postponed or claims.refused):
        return None
    return write_claims(tx, claims, shared, now)


def claim_fired(
    tx: Transaction, decisions: Sequence[Decision], shared: Shared, now: int, workers: FreeWorkers
) -> list[ClaimedJob] | None:
    """Claim jobs in the transaction that fires them, for a node that has a free worker for each, and write `shared`.

    Return None when there is nothing to claim: then nothing is written. Their keys and rows are locked already. The
    caller has made sure that no job waits which was ready before them.
    """
    ids = [job.job_id for one in decisions for job in one.jobs if job.is_ready and job.not_before is None]
    if not 0 < len(ids) <= workers.number:
        return None
    jobs = [job for job in tx.jobs(ids).values() if job.ready_at is not None and workers.serve(job.queue)]
    known = {(one.after.uid, one.after.revision): one.plan for one in decisions}
    counters = {one.after.uid: counters_of(one.after) for one in decisions}
    claims = claim(
        jobs,
        known,
        counters,
        shared,
        node=workers.node,
        limit=workers.number,
        now=now,
        in_use=workers.in_use,
    )
    return write_claims(tx, claims, shared, now)


def load_ready(
    tx: Transaction, look: SeenReady, shared: Shared
) -> tuple[list[Job], dict[str, ScheduleCounters], dict[tuple[str, int], Plan]]:
    """Return the jobs of a look that are still ready, with the counters of their schedules and with their plans."""
    now, queues = look.query.now, look.query.queues
    counters = tx.counters({seen.uid for seen in look.peeked}) if look.peeked else {}
    ready = tx.ready_jobs(look.query) if look.peeked else look.jobs
    jobs = seen_before(ready, look.peeked)
    counters |= tx.counters({job.uid for job in jobs} - counters.keys())
    if look.is_edge:
        jobs = with_those_beyond(tx, jobs, counters, now, queues)
    add_shared(tx, shared, (), jobs, wait=False)
    return jobs, counters, plans_to_claim(tx, shared, jobs, wait=False)


def take_job(tx: Transaction, now: int, *, node: str, job_id: str) -> ClaimedJob | None:
    """Claim this one job, whatever its queue; None when it is not ready, does not exist, or has no capacity."""
    if system_paused_at(tx) is not None:
        return None
    peeked = tx.peek_jobs([job_id])
    shared = hold(tx, peeked)
    counters = tx.counters({seen.uid for seen in peeked}) if peeked else {}
    job = tx.jobs([job_id]).get(job_id)
    if job is None or job.status != "queued" or job.ready_at is None or job.ready_at > now:
        return None
    counters |= tx.counters({job.uid} - counters.keys())
    add_shared(tx, shared, (), [job])
    known = plans_to_claim(tx, shared, [job])
    claims = claim([job], known, counters, shared, node=node, limit=1, now=now)
    taken = write_claims(tx, claims, shared, now)
    return taken[0] if taken else None


def write_claims(tx: Transaction, claims: Claims, shared: Shared, now: int) -> list[ClaimedJob]:
    write_starts(tx, claims, now)
    if claims.postponed:
        tx.postpone_jobs(claims.postponed)
    if claims.refused:
        put_off_refused(tx, claims.refused, shared, now)
    probes = [probe for probe in shared.transitions if probe.to_state == "half_open"]
    if probes:  # a retry that is the probe of its breaker; a slot records its own
        tx.insert_events(
            [Event("breaker.half_opened", t.at, job_id=t.job_id, detail={"key": t.key}) for t in probes]
        )
    write_shared(tx, shared, now)
    return publish_claimed(tx, claims.taken, now)


def put_off_refused(
    tx: Transaction, refused: Sequence[tuple[Job, Refusal]], shared: Shared, now: int
) -> None:
    """Let retries that a budget refuses wait for its refill, or give them up; the caller writes `shared`."""
    states = list(tx.states({job.uid for job, _ in refused}).values())
    uids = {state.uid for state in states}
    schedules = {one.state.uid: one for one in with_jobs(tx, schedules_of(tx, states), uids)}
    add_shared(tx, shared, schedules.values(), [job for job, _ in refused])
    waiting: list[tuple[Job, int]] = []
    for job, refusal in refused:
        schedule = schedules.get(job.uid)
        decided = (
            refusal.refill_at if schedule is None else put_off_retry(schedule, job, refusal, now, shared)
        )
        if isinstance(decided, int):
            waiting.append((job, decided))
            continue
        commit_decisions(tx, [decided], shared, now)
        schedules[job.uid] = Schedule(decided.after, decided.plan, _without(schedule, job))
    if waiting:
        tx.postpone_jobs(waiting)
        tx.run(_NOT_BEFORE, batch=[(until, job.row_id) for job, until in waiting])


def _without(schedule: Schedule | None, job: Job) -> list[Job]:
    return [] if schedule is None else [one for one in schedule.outstanding if one.row_id != job.row_id]


def with_those_beyond(
    tx: Transaction,
    jobs: list[Job],
    counters: Mapping[str, ScheduleCounters],
    now: int,
    queues: Sequence[str] | None,
) -> list[Job]:
    """Add ready jobs beyond the limit: one may precede those of its schedule, which run in order of slot_at."""
    crowded = {uid for uid, counts in counters.items() if counts.outstanding > 1}
    if not crowded:
        return jobs
    known = {job.row_id for job in jobs}
    return jobs + [
        job
        for job in tx.many(Job._make, _READY_OF, uids=crowded, now=now, queues=queues)
        if job.row_id not in known
    ]
