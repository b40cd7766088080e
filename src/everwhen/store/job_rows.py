"""Jobs: reads, and writes. A comment names the index that serves each statement.

A change of a job names the fence and the status that it was read with. Where transactions run concurrently, one that
finds another fence was overtaken and decides again (`expect`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from itertools import groupby

from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.job import EXTERNAL, Job
from everwhen.model.outcome import Outcome, OutputGap, OutputPiece
from everwhen.model.reasons import CancelReason
from everwhen.model.row_changes import JOB_INSERTED
from everwhen.store.dialect import DuplicateError, Insert, Queries, Statement
from everwhen.store.postgres.watermark import EARLIEST
from everwhen.store.records import JOB_ENDED, Finished, LockHint, Queue, Row
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
_READY = Statement(f"""
SELECT {JOB} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= :now::instant AND {IS_OURS} AND {CAN_START}
ORDER BY ready_at, row_id LIMIT :limit""")
# idx_jobs_outstanding
_READY_OF = Statement(f"""
SELECT {JOB} FROM jobs WHERE uid = ANY(:uids::texts) AND status IN ('queued', 'running')
    AND ready_at <= :now::instant AND line = 'own' AND {IS_OURS} ORDER BY uid, slot_at, row_id""")
# idx_jobs_ready, from the mark on.
NEXT_READY = Statement(f"""
SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND ready_at >= :mark::instant AND NOT {IS_PAUSED}
    AND {IS_OURS} AND {CAN_START} ORDER BY ready_at LIMIT 1)""")

# -- jobs that are named, and those of a schedule --

# The unique key on job_id.
_JOBS = Statement(f"SELECT {JOB} FROM jobs WHERE job_id = ANY(:job_ids::texts) ORDER BY row_id")
_OUTCOME_TOKEN = Statement("SELECT outcome_token FROM jobs WHERE job_id = :job_id::text")
# The same, and the primary key of schedules.
_FINISHED = Statement("""
SELECT j.row_id, j.job_id, j.uid, j.origin, j.status, j.is_counted, j.guard_key, j.capacity_key, j.breaker_key, j.node,
    j.fence, j.released_at, s.row_id, s.revision, s.outstanding
FROM jobs j LEFT JOIN schedules s ON s.row_id = j.schedule_row AND s.uid = j.uid
WHERE j.job_id = ANY(:job_ids::texts)""")
# idx_jobs_slot and idx_jobs_backfill
_FILLED_SLOTS = Statement("""
SELECT slot_at FROM jobs WHERE uid = :uid::text AND slot_at = ANY(:slots::instants)
    AND origin IN ('schedule', 'catch_up')
UNION ALL
SELECT slot_at FROM jobs WHERE uid = :uid::text AND slot_at = ANY(:slots::instants) AND origin = 'backfill'""")
# idx_jobs_outstanding
_OUTSTANDING = Statement(f"""
SELECT {JOB} FROM jobs WHERE uid = ANY(:uids::texts) AND status IN ('queued', 'running')
ORDER BY uid, slot_at, row_id""")
# idx_jobs_outstanding, whole: few of all jobs are outstanding.
_QUEUED_CATCH_UP = Statement(f"""
SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') AND status = 'queued' AND origin = 'catch_up'
    AND breaker_key = ANY(:keys::texts) ORDER BY uid, slot_at, row_id""")
# idx_audit_schedule.
_REQUESTER = Statement("""
SELECT actor FROM audit_events WHERE uid = :uid::text AND slot_at = :slot_at::instant AND job_id = :job_id::text
    AND type IN ('job.triggered', 'job.rerun')""")

# -- jobs of nodes --

# idx_jobs_unreleased
_OF_NODE = Statement(f"""
SELECT {JOB} FROM jobs WHERE node = :node::text AND released_at IS NULL ORDER BY row_id""")
_OF_DEAD_NODES = Statement(f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND node IN (
    SELECT node FROM nodes WHERE node <> :node::text
        AND (stopped_at IS NOT NULL OR heartbeat_at NOT BETWEEN :oldest::instant AND :newest::instant))
ORDER BY row_id""")
_EXTERNAL_OVER = Statement(f"""
SELECT {JOB} FROM jobs WHERE node = '{EXTERNAL}' AND released_at IS NULL
    AND (status = 'cancelled' OR deadline_at <= :now::instant)""")
