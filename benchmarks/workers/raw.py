"""The raw limit: the statements of a firing and of a load in plain sqlite3, with narrow rows, without a scheduler."""

import secrets
import sqlite3
from pathlib import Path
from time import perf_counter

from benchmarks.workers.answering import Timings
from benchmarks.workers.places import Place, path_in

BATCH = 500
HOUR = 3_600_000_000
KEYS = 10

SCHEMA = """
CREATE TABLE schedules (
    row_id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, next_run_at INTEGER, fire_count INTEGER NOT NULL,
    outstanding INTEGER NOT NULL, last_fired_at INTEGER, words TEXT NOT NULL);
CREATE INDEX idx_due ON schedules (next_run_at);
CREATE TABLE jobs (
    row_id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, uid TEXT NOT NULL, slot_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL, status TEXT NOT NULL, queue TEXT NOT NULL, created_at INTEGER NOT NULL);
CREATE UNIQUE INDEX idx_slot ON jobs (slot_at, uid);
CREATE TABLE limits (key TEXT PRIMARY KEY, outstanding INTEGER NOT NULL) WITHOUT ROWID;
"""
CREATE = "INSERT INTO schedules (uid, next_run_at, fire_count, outstanding, words) VALUES (?, ?, 0, 0, ?)"
CLAIM = "SELECT row_id, uid, fire_count, next_run_at FROM schedules WHERE next_run_at <= ? ORDER BY next_run_at LIMIT ?"
INSERT = """
INSERT INTO jobs (job_id, uid, slot_at, due_at, status, queue, created_at)
VALUES (?, ?, ?, ?, 'queued', 'default', ?)"""
MOVE_ON = """
UPDATE schedules SET next_run_at = ?, fire_count = fire_count + 1, outstanding = outstanding + 1,
    last_fired_at = ? WHERE row_id = ?"""
COUNT = "UPDATE limits SET outstanding = outstanding + ? WHERE key = ?"
WORDS = '{"every":"1h","command":"sync","target":["command","{\\"argv\\": [\\"true\\"]}"]}'


def connect(path: Path) -> sqlite3.Connection:
    """Connect with the same durability and the same log length as everwhen."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 16384")
    connection.execute("PRAGMA cache_size = -16384")
    connection.executescript(SCHEMA)
    connection.executemany("INSERT INTO limits VALUES (?, 0)", [(f"g{key}",) for key in range(KEYS)])
    return connection


def row() -> tuple[str, int, str]:
    return secrets.token_hex(6), HOUR, WORDS


class RawFiring:
    """B4's limit: claim, insert, advance and count, a transaction for each 500."""

    version = sqlite3.sqlite_version

    def __init__(self, place: Place, count: int) -> None:
        self.count = count
        self.connection = connect(path_in(place.fresh()))
        self.now = 0

    def check(self) -> dict[str, str]:
        self.connection.execute("BEGIN")
        self.connection.executemany(CREATE, [row() for _ in range(self.count)])
        self.connection.execute("COMMIT")
        for _ in range(self.count // BATCH):
            self.fire()
        return {}

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            self.connection.execute("DELETE FROM jobs")
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self.now += HOUR
        batches = self.count // BATCH // parts
        began = perf_counter()
        fired = sum(self.fire() for _ in range(batches))
        return {"slot": (perf_counter() - began, fired)}

    def fire(self) -> int:
        connection, now = self.connection, self.now
        connection.execute("BEGIN IMMEDIATE")
        due = connection.execute(CLAIM, (now, BATCH)).fetchall()
        jobs = [(f"sched-{uid}-n{n + 1}-rc0", uid, slot_at, slot_at, now) for _, uid, n, slot_at in due]
        connection.executemany(INSERT, jobs)
        connection.executemany(MOVE_ON, [(slot_at + HOUR, now, row_id) for row_id, _, _, slot_at in due])
        connection.executemany(COUNT, [(len(due) // KEYS, f"g{key}") for key in range(KEYS)])
        connection.execute("COMMIT")
        return len(due)


class RawLoading:
    """B2's limit: rows in batches of 1,000, or one by one, each durable."""

    version = sqlite3.sqlite_version

    def __init__(self, place: Place, count: int, at_once: int) -> None:
        self.place = place
        self.count = count
        self.at_once = at_once

    def check(self) -> dict[str, str]:
        return {}

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            self.connection = connect(path_in(self.place.fresh()))
        share = self.count // parts
        began = perf_counter()
        for _ in range(share // self.at_once):
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany(CREATE, [row() for _ in range(self.at_once)])
            self.connection.execute("COMMIT")
        return {"schedule": (perf_counter() - began, share)}
