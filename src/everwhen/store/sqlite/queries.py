"""Statements on one connection of SQLite. A list of values is one parameter, in JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from everwhen.store.dialect import DuplicateError, Insert, Queries, Statement, storable
from everwhen.store.records import Row
from everwhen.store.sqlite.errors import is_refusal
from everwhen.store.sqlite.insert import SparseInsert

_encode = json.JSONEncoder(ensure_ascii=False).encode


class SqliteQueries(Queries):
    """The statements of one turn of the writer, or of a reader."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._execute_many = connection.executemany

    def rows(self, statement: Statement, **values: Any) -> list[Any]:
        return self._run(statement, values).fetchall()

    def stream(self, statement: Statement) -> Iterable[Any]:
        return self._execute(statement.sqlite)

    def run(self, statement: Statement, **values: Any) -> int:
        return self._run(statement, values).rowcount

    def insert(self, insert: Insert, rows: Sequence[Row]) -> int:
        if not insert.sparse:
            return self._execute_many(_insert(insert), rows).rowcount
        runs = _sparse(insert).runs(rows)
        return sum(self._execute_many(statement, values).rowcount for statement, values in runs)

    def insert_unique(self, insert: Insert, rows: Sequence[Row]) -> None:
        try:
            self.insert(insert, rows)
        except sqlite3.IntegrityError as error:
            if is_refusal(error):
                raise
            raise DuplicateError from error

    def update(self, table: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self._execute_many(update_of(table, columns), rows)

    def _run(self, statement: Statement, values: dict[str, Any]) -> sqlite3.Cursor:
        for name in statement.lists:
            if values[name] is not None:
                values[name] = _json_of(values[name])
        return self._execute(statement.sqlite, values)

    def expect_long_statements(self) -> None:
        return None


def _json_of(values: Collection[Any]) -> str:
    """Return values, or rows of values, as JSON; SQLite would end a text at a NUL, so it is replaced."""
    text = _encode(list(values))
    return text if "\\u0000" not in text else _encode([_without_nul(value) for value in values])


def _without_nul(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_nul(one) for one in value]
    return storable(value) if isinstance(value, str) else value


@cache
def _sparse(insert: Insert) -> SparseInsert:
    return SparseInsert(insert.table, insert.columns, insert.sparse)


@cache
def _insert(insert: Insert) -> str:
    names, places = ", ".join(f'"{name}"' for name in insert.columns), ", ".join("?" * len(insert.columns))
    return f"INSERT INTO {insert.table} ({names}) VALUES ({places}){insert.on_conflict}"


@cache
def update_of(table: str, columns: tuple[str, ...]) -> str:
    """Return the update of some columns of a row, by its primary key."""
    changes = ", ".join(f'"{name}" = ?' for name in columns)
    return f"UPDATE {table} SET {changes} WHERE row_id = ?"
