"""Plain queries for the upkeep of a PostgreSQL database, and its backup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg import Connection

from everwhen.clock import Clock
from everwhen.runtime import Progress
from everwhen.stores.postgres_adapters import At, Integers, Texts
from everwhen.stores.postgres_backup import back_up
from everwhen.stores.postgres_database import PostgresDatabase
from everwhen.stores.upkeep import Queries

_PLACE = re.compile(r":([a-z]+)\b")
_RETAIN_FROM = """
INSERT INTO settings (key, value) VALUES ('retained_from', %s) ON CONFLICT (key)
DO UPDATE SET value = excluded.value WHERE settings.value::bigint < excluded.value::bigint"""


class PostgresMaintenance:
    """The maintenance of one PostgreSQL database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    @contextmanager
    def reading(self) -> Iterator[Queries]:
        with self._database.snapshot() as connection:
            yield PostgresQueries(connection)

    def deleting(self, work: Callable[[Queries], None]) -> None:
        self._database.transact(lambda connection: work(PostgresQueries(connection)))

    def backup(self, path: Path, progress: Progress, clock: Clock) -> None:
        with self._database.snapshot() as connection:
            back_up(connection, path, progress, clock)


class PostgresQueries:
    def __init__(self, connection: Connection[Any]) -> None:
        self._cursor = connection.cursor(binary=True)

    def rows(self, query: str, values: Mapping[str, object]) -> list[Any]:
        given = {name: At(value) if name == "before" else value for name, value in values.items()}  # type: ignore[call-overload]
        return self._cursor.execute(_PLACE.sub(r"%(\1)s", query).encode(), given).fetchall()

    def count(self, table: str, column: str, keys: Sequence[object]) -> int:
        query = f"SELECT count(*) FROM {table} WHERE {column} = ANY(%s)"
        found: int = self._cursor.execute(query.encode(), (_column(keys),)).fetchall()[0][0]
        return found

    def delete(self, table: str, column: str, keys: Sequence[object]) -> None:
        self._cursor.execute(f"DELETE FROM {table} WHERE {column} = ANY(%s)".encode(), (_column(keys),))

    def retain_from(self, instant: int) -> None:
        self._cursor.execute(_RETAIN_FROM, (str(instant),))


def _column(keys: Sequence[object]) -> Integers | Texts:
    return Integers(keys) if isinstance(keys[0], int) else Texts(keys)
