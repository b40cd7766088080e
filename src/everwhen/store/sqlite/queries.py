"""Statements on one connection of SQLite. A list of values is one parameter, in JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from everwhen.store.dialect import DuplicateError, Insert, Queries, Statement, storable
from everwhen.store.records import Row
from everwhen.store.sqlite.errors import is_refusal

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


# Inserts of rows with many empty columns, without binding the empty values.
#
# For every None and every bool the sqlite3 module looks up an adapter, which costs as much as binding four numbers; a
# firing would spend a sixth of its time on that. So these values are written into the statement, and consecutive rows
# with the same empty columns share one. Rows keep their order: it becomes the order of their ids.


_LITERALS = {None: "NULL", False: "0", True: "1"}  # 0 and 1 match too, because they equal False and True


class SparseInsert:
    """An INSERT into one table; `sparse` are columns that are often empty, or booleans: two or more."""

    def __init__(self, table: str, columns: Sequence[str], sparse: Sequence[str]) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._sparse = tuple(columns.index(name) for name in sparse)
        self._values: Callable[[Row], Row] = itemgetter(*self._sparse)
        self._statement = cache(self._make_statement)

    def runs(self, rows: Iterable[Row]) -> Iterator[tuple[str, Iterable[Row]]]:
        """Yield statements, each with the values of its rows, one run after the other."""
        for places, alike in groupby(rows, key=self._places):
            statement, bound = self._statement(places)
            yield statement, map(bound, alike)

    def _places(self, row: Row) -> tuple[str, ...]:
        return tuple(map(_LITERALS.get, self._values(row), repeat("?")))  # type: ignore[arg-type]

    def _make_statement(self, places: tuple[str, ...]) -> tuple[str, Callable[[Row], Row]]:
        values = ["?"] * len(self._columns)
        for position, place in zip(self._sparse, places, strict=True):
            values[position] = place
        bound = [position for position, place in enumerate(values) if place == "?"]
        names = ", ".join(f'"{name}"' for name in self._columns)
        return f"INSERT INTO {self._table} ({names}) VALUES ({', '.join(values)})", itemgetter(*bound)
