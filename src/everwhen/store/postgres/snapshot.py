"""Reads on PostgreSQL: what differs there.

A peek learns, without a lock, which rows a transaction will take; `store.postgres.transaction` describes what is locked
then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from everwhen.clock import Clock
from everwhen.model.job import Job
from everwhen.model.schedule import State
from everwhen.store.dialect import EARLIEST, Statement
from everwhen.store.job_rows import CAN_BE_TAKEN, IN_SHARE, JOB, NEXT_DELIVERY, NEXT_READY
from everwhen.store.load import PlanCache
from everwhen.store.postgres.queries import PostgresQueries
from everwhen.store.postgres.watermark import Marks
from everwhen.store.records import Due, LockHint, ReadyQuery
from everwhen.store.schedule_rows import NEXT_DUE, STATE
from everwhen.store.transaction import Snapshot

# idx_schedules_release, then idx_schedules_next_run: ranges from the front, whatever the number of schedules.
PEEK_DUE = Statement("""
SELECT row_id, uid, revision FROM (
    (SELECT row_id, uid, revision FROM schedules
     WHERE release_at IS NOT NULL AND release_at <= :now::instant AND enabled
        AND (next_run_at IS NULL OR next_run_at > :now::instant)
     ORDER BY release_at, held_due_at LIMIT :until)
    UNION ALL
    (SELECT row_id, uid, revision FROM schedules
     WHERE enabled AND next_run_at > :floor::instant AND next_run_at <= :now::instant
     ORDER BY next_run_at LIMIT :until)
) due OFFSET :offset LIMIT :limit""")
_PEEK_BEHIND = Statement("""
SELECT row_id, uid, revision FROM schedules
WHERE enabled AND next_run_at >= :mark::instant AND next_run_at <= :floor::instant
ORDER BY next_run_at OFFSET :offset LIMIT :limit""")
# The primary key of schedules. The condition is repeated: another node may have decided them since the peek.
TAKE_DUE = Statement(f"""
SELECT {STATE} FROM schedules
WHERE row_id = ANY(:row_ids::integers) AND enabled AND (next_run_at <= :now::instant OR release_at <= :now::instant)
FOR UPDATE SKIP LOCKED""")
# The unique keys on schedule_id and uid, and idx_jobs_outstanding.
_PEEK_SCHEDULE = Statement("""
WITH wanted AS (SELECT uid, revision FROM schedules WHERE schedule_id = :id::text OR uid = :id::text)
SELECT uid, revision, NULL, NULL, NULL, NULL FROM wanted
UNION ALL
SELECT uid, revision, guard_key, capacity_key, breaker_key, cost_reserved FROM jobs
WHERE uid IN (SELECT uid FROM wanted) AND status IN ('queued', 'running')""")
# The unique key on uid.
_SCHEDULES_OF = Statement("SELECT uid FROM schedules WHERE uid = ANY(:uids::texts) ORDER BY uid")
# idx_jobs_ready, from the mark on.
_HINT = "row_id, uid, revision, guard_key, capacity_key, breaker_key"
PEEK_READY = {
    is_delivery: Statement(f"""
SELECT {_HINT} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= :now::instant AND ready_at >= :mark::instant
    AND {can_be_taken} ORDER BY ready_at, row_id LIMIT :limit""")
    for is_delivery, can_be_taken in CAN_BE_TAKEN.items()
}
# idx_jobs_share, once for each.
PEEK_SHARES = {
    is_delivery: Statement(f"""
SELECT ready.* FROM unnest(:shares::texts) AS wanted(share) CROSS JOIN LATERAL (
    SELECT {_HINT} FROM jobs WHERE {IN_SHARE.format(share="wanted.share", can_be_taken=can_be_taken)}
    LIMIT :limit) AS ready""")
    for is_delivery, can_be_taken in CAN_BE_TAKEN.items()
}
# The primary key of jobs. The condition is repeated: they may have changed since the peek.
_TAKE_READY = Statement(f"""
SELECT {JOB} FROM jobs WHERE row_id = ANY(:row_ids::integers) AND ready_at <= :now::instant
ORDER BY ready_at, row_id""")
_TAKE_DELIVERABLE = Statement(f"""
SELECT {JOB} FROM jobs WHERE row_id = ANY(:row_ids::integers) AND ready_at <= :now::instant
    AND handed_over_at IS NULL ORDER BY ready_at, row_id""")
# The unique key on job_id.
_PEEK_JOBS = Statement("""
SELECT uid, revision, guard_key, capacity_key, breaker_key, cost_reserved FROM jobs
WHERE job_id = ANY(:job_ids::texts)""")
# idx_jobs_ready, from the very front.
_FIRST_READY = Statement("SELECT min(ready_at) FROM jobs WHERE ready_at IS NOT NULL")


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the transactions of one process share.

    `skew` is how far this node's clock is from the database's. `has_time`: the nodes use the database's time,
    otherwise `clock`.
    """

    skew: Callable[[], int] = lambda: 0
    has_time: bool = False
    clock: Clock | None = None
    marks: Marks = field(default_factory=Marks)
    plans: PlanCache = field(default_factory=PlanCache)


