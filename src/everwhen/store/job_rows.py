"""Jobs: what several flows read and write. A comment names the index that serves each statement.

A change of a job names the fence and the status that it was read with. Where transactions run concurrently, one that
finds another fence was overtaken and decides again (`expect`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome, OutputGap, OutputPiece
from everwhen.model.reasons import CancelReason
from everwhen.model.row_changes import JOB_INSERTED
from everwhen.store.dialect import EARLIEST, DuplicateError, Insert, Queries, Statement
from everwhen.store.records import JOB_ENDED, Finished, JobLine, LockHint, ReadyQuery, Row
from everwhen.store.schedule_rows import IS_PAUSED

JOB = ", ".join(Job._fields)

# -- jobs that can start --

# idx_jobs_ready; the primary key of limits and the unique key on uid, one step into each. Jobs that cannot start now
# are excluded here, so that a thousand jobs that wait for capacity do not hide the one behind them.
CAN_START = """
    (capacity_limit IS NULL OR capacity_limit > coalesce((SELECT running FROM limits WHERE key = capacity_key), 0))
    AND (line IS NULL OR line <> 'own'
        OR coalesce((SELECT running_jobs FROM schedules WHERE schedules.uid = jobs.uid), 0) = 0)"""
# The queues of one program contain an @; only workers that name such a queue take its jobs (model/values.py).
IS_OURS = "(:queues::texts IS NULL AND strpos(queue, '@') = 0 OR queue = ANY(:queues::texts))"
# Jobs that can be handed over to a queue. idx_jobs_handed_key and idx_jobs_outstanding: jobs that are handed over count
# as running.
_IS_SENT = "sent.handed_over_at IS NOT NULL AND sent.status = 'queued'"
_CAN_GO = f"""
    handed_over_at IS NULL AND strpos(queue, '@') = 0 AND {CAN_START}
    AND (capacity_limit IS NULL OR capacity_limit >
        coalesce((SELECT running FROM limits WHERE key = jobs.capacity_key), 0)
        + (SELECT count(*) FROM jobs sent WHERE sent.capacity_key IS NOT NULL AND sent.capacity_key = jobs.capacity_key
            AND {_IS_SENT}))
    AND (line IS NULL OR line <> 'own' OR NOT EXISTS (
        SELECT 1 FROM jobs sent WHERE sent.uid = jobs.uid AND sent.status IN ('queued', 'running') AND sent.line = 'own'
            AND {_IS_SENT}))"""
# By `ReadyQuery.is_delivery`: which jobs a worker may claim, and which a dispatcher may hand over.
CAN_BE_TAKEN = {False: f"{IS_OURS} AND {CAN_START}", True: _CAN_GO}
READY = {
    is_delivery: Statement(f"""
SELECT {JOB} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= :now::instant AND {can_be_taken}
ORDER BY ready_at, row_id LIMIT :limit""")
    for is_delivery, can_be_taken in CAN_BE_TAKEN.items()
}
# idx_jobs_ready, from the mark on.
NEXT_READY = Statement(f"""
SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND ready_at >= :mark::instant AND NOT {IS_PAUSED}
    AND {CAN_BE_TAKEN[False]} ORDER BY ready_at LIMIT 1)""")
# idx_jobs_ready, from the mark on; idx_jobs_handed_over.
NEXT_DELIVERY = Statement(f"""
SELECT min(next_at) FROM (
    SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND ready_at >= :mark::instant AND NOT {IS_PAUSED}
        AND {_CAN_GO} ORDER BY ready_at LIMIT 1) AS next_at
    UNION ALL SELECT min(ready_at) FROM jobs WHERE handed_over_at IS NOT NULL) AS ends""")

# -- jobs of one share that can start: idx_jobs_share --

# A comparison of rows: by an equal share PostgreSQL might search idx_jobs_ready, past all jobs of others.
IN_SHARE = """
ready_at IS NOT NULL AND (share, ready_at) >= ({share}, :mark::instant)
    AND (share, ready_at) <= ({share}, :until::instant) AND {can_be_taken} ORDER BY share, ready_at, row_id"""
_READY_IN_SHARE = {
    is_delivery: Statement(
        f"SELECT {JOB} FROM jobs INDEXED BY idx_jobs_share WHERE "
        + IN_SHARE.format(share=":share::text", can_be_taken=can_be_taken)
        + " LIMIT :limit"
    )
    for is_delivery, can_be_taken in CAN_BE_TAKEN.items()
}
# One step to each share, however many jobs it has, and one into it: when its first job that can be taken is ready.
_NEXT_SHARE = """
SELECT jobs.share FROM jobs INDEXED BY idx_jobs_share WHERE ready_at IS NOT NULL AND jobs.share {beyond}
    ORDER BY share, ready_at, row_id LIMIT 1"""
SHARES = {
    is_delivery: Statement(f"""
