"""Message jobs: the transaction that starts one writes its message and settles it.

There is nothing to run, so no worker is involved and no crash can come between a slot and its message. Nearly all of
them fire with no other job before them: such a job is written once, in its final state. Enqueueing, reading, starting
and settling each of them took three times as long: with a thousand in one second, half of that second had passed
before the last commit. The others run one after another, like all jobs; each round ends the first in every line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter

from everwhen.decide.claim import claim
from everwhen.decide.fast_path import end_fast
from everwhen.model.changes import Decision
from everwhen.model.claim import ClaimedJob
from everwhen.model.job import MESSAGE_NODE, Job
from everwhen.model.limits import Shared
from everwhen.model.message import MESSAGE, MessageJob, message_of
from everwhen.model.outcome import JobEnd, NewMessage, Outcome
from everwhen.model.row_changes import JOB_INSERTED, SUCCEEDED, job_row
from everwhen.model.schedule import State
from everwhen.store.commit import FIRED, write_shared, write_starts
from everwhen.store.dialect import Statement
from everwhen.store.load import add_shared, plans_to_claim
from everwhen.store.messages import insert_messages
from everwhen.store.settle import end_jobs, settle_fast
from everwhen.store.transaction import Row, Transaction

MOST_ROUNDS = 1_000

# Columns that a firing and a success change on the row of a schedule; the others stay as they are.
PUBLISHED = (*FIRED, *SUCCEEDED.columns, "last_run_at", "last_completed_at")
_MOVED = itemgetter(*(State._fields.index(name) for name in (*PUBLISHED, "row_id")))
_ATTEMPT, _READY_AT = JOB_INSERTED.index("attempt"), JOB_INSERTED.index("ready_at")

# idx_audit_schedule: who triggered or re-ran a job, where that is recorded.
_REQUESTER = Statement("""
SELECT actor FROM audit_events WHERE uid = :uid::text AND slot_at = :slot_at::instant AND job_id = :job_id::text
    AND type IN ('job.triggered', 'job.rerun')""")


def publish_at_once(tx: Transaction, decisions: Sequence[Decision], now: int) -> Sequence[Decision]:
    """Write jobs that are fired and ended in one step; return the remaining decisions."""
    left: list[Decision] = []
    published: list[tuple[Decision, State]] = []
    for decision in decisions:
        is_message = decision.plan.definition.target.kind == MESSAGE
        after = end_fast(decision, now) if is_message else None
        if after is None:
            left.append(decision)
        else:
            published.append((decision, after))
    if published:
        tx.insert_jobs([_ended_row(decision, now) for decision, _ in published], are_ended=True)
        tx.update_states(PUBLISHED, [_MOVED(after) for _, after in published])
        insert_messages(tx, [_message_of_firing(decision, now) for decision, _ in published], now)
    return left


def _ended_row(decision: Decision, now: int) -> Row:
    """Return the row of a job that has begun and succeeded, in the order of JOB_ENDED."""
    row = list(job_row(decision.jobs[0], decision.after, decision.plan, now))
    row[_ATTEMPT], row[_READY_AT] = decision.jobs[0].attempt + 1, None
    timeout = decision.plan.definition.timeout
    deadline_at = None if timeout is None else now + timeout
    return (*row, "succeeded", now, deadline_at, now, now, MESSAGE_NODE, 1)


def _message_of_firing(decision: Decision, now: int) -> NewMessage:
    job, state = decision.jobs[0], decision.after
    message_job = MessageJob(job.job_id, job.number, state.schedule_id, state.uid, job.payload)
    return message_of(message_job, decision.plan.definition, now)


def publish_fired(tx: Transaction, decisions: Sequence[Decision], now: int) -> None:
    """Publish the messages that a tick has just fired."""
    uids = {d.after.uid for d in decisions if d.jobs and d.plan.definition.target.kind == MESSAGE}
    if uids:
        _publish_ready(tx, uids, now)


def publish_claimed(tx: Transaction, claimed: Sequence[ClaimedJob], now: int) -> list[ClaimedJob]:
    """Settle the claimed jobs that are messages; return the others, for the worker."""
    published = [one for one in claimed if one.definition.target.kind == MESSAGE]
    if not published:
        return list(claimed)
    _end(tx, published, _shared(tx, [one.job for one in published]), now)
    _publish_ready(tx, {one.job.uid for one in published}, now)
    return [one for one in claimed if one.definition.target.kind != MESSAGE]


def _publish_ready(tx: Transaction, uids: Collection[str], now: int) -> None:
    for _ in range(MOST_ROUNDS):
        queued = [job for line in tx.outstanding(uids).values() for job in line if job.status == "queued"]
        jobs = [job for job in queued if job.is_ready and (job.not_before is None or job.not_before <= now)]
        if not jobs:  # nearly always after the first round
            return
        known = tx.load_plans([(job.uid, job.revision) for job in jobs])
        jobs = [job for job in jobs if known[job.uid, job.revision].definition.target.kind == MESSAGE]
        counters = tx.counters({job.uid for job in jobs})
        shared = _shared(tx, jobs)
        claims = claim(jobs, known, counters, shared, node=MESSAGE_NODE, limit=len(jobs), now=now)
        if not claims.taken:
            return
        write_starts(tx, claims, now)
        _end(tx, claims.taken, shared, now)


def _end(tx: Transaction, claimed: Sequence[ClaimedJob], shared: Shared, now: int) -> None:
    """Settle, nearly all on the fast path, like other jobs: the full one is too slow for 1,000 messages a second."""
    jobs = {one.job.job_id: one.job for one in claimed}
    succeeded = [(one.job, Outcome("succeeded", also=_message(tx, one, now))) for one in claimed]
    ends = [JobEnd(job.job_id, job.fence, outcome) for job, outcome in succeeded]
    left = settle_fast(tx, ends, shared, now)
    if left:
        end_jobs(tx, [(jobs[end.job_id], end.outcome) for end in left], shared, now)
    else:
        write_shared(tx, shared, now)


def _message(tx: Transaction, claimed: ClaimedJob, now: int) -> NewMessage:
    """Return the message; for a job that was triggered manually, its requester is its author."""
    job, actor = claimed.job, None
    if job.origin == "manual":
        actor = tx.text(_REQUESTER, uid=job.uid, slot_at=job.slot_at, job_id=job.job_id)
    return message_of(job, claimed.definition, now, actor)


def _shared(tx: Transaction, jobs: Sequence[Job]) -> Shared:
    shared = Shared()
    add_shared(tx, shared, (), jobs)
    plans_to_claim(tx, shared, jobs)
    return shared