class PostgresSnapshot(PostgresQueries, Snapshot):
    """The reads on one connection."""

    def __init__(self, connection: Connection[Any], process: ProcessState | None = None) -> None:
        super().__init__(connection)
        self._process = process or ProcessState()
        self._marks, self.plans = self._process.marks, self._process.plans
        self._peeked: list[int] = []  # the rows of the last peek, locked next

    # -- peeks --

    def peek_due(self, due: Due) -> Sequence[LockHint]:
        page = {"limit": due.limit, "offset": due.page * due.limit}
        if due.behind:
            return self._remember(self.rows(_PEEK_BEHIND, floor=due.floor, mark=self._marks.due.at, **page))
        until = page["offset"] + due.limit
        return self._remember(self.rows(PEEK_DUE, now=due.now, floor=due.floor, until=until, **page))

    def peek_ready(self, query: ReadyQuery) -> Sequence[LockHint]:
        values: dict[str, Any] = {"mark": self._marks.ready.at, "limit": query.limit}
        values |= {} if query.is_delivery else {"queues": query.queues}
        if query.shares is None:
            return self._remember(self.rows(PEEK_READY[query.is_delivery], now=query.now, **values))
        values |= {"until": query.now, "shares": query.shares}
        return self._remember(self.rows(PEEK_SHARES[query.is_delivery], **values))

    def _remember(self, rows: Sequence[Any]) -> list[LockHint]:
        self._peeked = [row[0] for row in rows]
        return [LockHint(*hint) for _, *hint in rows]

    def peek_jobs(self, job_ids: Sequence[str]) -> Sequence[LockHint]:
        return self.many(LockHint._make, _PEEK_JOBS, job_ids=job_ids)

    def peek_schedule(self, schedule_id: str) -> Sequence[LockHint]:
        return self.many(LockHint._make, _PEEK_SCHEDULE, id=schedule_id)

    # -- what was peeked at --

    def due(self, due: Due) -> list[State]:
        if not self._peeked:
            return []
        found = self.many(State._make, TAKE_DUE, row_ids=self._peeked, now=due.now)
        return sorted(found)  # by row_id, so that of equal ones the older goes first on every database

    def lock_schedules(self, uids: Collection[str]) -> None:
        self.rows_to_change(_SCHEDULES_OF, uids=uids)

    def ready_jobs(self, query: ReadyQuery) -> list[Job]:
        if not self._peeked:
            return []
        statement = _TAKE_DELIVERABLE if query.is_delivery else _TAKE_READY
        return self.many(Job._make, statement, row_ids=self._peeked, now=query.now)

    def ready_shares(
        self, query: ReadyQuery, start: str, mark: int = EARLIEST
    ) -> list[tuple[str, int | None]]:
        return super().ready_shares(query, start, self._marks.ready.at)

    # -- searches from a mark on --

    def next_due_at(self) -> int | None:
        with self._marks.due.search() as mark:
            mark.found = self.value(NEXT_DUE, mark=mark.at)
        return mark.found

    def next_ready_at(self, queues: Sequence[str] | None, now: int | None = None) -> int | None:
        if now is not None:
            self._look_for_ready(now)
        return self.number(NEXT_READY, mark=self._marks.ready.at, queues=queues)

    def next_delivery_at(self, now: int) -> int | None:
        self._look_for_ready(now)  # others may have written below the mark
        return self.number(NEXT_DELIVERY, mark=self._marks.ready.at)

    def _look_for_ready(self, now: int) -> None:
        """Find the first ready job from the very front, every few seconds, whether it can start or not."""
        with self._marks.ready.search() as look:
            if not look.is_whole:
                return
            look.found = self.value(_FIRST_READY)
        self._marks.ready.raise_to(now if look.found is None else min(look.found, now))