WITH RECURSIVE found(share, number) AS (
    SELECT ({_NEXT_SHARE.format(beyond=">= :start::text")}), 1
    UNION ALL SELECT ({_NEXT_SHARE.format(beyond="> found.share")}), number + 1
    FROM found WHERE found.share IS NOT NULL AND number < :limit)
SELECT found.share, (
    SELECT ready_at FROM jobs INDEXED BY idx_jobs_share
    WHERE {IN_SHARE.format(share="found.share", can_be_taken=can_be_taken)} LIMIT 1)
FROM found WHERE found.share IS NOT NULL AND NOT {IS_PAUSED}""")
    for is_delivery, can_be_taken in CAN_BE_TAKEN.items()
}

# -- jobs that are named, and those of a schedule --

# The unique key on job_id.
_JOBS = Statement(f"SELECT {JOB} FROM jobs WHERE job_id = ANY(:job_ids::texts) ORDER BY row_id")
# idx_jobs_outstanding
_OUTSTANDING = Statement(f"""
SELECT {JOB} FROM jobs WHERE uid = ANY(:uids::texts) AND status IN ('queued', 'running')
ORDER BY uid, slot_at, row_id""")


class JobReads(Queries):
    """Reads of jobs. They lock nothing: a transaction that changes a job has locked the row of its schedule."""

    def peek_ready(self, query: ReadyQuery) -> Sequence[LockHint]:
        return ()

    def peek_jobs(self, job_ids: Sequence[str]) -> Sequence[LockHint]:
        return ()

    def ready_jobs(self, query: ReadyQuery) -> list[Job]:
        """Return jobs that can be taken now, in the order in which they became ready."""
        values: dict[str, Any] = {"limit": query.limit} | (
            {} if query.is_delivery else {"queues": query.queues}
        )
        if query.shares is None:
            return self.many(Job._make, READY[query.is_delivery], now=query.now, **values)
        values |= {"mark": EARLIEST, "until": query.now}
        statement = _READY_IN_SHARE[query.is_delivery]
        jobs = [job for one in query.shares for job in self.many(Job._make, statement, share=one, **values)]
        return sorted(jobs, key=lambda job: (job.ready_at, job.row_id))

    def ready_shares(
        self, query: ReadyQuery, start: str, mark: int = EARLIEST
    ) -> list[tuple[str, int | None]]:
        """Return shares from `start` on that have a queued job, each with when the first can be taken, if any can."""
        values: dict[str, Any] = {} if query.is_delivery else {"queues": query.queues}
        values |= {"start": start, "limit": query.limit, "mark": mark, "until": query.now}
        return self.many(tuple, SHARES[query.is_delivery], **values)

    def next_ready_at(self, queues: Sequence[str] | None, now: int | None = None) -> int | None:
        """Return when the earliest job of these queues may start; None while the system is paused."""
        return self.number(NEXT_READY, queues=queues, mark=EARLIEST)

    def next_delivery_at(self, now: int) -> int | None:
        """Return the earliest instant at which a job may be handed over, or has to be checked."""
        return self.number(NEXT_DELIVERY, mark=EARLIEST)

    def jobs(self, job_ids: Sequence[str]) -> dict[str, Job]:
        return {job.job_id: job for job in self.many(Job._make, _JOBS, job_ids=job_ids)}

    def outstanding(self, uids: Collection[str]) -> dict[str, list[Job]]:
        jobs = self.many(Job._make, _OUTSTANDING, uids=uids)
        return {uid: list(group) for uid, group in groupby(jobs, key=lambda job: job.uid)}


# -- writes --

_EMPTY = """
not_before is_ready is_counted is_probe payload guard_key capacity_key capacity_limit breaker_key line cost_reserved
ready_at"""
INSERT_JOB = Insert("jobs", JOB_INSERTED, sparse=tuple(_EMPTY.split()))
INSERT_ENDED_JOB = Insert("jobs", JOB_ENDED, sparse=(*_EMPTY.split(), "deadline_at"))

# The primary key of jobs, for all that follow.
_START = Statement("""
UPDATE jobs AS j SET status = 'running', ready_at = NULL, attempt = attempt + 1, started_at = :started_at::instant,
    node = :node::text, deadline_at = v.deadline_at, fence = j.fence + 1, is_counted = true, is_probe = v.is_probe
