"""A table to write to, for tests of the database that knows no schedules."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from everwhen.store.lanes import Lane
from everwhen.store.sqlite.database import SqliteDatabase

PATIENCE_SECONDS = 60.0


def a_database(path: Path | str | None, *, busy_timeout: float = 10.0) -> SqliteDatabase:
    database = SqliteDatabase(None if path is None else str(path), busy_timeout=busy_timeout)
    database.write(Lane.API, create_notes)
    return database


def create_notes(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, body BLOB UNIQUE)")


def noting(body: str | bytes) -> Callable[[sqlite3.Connection], None]:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes (body) VALUES (?)", (body,))

    return work


def note(database: SqliteDatabase, body: str | bytes, lane: Lane = Lane.API) -> None:
    database.write(lane, noting(body))


def bodies(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT body FROM notes ORDER BY id")]


def noted(database: SqliteDatabase) -> list[str]:
    with database.read() as connection:
        return bodies(connection)


def until(condition: Callable[[], bool]) -> None:
    """Gives way to the other threads until the condition holds: it will, or something is broken."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        os.sched_yield()
