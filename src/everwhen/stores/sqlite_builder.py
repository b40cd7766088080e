"""Changing the schema on SQLite, inside a turn of the writer."""

from __future__ import annotations

import sqlite3

from everwhen.stores.migrate import Applied, Migration, Step, statements

_CREATE = """
CREATE TABLE IF NOT EXISTS everwhen_migrations (
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('before', 'after')),
  applied_at INTEGER NOT NULL,
  PRIMARY KEY (number, step)
) WITHOUT ROWID
"""
_RECORD = "INSERT INTO everwhen_migrations (number, name, step, applied_at) VALUES (?, ?, ?, ?)"


class SqliteBuilder:
    """One transaction that may change the schema."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def prepare(self) -> None:
        self._connection.execute(_CREATE)

    def applied(self) -> Applied:
        return frozenset(self._connection.execute("SELECT number, step FROM everwhen_migrations").fetchall())

    def run(self, script: str) -> None:
        for statement in statements(script):
            self._connection.execute(statement)

    def record(self, migration: Migration, step: Step, applied_at: int) -> None:
        self._connection.execute(_RECORD, (migration.number, migration.name, step, applied_at))