FROM batch AS v(deadline_at, is_probe, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'queued'""")
_END = Statement("""
UPDATE jobs AS j SET status = v.status, ended_at = :now::instant, released_at = :now::instant, error = v.error,
    error_type = v.error_type, result = v.result, is_result_json = v.is_result_json, started_at = v.started_at
FROM batch AS v(status, error, error_type, result, is_result_json, started_at, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")
_POSTPONE = Statement("""
UPDATE jobs AS j SET ready_at = v.ready_at FROM batch AS v(ready_at, row_id) WHERE j.row_id = v.row_id""")
# A running job that is cancelled keeps its node until the worker releases it.
_CANCEL = Statement("""
UPDATE jobs AS j SET status = 'cancelled', ended_at = :now::instant, ready_at = NULL, reason = v.reason,
    cancel_requested = (status = 'running'),
    released_at = CASE status WHEN 'running' THEN NULL ELSE :now::instant END
FROM batch AS v(reason, row_id) WHERE j.row_id = v.row_id AND j.status IN ('queued', 'running')""")
# The primary key of job_output.
_PUT_OUTPUT = Statement("""
INSERT INTO job_output (job_id, attempt, stream, position, at, data)
VALUES (:job_id::text, :attempt, :stream::text, :position, :now::instant, :data)
ON CONFLICT (job_id, attempt, stream, position) DO UPDATE SET data = excluded.data""")
_DROP_OUTPUT = Statement("""
DELETE FROM job_output WHERE job_id = :job_id::text AND attempt = :attempt AND stream = :stream::text
    AND position >= :start AND position + length(data) <= :end""")


class JobWrites(JobReads):
    """Writes of jobs."""

    def note_ready(self, instants: Iterable[int | None], *, is_new: bool = True) -> None:
        """Note that jobs of this transaction are ready at these instants; `is_new`: workers have to know."""

    def insert_jobs(self, rows: Sequence[Row], *, are_ended: bool = False) -> None:
        """Insert jobs. `are_ended`: no worker has to run them, and their rows are in the order of JOB_ENDED."""
        try:
            self.insert_unique(INSERT_ENDED_JOB if are_ended else INSERT_JOB, rows)
        except DuplicateError as error:
            # Two schedulers cannot cause this: a row was changed manually, or the job does not come from `decide`.
            raise StoreError(
                "a slot, or an id, of this batch has its job already, so nothing of the batch was written; "
                "look for a schedule whose next_slot_at lies before its last_slot_at"
            ) from error
        if not are_ended:
            self.note_ready(row[-1] for row in rows)  # type: ignore[misc]

    def start_jobs(self, claimed: Sequence[ClaimedJob]) -> None:
        """Start jobs that were claimed together."""
        jobs = [one.job for one in claimed]
        batch = [(job.deadline_at, job.is_probe, job.row_id, job.fence - 1) for job in jobs]
        changed = self.run(_START, started_at=jobs[0].started_at, node=jobs[0].node, batch=batch)
        self.expect(len(batch), changed)

    def postpone_jobs(self, postponed: Sequence[tuple[Job, int]]) -> None:
        self.note_ready((until for _, until in postponed), is_new=False)
        self.run(_POSTPONE, batch=[(until, job.row_id) for job, until in postponed])

    def end_jobs(self, ended: Sequence[tuple[Job | Finished, Outcome]], now: int) -> None:
        batch = [
            (
                o.status,
                o.error,
                o.error_type,
                o.result,
                o.is_json or None,
                job.started_at,
                job.row_id,
                job.fence,
            )
            for job, o in ended
        ]
        self.expect(len(batch), self.run(_END, now=now, batch=batch))

    def cancel_jobs(self, cancelled: Sequence[tuple[Job, CancelReason]], now: int) -> None:
        batch = [(reason, job.row_id) for job, reason in cancelled]
        self.expect(len(batch), self.run(_CANCEL, now=now, batch=batch))

    @abstractmethod
    def ready_successors(self, queues: Collection[JobLine], now: int) -> None: ...

    def put_output(self, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap], now: int) -> None:
        for piece in pieces:
            self.run(_PUT_OUTPUT, **piece.stream._asdict(), position=piece.position, now=now, data=piece.data)
        for gap in gaps:
            self.run(_DROP_OUTPUT, **gap.stream._asdict(), start=gap.start, end=gap.end)


def row_ids(jobs: Sequence[Job]) -> list[int]:
    return [job.row_id for job in jobs]
