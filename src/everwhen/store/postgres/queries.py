"""Statements on one connection of PostgreSQL: instants as timestamptz, lists and columns of a batch as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from psycopg import Connection, errors

from everwhen.store.dialect import DuplicateError, Insert, Queries, Statement, storable
from everwhen.store.postgres import adapters
from everwhen.store.postgres.adapters import At, Instants, Integers, Texts, columns_of
from everwhen.store.records import Row

_PORTION = 2_000
_CONVERT: dict[str, Callable[[Any], object]] = {
    "text": storable,
    "instant": At,
    "texts": lambda values: Texts(list(values)),
    "instants": lambda values: Instants(list(values)),
    "integers": lambda values: Integers(list(values)),
}


class PostgresQueries(Queries):
    """The statements of one connection, inside a transaction or not."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._cursor = connection.cursor(binary=True)

    def rows(self, statement: Statement, **values: Any) -> list[Any]:
        return self._cursor.execute(statement.postgres, _converted(statement, values)).fetchall()

    def stream(self, statement: Statement) -> Iterable[Any]:
        with self._cursor.connection.cursor("everwhen_stream", binary=True) as cursor:
            cursor.itersize = _PORTION
            yield from cursor.execute(statement.postgres)

    def run(self, statement: Statement, **values: Any) -> int:
        return self._cursor.execute(statement.postgres, _converted(statement, values)).rowcount

    def insert(self, insert: Insert, rows: Sequence[Row]) -> int:
        if not rows:
            return 0
        query, values = adapters.insert(insert.table, insert.columns, rows)
        return self._cursor.execute(f"{query}{insert.on_conflict}".encode(), values).rowcount

    def insert_unique(self, insert: Insert, rows: Sequence[Row]) -> None:
        try:
            self.insert(insert, rows)
        except errors.UniqueViolation as error:
            raise DuplicateError from error

    def update(self, table: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        query, values = adapters.update(table, columns, rows)
        self._cursor.execute(query.encode(), values)

    def expect_long_statements(self) -> None:
        self._cursor.execute("SET LOCAL statement_timeout = 0")


def _converted(statement: Statement, values: dict[str, Any]) -> dict[str, Any]:
    if statement.columns:
        columns = columns_of(statement.columns, values["batch"])
        values |= {f"each_{name}": column for name, column in zip(statement.columns, columns, strict=True)}
    for name, kind in statement.kinds:
        if values[name] is not None:
            values[name] = _CONVERT[kind](values[name])
    return values
