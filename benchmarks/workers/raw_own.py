"""B4's limit on everwhen's own tables: the statements of a firing, with all columns and indexes, and nothing else.

The goal speaks of "the same claim, job insert with its unique index, schedule update and limits update, batches
of 500, no scheduler around them". Read here as: the tables of the product as they are and its own statements,
in plain sqlite3, on tuples that go straight from one statement to the next. A leaner schema that could not hold
what the ledger promises is another thing; `raw` measures one, beside the goal.
"""

import sqlite3
from pathlib import Path
from time import perf_counter

from benchmarks.workers import houses
from benchmarks.workers.answering import Timings
from benchmarks.workers.houses import GROUPS, HOUR, HOURLY, SetClock
from everwhen.model.instants import SECOND
from everwhen.stores import sqlite_statements as sql
from everwhen.stores.flows.commit import FIRED

BATCH = 500
PRAGMAS = ("synchronous = FULL", "wal_autocheckpoint = 16384", "cache_size = -16384", "secure_delete = FAST")


class RawOnOwnTables:
    """Claim, insert, move on and count, a transaction for each 500."""

    version = sqlite3.sqlite_version

    def __init__(self, folder: Path, count: int) -> None:
        self.path = folder / "everwhen.db"
        self.count = count
        self.clock = SetClock()

    def check(self) -> dict[str, str]:
        stack = houses.a_stack(self.path, self.clock)
        houses.load_many(stack, self.count, HOURLY)
        stack.close()
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        for pragma in PRAGMAS:
            self.connection.execute(f"PRAGMA {pragma}")
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
        self.connection.execute("DELETE FROM jobs")
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.clock.set(self.clock.now() // HOUR * HOUR + HOUR)

    def fire(self) -> int:
        connection, now = self.connection, self.clock.now()
        connection.execute("BEGIN IMMEDIATE")
        values = {"now": now, "floor": now - 10 * SECOND, "limit": BATCH}
        due = connection.execute(sql.DUE_LATELY, values).fetchall()
        for statement, jobs in sql.INSERT_JOB.runs([job(row, now) for row in due]):
            connection.executemany(statement, jobs)
        connection.executemany(sql.update_of(FIRED), [moved(row, now) for row in due])
        limits = [(f"guard:g{group}:sync", BATCH, 0, 0, 0, 0, 0) for group in range(GROUPS)]
        connection.executemany(sql.PUT_LIMIT, limits)
        connection.execute("COMMIT")
        return len(due)


def job(row: tuple[object, ...], now: int) -> tuple[object, ...]:
    """A job of a schedule's row, in the order of JOB_INSERTED."""
    row_id, uid, schedule_id, _, revision, _, _, slot_at, due_at = row[:9]
    number = row[15] + 1  # type: ignore[operator]
    name, guard = f"sched-{uid}-n{number}-rc0", "guard:g0:sync"
    return (
        *(name, row_id, uid, schedule_id, revision, number, 0, "schedule", slot_at, due_at),
        *(None, True, True, False, 0, None, "default", guard, None, None, None, "own", now, now),
    )


def moved(row: tuple[object, ...], now: int) -> tuple[object, ...]:
    """What a firing changes of a schedule's row, in the order of FIRED."""
    next_at = row[8] + HOUR  # type: ignore[operator]
    return next_at, next_at, row[15] + 1, 1, now, row[8], row[0]  # type: ignore[operator]
