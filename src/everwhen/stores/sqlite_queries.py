"""Statements on one connection of SQLite. A list of values is one parameter, in JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from everwhen.stores.dialect import Statement
from everwhen.stores.queries import Queries, Row


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

    def run_batch(self, statement: Statement, rows: Sequence[Row], **values: Any) -> int:
        return self._run(statement, {**values, "batch": json.dumps(rows)}).rowcount

    def _run(self, statement: Statement, values: dict[str, Any]) -> sqlite3.Cursor:
        for name in statement.lists:
            if values[name] is not None:
                values[name] = json.dumps(list(values[name]))
        return self._execute(statement.sqlite, values)

    def expect_long_statements(self) -> None:
        return None