_CANCEL_REQUESTS = Statement("""
SELECT job_id FROM jobs WHERE node = :node::text AND released_at IS NULL AND status = 'cancelled'""")
# idx_jobs_outstanding, whole; idx_jobs_unreleased, whole. Used when a backup is restored.
_ALL_OUTSTANDING = Statement(f"SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') ORDER BY row_id")
_UNRELEASED = Statement(f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL ORDER BY row_id""")
# nodes, whole; the primary keys of jobs and audit_events, one step from their ends.
_LAST_INSTANT = Statement("""
SELECT max(at) FROM (SELECT max(heartbeat_at) AS at FROM nodes
    UNION ALL SELECT created_at FROM jobs WHERE row_id = (SELECT max(row_id) FROM jobs)
    UNION ALL SELECT at FROM audit_events WHERE id = (SELECT max(id) FROM audit_events)) AS ends""")


class JobReads(Queries):
    """Reads of jobs. They lock nothing: a transaction that changes a job has locked the row of its schedule."""

    def peek_ready(self, now: int, *, limit: int, queues: Sequence[str] | None) -> Sequence[LockHint]:
        return ()

    def peek_jobs(self, job_ids: Sequence[str]) -> Sequence[LockHint]:
        return ()

    def _jobs(self, rows: Sequence[Row]) -> list[Job]:
        return [Job._make(row) for row in rows]

    def ready_jobs(self, now: int, *, limit: int, queues: Sequence[str] | None) -> list[Job]:
        return self._jobs(self.rows(_READY, now=now, limit=limit, queues=queues))

    def jobs_until(self, until: int, *, limit: int) -> list[Job]:
        """Return jobs that are ready by then, have capacity to start, and are not in a queue of one program."""
        return self._jobs(self.rows(_READY, now=until, limit=limit, queues=None))

    def ready_of(self, uids: Collection[str], now: int, *, queues: Sequence[str] | None) -> list[Job]:
        return self._jobs(self.rows(_READY_OF, uids=uids, now=now, queues=queues))

    def next_ready_at(self, queues: Sequence[str] | None, now: int | None = None) -> int | None:
        """Return when the earliest job of these queues may start; None while the system is paused."""
        return self.number(NEXT_READY, queues=queues, mark=EARLIEST)

    def jobs(self, job_ids: Sequence[str]) -> dict[str, Job]:
        return {job.job_id: job for job in map(Job._make, self.rows(_JOBS, job_ids=job_ids))}

    def finished(self, job_ids: Sequence[str]) -> list[Finished]:
        return [Finished._make(row) for row in self.rows(_FINISHED, job_ids=job_ids)]

    def filled_slots(self, uid: str, slots: Sequence[int]) -> set[int]:
        """Return the slots that have a job, of the clock or of a backfill."""
        return {row[0] for row in self.rows(_FILLED_SLOTS, uid=uid, slots=slots)}

    def outstanding(self, uids: Collection[str]) -> dict[str, list[Job]]:
        jobs = self._jobs(self.rows(_OUTSTANDING, uids=uids))
        return {uid: list(group) for uid, group in groupby(jobs, key=lambda job: job.uid)}

    def all_outstanding(self) -> list[Job]:
        return self._jobs(self.rows(_ALL_OUTSTANDING))

    def unreleased_jobs(self) -> list[Job]:
        """Return the jobs that any node has not released, whether the node is alive or not."""
        return self._jobs(self.rows(_UNRELEASED))

    def last_instant(self) -> int:
        """Return the latest instant of a heartbeat, a job's creation or an event; 0 when there is none."""
        return self.value(_LAST_INSTANT) or 0

    def queued_catch_up(self, breaker_keys: Collection[str]) -> list[Job]:
        return self._jobs(self.rows(_QUEUED_CATCH_UP, keys=breaker_keys))

    def jobs_external_over(self, now: int) -> list[Job]:
        """Return jobs that continue externally and are past their deadline, or cancelled."""
        return self._jobs(self.rows(_EXTERNAL_OVER, now=now))

    def outcome_token(self, job_id: str) -> str | None:
        return self.text(_OUTCOME_TOKEN, job_id=job_id)

    def jobs_of_dead_nodes(self, *, node: str, oldest: int, newest: int) -> list[Job]:
        return self._jobs(self.rows(_OF_DEAD_NODES, node=node, oldest=oldest, newest=newest))

    def jobs_of_node(self, node: str) -> list[Job]:
        """Return the jobs that this node has not released."""
        return self._jobs(self.rows(_OF_NODE, node=node))

    def cancel_requests(self, node: str) -> list[str]:
        return [row[0] for row in self.rows(_CANCEL_REQUESTS, node=node)]

    def requester(self, job: Job) -> str | None:
        """Return who triggered or re-ran the job, where that is recorded."""
        return self.text(_REQUESTER, uid=job.uid, slot_at=job.slot_at, job_id=job.job_id)


# -- writes --

_EMPTY = (
    "not_before",
    "is_ready",
    "is_counted",
    "is_probe",
    "payload",
    "guard_key",
    "capacity_key",
    "capacity_limit",
    "breaker_key",
    "line",
    "ready_at",
)
INSERT_JOB = Insert("jobs", JOB_INSERTED, sparse=_EMPTY)
INSERT_ENDED_JOB = Insert("jobs", JOB_ENDED, sparse=(*_EMPTY, "deadline_at"))

# The primary key of jobs, for all that follow.
_START = Statement("""
UPDATE jobs AS j SET status = 'running', ready_at = NULL, attempt = attempt + 1, started_at = :started_at::instant,
    node = :node::text, deadline_at = v.deadline_at, fence = j.fence + 1, is_counted = true, is_probe = v.is_probe
FROM batch AS v(deadline_at, is_probe, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'queued'""")
_END = Statement("""
UPDATE jobs AS j SET status = v.status, ended_at = :now::instant, released_at = :now::instant, error = v.error,
    result = v.result
FROM batch AS v(status, error, result, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")
_POSTPONE = Statement("""
UPDATE jobs AS j SET ready_at = v.ready_at FROM batch AS v(ready_at, row_id) WHERE j.row_id = v.row_id""")
# A running job that is cancelled keeps its node until the worker releases it.
_CANCEL = Statement("""
UPDATE jobs AS j SET status = 'cancelled', ended_at = :now::instant, ready_at = NULL, reason = v.reason,
    cancel_requested = (status = 'running'),
    released_at = CASE status WHEN 'running' THEN NULL ELSE :now::instant END
FROM batch AS v(reason, row_id) WHERE j.row_id = v.row_id AND j.status IN ('queued', 'running')""")
_HAND_OVER = Statement(f"""
UPDATE jobs AS j SET node = '{EXTERNAL}', outcome_token = v.outcome_token
FROM batch AS v(outcome_token, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")
_KEEP = Statement("UPDATE jobs SET released_at = NULL WHERE row_id = ANY(:row_ids::integers)")
_RELEASE = Statement("""
UPDATE jobs SET released_at = :now::instant WHERE row_id = ANY(:row_ids::integers) AND released_at IS NULL""")
_REQUEUE = Statement("""
UPDATE jobs AS j SET status = 'queued', ready_at = :now::instant, node = NULL, fence = j.fence + 1,
    rescues = rescues + :counted, is_ready = true
FROM batch AS v(row_id, fence) WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")
_COUNT_RESCUES = Statement("UPDATE jobs SET rescues = rescues + 1 WHERE row_id = ANY(:row_ids::integers)")
# idx_jobs_ready: a breaker that closes releases its retries.
_LET_RETRIES_GO = Statement("""
UPDATE jobs SET ready_at = :now::instant WHERE ready_at > :now::instant AND breaker_key = ANY(:keys::texts)
    AND origin = 'retry' AND not_before <= :now::instant""")
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

    def insert_jobs(self, rows: Sequence[Row]) -> None:
        self._insert_jobs(INSERT_JOB, rows)

    def insert_ended_jobs(self, rows: Sequence[Row]) -> None:
        """Insert jobs that no worker has to run, in the order of JOB_ENDED."""
        self._insert_jobs(INSERT_ENDED_JOB, rows)

    def _insert_jobs(self, insert: Insert, rows: Sequence[Row]) -> None:
        try:
            self.insert_unique(insert, rows)
        except DuplicateError as error:
            # Two schedulers cannot cause this: a row was changed manually, or the job does not come from `decide`.
            raise StoreError(
                "a slot, or an id, of this batch has its job already, so nothing of the batch was written; "
                "look for a schedule whose next_slot_at lies before its last_slot_at"
            ) from error

    def start_jobs(self, claimed: Sequence[ClaimedJob]) -> None:
        """Start jobs that were claimed together."""
        jobs = [one.job for one in claimed]
        batch = [(job.deadline_at, job.is_probe, job.row_id, job.fence - 1) for job in jobs]
        changed = self.run(_START, started_at=jobs[0].started_at, node=jobs[0].node, batch=batch)
        self.expect(len(batch), changed)

    def postpone_jobs(self, postponed: Sequence[tuple[Job, int]]) -> None:
        self.run(_POSTPONE, batch=[(until, job.row_id) for job, until in postponed])

    def end_jobs(self, ended: Sequence[tuple[Job | Finished, Outcome]], now: int) -> None:
        batch = [(o.status, o.error, o.result, job.row_id, job.fence) for job, o in ended]
        self.expect(len(batch), self.run(_END, now=now, batch=batch))

    def keep_jobs(self, jobs: Sequence[Job]) -> None:
        """Keep jobs that have ended unreleased: their work is still running."""
        self.run(_KEEP, row_ids=row_ids(jobs))

    def cancel_jobs(self, cancelled: Sequence[tuple[Job, CancelReason]], now: int) -> None:
        batch = [(reason, job.row_id) for job, reason in cancelled]
        self.expect(len(batch), self.run(_CANCEL, now=now, batch=batch))

    def let_go_of_jobs(self, jobs: Sequence[Job], now: int) -> None:
        self.expect(len(jobs), self.run(_RELEASE, now=now, row_ids=row_ids(jobs)))

    def hand_over_jobs(self, jobs: Sequence[tuple[Job, str]]) -> None:
        """Mark jobs as continuing externally, each with the hash of the token that authorises its report."""
        batch = [(token, job.row_id, job.fence) for job, token in jobs]
        self.expect(len(batch), self.run(_HAND_OVER, batch=batch))

    def requeue_jobs(self, jobs: Sequence[Job], now: int, *, is_rescue: bool) -> None:
        """Set jobs to queued under a new fence; `is_rescue`: it counts as a rescue."""
        batch = [(job.row_id, job.fence) for job in jobs]
        self.expect(len(jobs), self.run(_REQUEUE, now=now, counted=int(is_rescue), batch=batch))

    def count_rescues(self, jobs: Sequence[Job]) -> None:
        self.run(_COUNT_RESCUES, row_ids=row_ids(jobs))

    @abstractmethod
    def ready_successors(self, queues: Collection[Queue], now: int) -> None: ...

    def let_retries_go(self, breaker_keys: Collection[str], now: int) -> None:
        self.run(_LET_RETRIES_GO, now=now, keys=breaker_keys)

    def put_output(self, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap], now: int) -> None:
        for piece in pieces:
            self.run(_PUT_OUTPUT, **piece.stream._asdict(), position=piece.position, now=now, data=piece.data)
        for gap in gaps:
            self.run(_DROP_OUTPUT, **gap.stream._asdict(), start=gap.start, end=gap.end)


def row_ids(jobs: Sequence[Job]) -> list[int]:
    return [job.row_id for job in jobs]
