"""B4's limit on everwhen's own tables: the statements of a firing, with all columns and indexes, and nothing else.

The goal says "the same claim, job insert with its unique index, schedule update and limits update, batches of 500, no
scheduler around them". This module interprets it as: the tables of the product as they are and its own statements, in
plain sqlite3 or psycopg, on rows that go directly from one statement to the next. A leaner schema that could not
hold what the ledger promises is a different measurement; `raw` makes it, without a goal.
"""

import sqlite3
from abc import ABC, abstractmethod
from operator import itemgetter
from time import perf_counter

import psycopg

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Timings
from benchmarks.workers.places import Place, is_file, path_in
from benchmarks.workers.runtimes import GROUPS, HOUR, HOURLY, SetClock
from everwhen.model.instants import SECOND
from everwhen.model.limits import Limit
from everwhen.model.row_changes import JOB_INSERTED
from everwhen.model.schedule import State
from everwhen.store.commit import FIRED
from everwhen.store.dialect import Queries, Statement
from everwhen.store.job_rows import INSERT_JOB
from everwhen.store.opened import store_of
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
A_JOB = Statement(f"SELECT {', '.join(JOB_INSERTED)} FROM jobs ORDER BY row_id DESC LIMIT 1")
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
        store_of(self.stack.runtime).slots.tick(self.clock.now(), limit=1, behind=False)
        (fired,) = self.queries().rows(A_JOB)
        self.rows = Rows(fired)
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
    def queries(self) -> Queries: ...

    @abstractmethod
    def fire(self) -> int: ...


class OnSqlite(RawOnOwnTables):
    version = sqlite3.sqlite_version

    def connect(self) -> None:
        self.connection = sqlite3.connect(path_in(self.url), isolation_level=None)
        for pragma in PRAGMAS:
            self.connection.execute(f"PRAGMA {pragma}")

    def queries(self) -> SqliteQueries:
        return SqliteQueries(self.connection)

    def fire(self) -> int:
        connection, now, queries = self.connection, self.clock.now(), self.queries()
        connection.execute("BEGIN IMMEDIATE")
        due = queries.many(State._make, DUE_LATELY, now=now, floor=now - 10 * SECOND, limit=BATCH)
        queries.insert(INSERT_JOB, [self.rows.job(state, now) for state in due])
        queries.update("schedules", FIRED, [self.rows.moved(state, now) for state in due])
        queries.insert(PUT_LIMITS, [Limit(key, BATCH) for key in KEYS])
        connection.execute("COMMIT")
        return len(due)


class OnPostgres(RawOnOwnTables):
    version = f"psycopg {psycopg.__version__}"

    def connect(self) -> None:
        connection = psycopg.connect(self.url, **describe_connection(self.url))
        register(connection)
        self.connection = connection

    def queries(self) -> PostgresQueries:
        return PostgresQueries(self.connection)

    def fire(self) -> int:
        connection, now, queries = self.connection, self.clock.now(), self.queries()
        connection.execute("BEGIN")
        span = {"now": now, "floor": now - 10 * SECOND, "limit": BATCH, "offset": 0, "until": BATCH}
        seen = queries.rows(PEEK_DUE, **span)
        queries.rows(LIMITS.locking, keys=KEYS)
        if due := queries.many(State._make, TAKE_DUE, row_ids=[row[0] for row in seen], now=now):
            queries.insert(INSERT_JOB, [self.rows.job(state, now) for state in due])
            queries.update("schedules", FIRED, [self.rows.moved(state, now) for state in due])
            queries.run(PUT_LOCKED_LIMITS, batch=[Limit(key, BATCH) for key in KEYS])
        connection.execute("COMMIT")
        return len(due)


def raw_on_own_tables(place: Place, count: int) -> RawOnOwnTables:
    url = place.fresh()
    return OnSqlite(url, count) if is_file(url) else OnPostgres(url, count)


# What differs from slot to slot in a job, and what a firing changes in a schedule's row, in the order of `Rows`.
_OF_A_JOB = "job_id schedule_row uid schedule_id revision number slot_at due_at created_at ready_at".split()
_OF_A_FIRING = "next_slot_at next_run_at fire_count outstanding last_fired_at last_slot_at".split()
_PLACES = tuple(JOB_INSERTED.index(name) for name in _OF_A_JOB)
_in_order_of_fired = itemgetter(*(_OF_A_FIRING.index(name) for name in FIRED))


class Rows:
    """The rows that a firing writes: as the product wrote its last ones, but for what differs from slot to slot.

    Columns are found by their names, and those that are not named here are copied, so that a new column of the product
    is written like all others.
    """

    def __init__(self, fired: tuple[object, ...]) -> None:
        self.fired = fired  # a job that the product wrote, in the order of JOB_INSERTED

    def job(self, state: State, now: int) -> tuple[object, ...]:
        """Return a job of a schedule, in the order of JOB_INSERTED."""
        row, uid, number = list(self.fired), state.uid, state.fire_count + 1
        own = (
            *(f"sched-{uid}-n{number}-rc0", state.row_id, uid, state.schedule_id, state.revision, number),
            *(state.next_slot_at, state.next_run_at, now, now),
        )
        for place, value in zip(_PLACES, own, strict=True):
            row[place] = value
        return tuple(row)

    def moved(self, state: State, now: int) -> tuple[object, ...]:
        """Return what a firing changes in a schedule's row, in the order of FIRED, and its row."""
        slot_at, due_at = state.next_slot_at, state.next_run_at
        assert slot_at is not None and due_at is not None
        changed = (
            *(slot_at + HOUR, due_at + HOUR, state.fire_count + 1, state.outstanding + 1),
            *(now, slot_at),
        )
        return (*_in_order_of_fired(changed), state.row_id)
