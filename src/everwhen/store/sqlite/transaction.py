"""Transactions on SQLite: what differs there.

There is one writer at a time, under the file lock: no other transaction changes what this one reads before its
commit. So nothing is locked, there is nothing to peek at, and a fence cannot have changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from everwhen.clock import Clock
from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.row_changes import ENDED_WELL
from everwhen.model.schedule import State
from everwhen.store.dialect import DuplicateError, Statement
from everwhen.store.load import PlanCache
from everwhen.store.records import Due, Finished, JobLine, Offer, Row
from everwhen.store.schedule_rows import INSERT_REVISION, INSERT_SCHEDULE, STATE
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS
from everwhen.store.sqlite.database import Lane, SqliteDatabase
from everwhen.store.sqlite.queries import SqliteQueries
from everwhen.store.transaction import Snapshot, Transaction

T = TypeVar("T")

# idx_schedules_next_run: a range from the front of the partial index, whatever the number of schedules.
DUE_LATELY = Statement(f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at > :floor AND next_run_at <= :now
ORDER BY next_run_at LIMIT :limit""")
_DUE_BEHIND = Statement(f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at <= :floor ORDER BY next_run_at LIMIT :limit""")
# idx_schedules_release
_RELEASED = Statement(f"""
SELECT {STATE} FROM schedules
WHERE release_at IS NOT NULL AND release_at <= :now AND enabled AND (next_run_at IS NULL OR next_run_at > :now)
ORDER BY release_at, held_due_at LIMIT :limit""")


class SqliteSnapshot(SqliteQueries, Snapshot):
    """The reads on one connection."""

    def __init__(self, connection: sqlite3.Connection, plans: PlanCache | None = None) -> None:
        super().__init__(connection)
        self.plans = PlanCache() if plans is None else plans

    def due(self, due: Due) -> list[State]:
        if due.behind:
            return self.many(State._make, _DUE_BEHIND, floor=due.floor, limit=due.limit)
        released = self.many(State._make, _RELEASED, now=due.now, limit=due.limit)
        left = due.limit - len(released)
        return released + self.many(State._make, DUE_LATELY, floor=due.floor, now=due.now, limit=left)


# Three shared statements extract the values of each job from JSON. Jobs that change alike are one list of rows here,
# which costs a third less. The primary key of jobs.
_START_JOBS = Statement("""
UPDATE jobs SET status = 'running', ready_at = NULL, attempt = attempt + 1, started_at = :started_at,
    deadline_at = :deadline_at, node = :node, fence = fence + 1, is_counted = 1, is_probe = :is_probe
WHERE row_id = ANY(:row_ids::integers)""")
# A job ends once, so its error and its result are still empty.
_ENDED_SILENTLY = ("status", "ended_at", "released_at", "started_at")
# The primary keys of both. No schedule has two of these jobs.
_COUNT_SUCCESSES = Statement(f"""
UPDATE schedules SET {ENDED_WELL.to_sql(now=":now", job_id="ended.job_id", run_at="ended.started_at")}
FROM (SELECT job_id, schedule_row, started_at FROM jobs WHERE row_id = ANY(:row_ids::integers)) AS ended
WHERE schedules.row_id = ended.schedule_row""")
# idx_jobs_outstanding, whose exact condition must be repeated here: the next in line. The claim checks whether
# another job of the schedule is still running.
_READY_SUCCESSOR = Statement("""
UPDATE jobs SET is_ready = 1, ready_at = :now WHERE row_id = (
    SELECT row_id FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND status = 'queued'
        AND ready_at IS NULL AND line = 'own' ORDER BY slot_at, row_id LIMIT 1)""")
# idx_jobs_outstanding, idx_jobs_unreleased: the next of another line, when no job of that line is ready or running.
_READY_OTHER_LINES = Statement("""
UPDATE jobs SET is_ready = 1, ready_at = max(:now, coalesce(not_before, :now)) WHERE row_id = (
    SELECT row_id FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND status = 'queued'
        AND ready_at IS NULL AND line = :line ORDER BY slot_at, row_id LIMIT 1)
AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND line = :line
        AND (status = 'running' OR ready_at IS NOT NULL))
AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND uid = :uid AND line = :line)""")
# idx_schedules_held: the oldest first. No slot is released before it is due, when the clock was set back.
_RELEASE_HELD = Statement("""
UPDATE schedules SET release_at = max(:now, held_due_at) WHERE row_id IN (
    SELECT row_id FROM schedules WHERE held_key = :key AND release_at IS NULL
        AND (held_due_at, row_id) > (:due_at, :row_id) ORDER BY held_due_at, row_id LIMIT :free)""")

_encode = json.JSONEncoder(default=dict).encode


class SqliteTransaction(SqliteSnapshot, Transaction):
    """The methods of a transaction on one connection."""

    migration = SQLITE_MIGRATIONS[-1].number

    def __init__(
        self, connection: sqlite3.Connection, plans: PlanCache | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(connection, plans)
        self._clock = clock
        self._is_sooner = False
        self.own_revisions: set[tuple[str, int]] = set()

    # -- jobs --

    def start_jobs(self, claimed: Sequence[ClaimedJob]) -> None:
        alike: dict[Row, list[int]] = {}
        for job in [one.job for one in claimed]:
            start = (job.started_at, job.deadline_at, job.node, job.is_probe)
            alike.setdefault(start, []).append(job.row_id)
        for (started_at, deadline_at, node, is_probe), row_ids in alike.items():
            when = {"started_at": started_at, "deadline_at": deadline_at}
            self.run(_START_JOBS, **when, node=node, is_probe=is_probe, row_ids=row_ids)

    def end_jobs(self, ended: Sequence[tuple[Job | Finished, Outcome]], now: int) -> None:
        loud: list[tuple[Job | Finished, Outcome]] = []
        silent: list[Row] = []
        for job, outcome in ended:
            if outcome.error is not None or outcome.result is not None:
                loud.append((job, outcome))
            else:
                silent.append((outcome.status, now, now, job.started_at, job.row_id))
        if loud:
            super().end_jobs(loud, now)
        if silent:
            self.update("jobs", _ENDED_SILENTLY, silent)

    def ready_successors(self, queues: Collection[JobLine], now: int) -> None:
        for queue in sorted(queues):
            if queue.line == "own":
                self.run(_READY_SUCCESSOR, now=now, uid=queue.uid)
            else:
                self.run(_READY_OTHER_LINES, now=now, uid=queue.uid, line=queue.line)

    # -- schedules --

    def insert_schedules(
        self, schedules: Sequence[Row], revisions: Sequence[Row], events: Sequence[Event]
    ) -> str | None:
        self._execute("SAVEPOINT creation")
        try:
            self.insert_unique(INSERT_SCHEDULE, schedules)
            self.insert_unique(INSERT_REVISION, revisions)
        except DuplicateError:
            self._execute("ROLLBACK TO creation")  # else _taken would find the rows of this batch
            return self._taken(schedules)
        self._execute("RELEASE creation")
        self.own_revisions.update((uid, number) for uid, number, *_ in revisions)  # type: ignore[misc]
        self.insert_events(events)
        return None

    def count_successes(self, jobs: Sequence[Finished], now: int) -> None:
        self.run(_COUNT_SUCCESSES, now=now, row_ids=[job.row_id for job in jobs])

    def release_held(self, offers: Sequence[Offer], now: int) -> None:
        released = [self.run(_RELEASE_HELD, now=now, **offer._asdict()) for offer in offers]
        if any(released):
            self.announce_due(now)

    # -- the rest --

    def encode_detail(self, detail: Mapping[str, object]) -> str:
        return _encode(detail)

    def leap_numbers(self, by: int) -> None:
        # A new row gets the number after the last one, so the last one is moved; messages have their own counter.
        for table, key in (("audit_events", "id"), ("jobs", "row_id")):
            last = f"(SELECT max({key}) FROM {table})"
            self._execute(f"UPDATE {table} SET {key} = {key} + ? WHERE {key} = {last}", (by,))
        self._execute("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'messages'", (by,))

    def announce_due(self, due_at: int) -> None:
        self._is_sooner = True  # for this process; the change counter wakes the others

    @property
    def is_sooner(self) -> bool:
        return self._is_sooner


class SqliteStore:
    """Transactions on one SQLite database. `clock` gives the time at which a turn begins."""

    is_exclusive = True

    def __init__(self, database: SqliteDatabase, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock
        self.plans = PlanCache()

    def write(self, lane: Lane, work: Callable[[Transaction], T], *, is_change: bool = False) -> T:
        plans, clock = self.plans, self._clock
        return self._database.write(
            lane, lambda connection: work(SqliteTransaction(connection, plans, clock))
        )

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        with self._database.read() as connection:
            yield SqliteSnapshot(connection, self.plans)

    @contextmanager
    def look(self) -> Iterator[Snapshot]:
        with self._database.look() as connection:
            yield SqliteSnapshot(connection, self.plans)

    def earliest_due_at(self) -> int | None:
        with self.look() as snapshot:
            return snapshot.next_due_at()

    def nothing_due_before(self, instant: int) -> None:
        return None  # an index of SQLite has no dead entries
