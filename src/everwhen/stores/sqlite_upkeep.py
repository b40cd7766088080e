"""Plain queries for the upkeep of an SQLite file, and its backup."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everwhen.ports.clock import Clock
from everwhen.ports.upkeep import Progress
from everwhen.stores.sqlite_database import Lane, SqliteDatabase
from everwhen.stores.upkeep import Queries

_RETAIN_FROM = """
INSERT INTO settings (key, value) VALUES ('retained_from', :instant) ON CONFLICT (key)
DO UPDATE SET value = excluded.value WHERE CAST(settings.value AS INTEGER) < :instant"""


class SqliteMaintenance:
    """The maintenance of one SQLite database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    @contextmanager
    def reading(self) -> Iterator[Queries]:
        with self._database.read() as connection:
            yield SqliteQueries(connection)

    def deleting(self, work: Callable[[Queries], None]) -> None:
        self._database.write(Lane.RETENTION, lambda connection: work(SqliteQueries(connection)))

    def backup(self, path: Path, progress: Progress, clock: Clock) -> None:
        from everwhen.stores.sqlite_backup import back_up  # commands that only read ask here for nodes

        with self._database.read() as connection:
            back_up(connection, path, progress, clock)


class SqliteQueries:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def rows(self, query: str, values: Mapping[str, object]) -> list[Any]:
        return self._execute(query, values).fetchall()

    def count(self, table: str, column: str, keys: Sequence[object]) -> int:
        found: int = self._execute(f"SELECT count(*) FROM {_of(table, column, keys)}", keys).fetchone()[0]
        return found

    def delete(self, table: str, column: str, keys: Sequence[object]) -> None:
        self._execute(f"DELETE FROM {_of(table, column, keys)}", keys)

    def retain_from(self, instant: int) -> None:
        self._execute(_RETAIN_FROM, {"instant": instant})


def _of(table: str, column: str, keys: Sequence[object]) -> str:
    return f"{table} WHERE {column} IN ({', '.join('?' * len(keys))})"
