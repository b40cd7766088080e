"""B4's limit on everwhen's own tables: the statements of a firing, with all columns and indexes, and nothing else.

The goal says "the same claim, job insert with its unique index, schedule update and limits update, batches of 500, no
scheduler around them". This module interprets it as: the tables of the product as they are and its own statements, in
plain sqlite3 or psycopg, on tuples that go directly from one statement to the next. A leaner schema that could not
hold what the ledger promises is a different measurement; `raw` makes it, without a goal.
"""

import sqlite3
from abc import ABC, abstractmethod
from time import perf_counter

import psycopg

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Timings
from benchmarks.workers.places import Place, is_file, path_in
from benchmarks.workers.runtimes import GROUPS, HOUR, HOURLY, SetClock
from everwhen.model.instants import SECOND
from everwhen.model.limits import Limit
from everwhen.store.commit import FIRED
from everwhen.store.job_rows import INSERT_JOB
from everwhen.store.postgres.adapters import register
from everwhen.store.postgres.database import describe_connection
from everwhen.store.postgres.queries import PostgresQueries
from everwhen.store.postgres.snapshot import PEEK_DUE, TAKE_DUE
from everwhen.store.postgres.transaction import PUT_LIMITS as PUT_LOCKED_LIMITS
from everwhen.store.sqlite.queries import SqliteQueries
from everwhen.store.sqlite.transaction import DUE_LATELY
from everwhen.store.system_rows import LIMITS, PUT_LIMITS

BATCH = 500
PRAGMAS = ("synchronous = FULL", "wal_autocheckpoint = 16384", "cache_size = -16384", "secure_delete = FAST")
KEYS = [f"guard:g{group}:sync" for group in range(GROUPS)]


class RawOnOwnTables(ABC):
    """Claim, insert, advance and count, a transaction for each 500."""

    version = ""

    def __init__(self, url: str, count: int) -> None:
        self.url = url
        self.count = count
        self.clock = SetClock()

    def check(self) -> dict[str, str]:
        self.stack = runtimes.a_stack(self.url, self.clock)
        runtimes.load_many(self.stack, self.count, HOURLY)
        self.connect()
        self.come_due()
        while self.fire():
            pass
        return {}

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            self.come_due()
        batches = self.count // BATCH // parts
        began = perf_counter()
        fired = sum(self.fire() for _ in range(batches))
        return {"slot": (perf_counter() - began, fired)}

    def come_due(self) -> None:
        runtimes.forget_jobs(self.stack)
        self.clock.set(self.clock.now() // HOUR * HOUR + HOUR)

    @abstractmethod
    def connect(self) -> None: ...

    @abstractmethod
    def fire(self) -> int: ...


class OnSqlite(RawOnOwnTables):
    version = sqlite3.sqlite_version

    def connect(self) -> None:
        self.connection = sqlite3.connect(path_in(self.url), isolation_level=None)
        for pragma in PRAGMAS:
            self.connection.execute(f"PRAGMA {pragma}")

    def fire(self) -> int:
        connection, now, queries = self.connection, self.clock.now(), SqliteQueries(self.connection)
        connection.execute("BEGIN IMMEDIATE")
        due = queries.rows(DUE_LATELY, now=now, floor=now - 10 * SECOND, limit=BATCH)
        queries.insert(INSERT_JOB, [job(row, now) for row in due])
        queries.update("schedules", FIRED, [moved(row, now) for row in due])
        queries.insert(PUT_LIMITS, [Limit(key, BATCH) for key in KEYS])
        connection.execute("COMMIT")
        return len(due)


class OnPostgres(RawOnOwnTables):
    version = f"psycopg {psycopg.__version__}"

    def connect(self) -> None:
        connection = psycopg.connect(self.url, **describe_connection(self.url))
        register(connection)
        self.connection = connection

    def fire(self) -> int:
        connection, now, queries = self.connection, self.clock.now(), PostgresQueries(self.connection)
        connection.execute("BEGIN")
        span = {"now": now, "floor": now - 10 * SECOND, "limit": BATCH, "offset": 0, "until": BATCH}
        seen = queries.rows(PEEK_DUE, **span)
        queries.rows(LIMITS.locking, keys=KEYS)
        if due := queries.rows(TAKE_DUE, row_ids=[row[0] for row in seen], now=now):
            queries.insert(INSERT_JOB, [job(row, now) for row in due])
            queries.update("schedules", FIRED, [moved(row, now) for row in due])
            queries.run(PUT_LOCKED_LIMITS, batch=[Limit(key, BATCH) for key in KEYS])
        connection.execute("COMMIT")
        return len(due)


def raw_on_own_tables(place: Place, count: int) -> RawOnOwnTables:
    url = place.fresh()
    return OnSqlite(url, count) if is_file(url) else OnPostgres(url, count)


def job(row: tuple[object, ...], now: int) -> tuple[object, ...]:
    """Return a job of a schedule's row, in the order of JOB_INSERTED."""
    row_id, uid, schedule_id, _, revision, _, _, slot_at, due_at = row[:9]
    number = row[15] + 1  # type: ignore[operator]
    name, guard = f"sched-{uid}-n{number}-rc0", "guard:g0:sync"
    return (
        *(name, row_id, uid, schedule_id, revision, number, 0, "schedule", slot_at, due_at),
        *(None, True, True, False, 0, None, "default", guard, None, None, None, "own", now, now),
    )


def moved(row: tuple[object, ...], now: int) -> tuple[object, ...]:
    """Return what a firing changes in a schedule's row, in the order of FIRED."""
    next_at = row[8] + HOUR  # type: ignore[operator]
    return next_at, next_at, row[15] + 1, 1, now, row[8], row[0]  # type: ignore[operator]
