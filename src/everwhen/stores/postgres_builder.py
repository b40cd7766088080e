"""Changing the schema on PostgreSQL: inside a transaction, under an advisory lock that every process takes."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from everwhen.errors import StoreError
from everwhen.stores.migrate import Applied, Migration, Step
from everwhen.stores.postgres_adapters import At

OLDEST = 150_000
BUILDING = 0x6576_0001  # a number that nobody else is likely to lock
_CREATE = """
CREATE TABLE IF NOT EXISTS everwhen_migrations (
  number integer NOT NULL,
  name text NOT NULL,
  step text NOT NULL CHECK (step IN ('before', 'after')),
  applied_at timestamptz NOT NULL,
  PRIMARY KEY (number, step)
)
"""
_RECORD = "INSERT INTO everwhen_migrations (number, name, step, applied_at) VALUES (%s, %s, %s, %s)"


class PostgresBuilder:
    """One transaction that may change the schema."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        connection.execute("SET LOCAL statement_timeout = 0")  # an index on a large table takes its time
        connection.execute("SET LOCAL lock_timeout = 0")
        connection.execute(f"SELECT pg_advisory_xact_lock({BUILDING})")

    def prepare(self) -> None:
        version = self._connection.info.server_version
        if version < OLDEST:
            raise StoreError(
                f"the server is PostgreSQL {version // 10_000}; everwhen needs {OLDEST // 10_000} or newer"
            )
        # Asked first: where it exists nobody needs the right to create tables.
        found = self._connection.execute("SELECT to_regclass('everwhen_migrations')").fetchone()
        if found is None or found[0] is None:
            self._connection.execute(_CREATE)

    def applied(self) -> Applied:
        return frozenset(self._connection.execute("SELECT number, step FROM everwhen_migrations").fetchall())

    def run(self, script: str) -> None:
        if script.strip():
            self._connection.execute(script.encode())

    def record(self, migration: Migration, step: Step, applied_at: int) -> None:
        self._connection.execute(_RECORD, (migration.number, migration.name, step, At(applied_at)))
