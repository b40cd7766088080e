"""Jobs that are handed over to a queue: reads, and writes. A comment names the index that serves each statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everwhen.model.job import Job
from everwhen.model.queue import Delivery
from everwhen.store.dialect import Queries, Statement
from everwhen.store.job_rows import CAN_START, JOB, row_ids
from everwhen.store.postgres.watermark import EARLIEST
from everwhen.store.records import LockHint
from everwhen.store.schedule_rows import IS_PAUSED

if TYPE_CHECKING:
    from everwhen.decide.hand_over import OnTheirWay

# idx_jobs_ready; idx_jobs_handed_key and idx_jobs_outstanding: jobs that are handed over count as running.
_IS_SENT = "sent.handed_over_at IS NOT NULL AND sent.status = 'queued'"
CAN_GO = f"""
    handed_over_at IS NULL AND strpos(queue, '@') = 0 AND {CAN_START}
    AND (capacity_limit IS NULL OR capacity_limit >
        coalesce((SELECT running FROM limits WHERE key = jobs.capacity_key), 0)
        + (SELECT count(*) FROM jobs sent WHERE sent.capacity_key IS NOT NULL AND sent.capacity_key = jobs.capacity_key
            AND {_IS_SENT}))
    AND (line IS NULL OR line <> 'own' OR NOT EXISTS (
        SELECT 1 FROM jobs sent WHERE sent.uid = jobs.uid AND sent.status IN ('queued', 'running') AND sent.line = 'own'
            AND {_IS_SENT}))"""
_DELIVERABLE = Statement(f"""
SELECT {JOB} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= :now::instant AND {CAN_GO}
ORDER BY ready_at, row_id LIMIT :limit""")
# idx_jobs_ready, from the mark on; idx_jobs_handed_over.
NEXT_DELIVERY = Statement(f"""
SELECT min(next_at) FROM (
    SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND ready_at >= :mark::instant AND NOT {IS_PAUSED}
        AND {CAN_GO} ORDER BY ready_at LIMIT 1) AS next_at
    UNION ALL SELECT min(ready_at) FROM jobs WHERE handed_over_at IS NOT NULL) AS ends""")
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
_OVERDUE = Statement(f"""
{_DELIVERY} handed_over_at IS NOT NULL AND ready_at <= :now::instant AND status = 'queued'
ORDER BY ready_at LIMIT :limit""")
_NEEDLESS = Statement(f"""
{_DELIVERY} handed_over_at IS NOT NULL AND ready_at IS NULL AND status <> 'running' LIMIT :limit""")


class DeliveryReads(Queries):
    """Reads of what is handed over, or may be."""

    def peek_deliverable(self, now: int, *, limit: int) -> Sequence[LockHint]:
        return ()

    def deliverable_jobs(self, now: int, *, limit: int) -> list[Job]:
        """Return jobs that are ready and not handed over."""
        return [Job._make(row) for row in self.rows(_DELIVERABLE, now=now, limit=limit)]

    def on_their_way(self, jobs: Sequence[Job]) -> OnTheirWay:
        """Return how many jobs of the same capacities and lines are handed over."""
        from everwhen.decide.hand_over import OnTheirWay

        keys = {job.capacity_key for job in jobs if job.capacity_key is not None}
        lines = {job.uid for job in jobs if job.line == "own"}
        sent = dict(self.rows(_SENT_KEYS, keys=keys)) if keys else {}
        return OnTheirWay(sent, {uid for (uid,) in self.rows(_SENT_LINES, uids=lines)})

    def deliveries(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of the message about each job that is handed over."""
        return dict(self.rows(_NUMBERS, job_ids=job_ids))

    def overdue_deliveries(self, now: int, *, limit: int) -> list[Delivery]:
        return [Delivery(*row) for row in self.rows(_OVERDUE, now=now, limit=limit)]

    def needless_deliveries(self, *, limit: int) -> list[Delivery]:
        return [Delivery(*row) for row in self.rows(_NEEDLESS, limit=limit)]

    def delivery_of(self, job_id: str) -> Delivery | None:
        row = self.row(_DELIVERY_OF, job_id=job_id)
        return None if row is None else Delivery(*row)

    def next_delivery_at(self, now: int) -> int | None:
        """Return the earliest instant at which a job may be handed over, or has to be checked."""
        return self.number(NEXT_DELIVERY, mark=EARLIEST)


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


class DeliveryWrites(DeliveryReads):
    """Writes of what is handed over."""

    def send_jobs(self, jobs: Sequence[Job], now: int, until: int) -> dict[str, int]:
        """Mark jobs as handed over, to be checked at `until`; return the number of the message about each."""
        batch = [(job.row_id, job.fence) for job in jobs]
        numbers = dict(self.rows(_SEND, now=now, until=until, batch=batch))
        self.expect(len(jobs), len(numbers))
        return numbers

    def close_deliveries(self, jobs: Sequence[Job]) -> None:
        """Mark jobs as not handed over."""
        self.expect(len(jobs), self.run(_CLOSE, row_ids=row_ids(jobs)))

    def call_back(self, jobs: Sequence[Job], now: int) -> None:
        """Mark jobs as not handed over, and ready."""
        self.expect(len(jobs), self.run(_CALL_BACK, now=now, row_ids=row_ids(jobs)))

    def leave_deliveries(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        self.run(_LEAVE, batch=[(until, d.job_id, d.number) for d, until in deliveries])

    def withdraw_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self.run(_WITHDRAW, batch=[(d.job_id, d.number) for d in deliveries])
