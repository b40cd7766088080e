"""The outbox: jobs on their way to an external queue.

The database is the only source of truth. A queue transports the *message* "job X is ready, message number n".
Whatever the queue loses, repeats or reorders, no work is lost, repeated or reordered.

*States.* A job that is ready and not handed over may be sent. Handing it over marks it, in one transaction: its
number is incremented, `handed_over_at` is set, and `ready_at` is set to a future instant, until which neither a claim
nor another dispatcher sees the job. The message is sent only after the commit. The worker that receives the message
claims the job by the rules of every claim, but only while the job is queued and handed over and its number equals
that of the message. So of all messages about a job one is valid, and the others are dropped without an error.

*Permissions.* Any dispatcher may hand over any job; the transaction decides which one does. A worker of the queue may
only claim the job that its message names. When that job cannot be claimed now (no capacity, not its turn, a breaker,
the system switch), it is put back and handed over again, under the next number, when there is capacity. That is rare:
a job that is handed over counts as running, so a capacity of one has one message in the queue and not a thousand.

*When either side dies.* A dispatcher that dies between mark and message leaves a job without a message; a queue that
loses its data leaves many. Both are found when `ready_at` is reached: the dispatcher asks the queue. A message that
still waits is left alone. The job of a lost message becomes ready again, and no attempt is counted, because none was
made. A message whose worker in the queue failed before the job began is a rescue; the fourth time, the job is
lost. Where the queue cannot be asked, time decides; the worst consequence is a second message.

*When the job needs no message any more* (it is cancelled, or a worker of everwhen claimed it after the dispatch
setting was changed), its message is withdrawn; until then it finds nothing to claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everwhen.decide.claim import claim
from everwhen.decide.hand_over import OnTheirWay, hand_over
from everwhen.model.claim import ClaimedJob, ScheduleCounters
from everwhen.model.instants import SECOND
from everwhen.model.job import MESSAGE_NODE, Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.model.policy import MOST_RESCUES
from everwhen.model.queue import Delivery
from everwhen.model.share import NONE_IN_USE
from everwhen.store.claim import load_ready, put_off_refused, write_claims
from everwhen.store.commit import write_shared
from everwhen.store.dialect import Statement
from everwhen.store.job_rows import row_ids
from everwhen.store.lanes import Lane
from everwhen.store.load import add_shared, claimable, hold, plans_to_claim, system_paused_at
from everwhen.store.ready import ShareWindow, look_for_ready
from everwhen.store.records import ReadyQuery
from everwhen.store.rescue import event_about
from everwhen.store.settle import end_jobs
from everwhen.store.transaction import Store, StorePart, Transaction

QUEUE_NODE = "queue"  # the value of `node` for a job that was lost on its way

# idx_jobs_handed_key
_SENT_KEYS = Statement("""
SELECT capacity_key, count(*) FROM jobs WHERE handed_over_at IS NOT NULL AND capacity_key IS NOT NULL
    AND capacity_key = ANY(:keys::texts) AND status = 'queued' GROUP BY capacity_key""")
# idx_jobs_outstanding
_SENT_LINES = Statement("""
SELECT DISTINCT uid FROM jobs WHERE uid = ANY(:uids::texts) AND status IN ('queued', 'running')
    AND status = 'queued' AND line = 'own' AND handed_over_at IS NOT NULL""")
# The unique key on job_id.
_NUMBERS = Statement("""
SELECT job_id, deliveries FROM jobs WHERE handed_over_at IS NOT NULL AND job_id = ANY(:job_ids::texts)""")
_DELIVERY = "SELECT job_id, deliveries, queue, handed_over_at FROM jobs WHERE"
_DELIVERY_OF = Statement(f"""
{_DELIVERY} job_id = :job_id::text AND handed_over_at IS NOT NULL AND status = 'queued'""")
# idx_jobs_handed_over: jobs that were not claimed in time, and jobs that are no longer ready, so need no message.
OVERDUE = Statement(f"""
{_DELIVERY} handed_over_at IS NOT NULL AND ready_at <= :now::instant AND status = 'queued'
ORDER BY ready_at LIMIT :limit""")
NEEDLESS = Statement(f"""
{_DELIVERY} handed_over_at IS NOT NULL AND ready_at IS NULL AND status <> 'running' LIMIT :limit""")
# The primary key of jobs.
_SEND = Statement("""
UPDATE jobs AS j SET handed_over_at = :now::instant, deliveries = deliveries + 1, ready_at = :until::instant
FROM batch AS v(row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'queued' AND j.handed_over_at IS NULL
RETURNING job_id, deliveries""")
_CLOSE = Statement("""
UPDATE jobs SET handed_over_at = NULL WHERE row_id = ANY(:row_ids::integers) AND handed_over_at IS NOT NULL""")
_CALL_BACK = Statement("""
UPDATE jobs SET handed_over_at = NULL, ready_at = :now::instant
WHERE row_id = ANY(:row_ids::integers) AND status = 'queued'""")
# The unique key on job_id.
_LEAVE = Statement("""
UPDATE jobs AS j SET ready_at = v.ready_at FROM batch AS v(ready_at, job_id, deliveries)
WHERE j.job_id = v.job_id AND j.deliveries = v.deliveries AND j.handed_over_at IS NOT NULL AND j.status = 'queued'""")
_WITHDRAW = Statement("""
UPDATE jobs AS j SET handed_over_at = NULL FROM batch AS v(job_id, deliveries)
WHERE j.job_id = v.job_id AND j.deliveries = v.deliveries AND j.ready_at IS NULL""")
_COUNT_RESCUES = Statement("UPDATE jobs SET rescues = rescues + 1 WHERE row_id = ANY(:row_ids::integers)")


def send_jobs(tx: Transaction, now: int, *, limit: int, until: int, window: ShareWindow) -> list[Delivery]:
    """Mark up to `limit` ready jobs as handed over, by turns of their owners."""
    if system_paused_at(tx) is not None:
        return []
    look = look_for_ready(tx, ReadyQuery(now, limit + 10, is_delivery=True), NONE_IN_USE, window)
    shared = hold(tx, look.peeked)
    jobs, counters, known = load_ready(tx, look, shared)
    if not jobs:
        return []
    under_way = _handed_over(tx, jobs)
    chosen = hand_over(
        claimable(shared, jobs, known), known, counters, shared, under_way, limit=limit, now=now
    )
    if chosen.postponed:
        tx.postpone_jobs(chosen.postponed)
    if chosen.refused:
        put_off_refused(tx, chosen.refused, shared, now)
        write_shared(tx, shared, now)
    numbers = _mark_sent(tx, chosen.given, now, until) if chosen.given else {}
    if chosen.messages:
        _claim(tx, chosen.messages, counters, shared, node=MESSAGE_NODE, now=now)
    return [
        Delivery(
            job.job_id, numbers[job.job_id], job.queue, now, None if timeout is None else timeout / SECOND
        )
        for job in chosen.given
        for timeout in (known[job.uid, job.revision].definition.timeout,)
    ]


def take_delivered(tx: Transaction, now: int, *, node: str, job_id: str, number: int) -> ClaimedJob | None:
    """Claim the job of a message; None when the message is out of date, or the job must wait."""
    peeked = tx.peek_jobs([job_id])
    shared = hold(tx, peeked)
    counters = tx.counters({seen.uid for seen in peeked}) if peeked else {}
    found = _on_their_way(tx, {job_id: number})
    if not found:
        return None
    (job,) = found
    counters |= tx.counters({job.uid} - counters.keys())
    add_shared(tx, shared, (), [job])
    tx.expect(1, tx.run(_CLOSE, row_ids=[job.row_id]))  # from here on no message is valid
    known = plans_to_claim(tx, shared, [job])
    is_paused = system_paused_at(tx) is not None
    claims = claim([] if is_paused else [job], known, counters, shared, node=node, limit=1, now=now)
    if not claims.taken and not claims.postponed and not claims.refused:
        _call_back(tx, [job], now)
    taken = write_claims(tx, claims, shared, now)
    return taken[0] if taken else None


def _mark_sent(tx: Transaction, jobs: Sequence[Job], now: int, until: int) -> dict[str, int]:
    """Mark jobs as handed over, to be checked at `until`; return the number of the message about each."""
    tx.note_ready((until,), is_new=False)
    batch = [(job.row_id, job.fence) for job in jobs]
    numbers = dict(tx.rows(_SEND, now=now, until=until, batch=batch))
    tx.expect(len(jobs), len(numbers))
    return numbers


def _handed_over(tx: Transaction, jobs: Sequence[Job]) -> OnTheirWay:
    """Return how many jobs of the same capacities and lines are handed over."""
    keys = {job.capacity_key for job in jobs if job.capacity_key is not None}
    lines = {job.uid for job in jobs if job.line == "own"}
    sent = dict(tx.rows(_SENT_KEYS, keys=keys)) if keys else {}
    return OnTheirWay(sent, set(tx.column(_SENT_LINES, uids=lines)))


def _call_back(tx: Transaction, jobs: Sequence[Job], now: int) -> None:
    """Mark jobs as not handed over, and ready."""
    tx.expect(len(jobs), tx.run(_CALL_BACK, now=now, row_ids=row_ids(jobs)))
    tx.note_ready((now,))


def delivery_of(row: Sequence[Any]) -> Delivery:
    return Delivery(*row)


def withdraw(tx: Transaction, deliveries: Sequence[Delivery]) -> None:
    tx.run(_WITHDRAW, batch=[(d.job_id, d.number) for d in deliveries])


def put_back(tx: Transaction, now: int, deliveries: Sequence[Delivery]) -> int:
    """Make the jobs of lost messages ready again; return how many."""
    jobs = _locked(tx, deliveries)
    if jobs:
        _call_back(tx, jobs, now)
    return len(jobs)


def count_failed(tx: Transaction, now: int, failed: Sequence[tuple[Delivery, str]]) -> int:
    """Count failures of the queue's workers before the jobs began: a rescue, at last lost; return how many."""
    errors = {delivery.job_id: error for delivery, error in failed}
    jobs = _locked(tx, [delivery for delivery, _ in failed])
    if not jobs:
        return 0
    again = [job for job in jobs if job.rescues < MOST_RESCUES]
    _call_back(tx, jobs, now)
    began = {"began": False}
    tx.insert_events(
        [event_about(job, "job.lost", now, {**began, "error": errors[job.job_id]}) for job in jobs]
    )
    if again:
        tx.run(_COUNT_RESCUES, row_ids=row_ids(again))
        tx.insert_events([event_about(job, "job.rescued", now, began) for job in again])
    _end(tx, [job for job in jobs if job.rescues >= MOST_RESCUES], errors, now)
    return len(jobs)


def _end(tx: Transaction, over: Sequence[Job], errors: dict[str, str], now: int) -> None:
    """End jobs as lost. A job ends from running, so the start that its worker did not record is written first."""
    if not over:
        return
    shared = Shared()
    add_shared(tx, shared, (), over)
    counters = tx.counters({job.uid for job in over})
    begun = _claim(tx, over, counters, shared, node=QUEUE_NODE, now=now)
    ended = [(one.job, Outcome("lost", error=errors[one.job.job_id])) for one in begun]
    if ended:
        end_jobs(tx, ended, Shared(), now)


def _locked(tx: Transaction, deliveries: Sequence[Delivery]) -> list[Job]:
    """Return the jobs of messages that are still valid, with everything locked that changing them needs."""
    peeked = tx.peek_jobs([delivery.job_id for delivery in deliveries])
    hold(tx, peeked)
    tx.lock_schedules({seen.uid for seen in peeked})
    return _on_their_way(tx, {delivery.job_id: delivery.number for delivery in deliveries})


def _on_their_way(tx: Transaction, numbers: dict[str, int]) -> list[Job]:
    """Return the queued jobs whose current message has this number."""
    last = dict(tx.rows(_NUMBERS, job_ids=list(numbers)))
    jobs = tx.jobs([job_id for job_id, number in numbers.items() if last.get(job_id) == number])
    return [job for job in jobs.values() if job.status == "queued"]


def _claim(
    tx: Transaction,
    jobs: Sequence[Job],
    counters: dict[str, ScheduleCounters],
    shared: Shared,
    *,
    node: str,
    now: int,
) -> list[ClaimedJob]:
    known = tx.load_plans([(job.uid, job.revision) for job in jobs])
    claims = claim(jobs, known, counters, shared, node=node, limit=len(jobs), now=now)
    return write_claims(tx, claims, shared, now)


# Jobs that are dispatched to a queue: which to send, which are sent, and what happens to lost ones.


class Outbox(StorePart):
    """The database side of a hand-over, each method in one transaction; `flows.outbox` describes the protocol."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._window = ShareWindow()

    def hand_over(self, now: int, *, limit: int, until: int) -> list[Delivery]:
        """Mark up to `limit` ready jobs as sent, to be checked at `until`; return the messages to send."""
        next_at = self.next_at(now)
        if next_at is None or next_at > now:  # a read costs a hundredth of a write
            return []
        return self._store.write(
            Lane.CLAIM, lambda tx: send_jobs(tx, now, limit=limit, until=until, window=self._window)
        )

    def next_at(self, now: int) -> int | None:
        """Return the earliest instant at which a job is to be handed over or checked."""
        with self._store.look() as tx:
            return tx.next_delivery_at(now)

    def take(self, now: int, *, node: str, job_id: str, number: int) -> ClaimedJob | None:
        """Claim the job of a message; None when the message is out of date or the job must wait."""
        return self._store.write(
            Lane.CLAIM, lambda tx: take_delivered(tx, now, node=node, job_id=job_id, number=number)
        )

    def overdue(self, now: int, *, limit: int) -> list[Delivery]:
        """Return jobs that should have been claimed by now, the longest overdue first."""
        return self._many(delivery_of, OVERDUE, now=now, limit=limit)

    def leave(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        """Record that these messages still wait in the queue: check each again at that instant."""

        def leave(tx: Transaction) -> None:
            tx.note_ready((until for _, until in deliveries), is_new=False)
            tx.run(_LEAVE, batch=[(until, d.job_id, d.number) for d, until in deliveries])

        if deliveries:
            self._store.write(Lane.CLAIM, leave)

    def put_back(self, now: int, deliveries: Sequence[Delivery]) -> int:
        """Make the jobs of lost messages ready again; return how many."""
        if not deliveries:
            return 0
        return self._store.write(Lane.CLAIM, lambda tx: put_back(tx, now, deliveries))

    def count_failed(self, now: int, failed: Sequence[tuple[Delivery, str]]) -> int:
        """Count failures of the queue's worker before a job began: rescues, then (the fourth) lost; return how many."""
        if not failed:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: count_failed(tx, now, failed))

    def to_withdraw(self, *, limit: int) -> list[Delivery]:
        """Return messages that are no longer needed: their jobs are cancelled, or another worker ran them."""
        return self._many(delivery_of, NEEDLESS, limit=limit)

    def withdrawn(self, deliveries: Sequence[Delivery]) -> None:
        """Record that these messages are removed from the queue."""
        if deliveries:
            self._store.write(Lane.CLAIM, lambda tx: withdraw(tx, deliveries))

    def on_its_way(self, job_id: str) -> Delivery | None:
        """Return the message that a queued job waits for."""
        return self._one(delivery_of, _DELIVERY_OF, job_id=job_id)
