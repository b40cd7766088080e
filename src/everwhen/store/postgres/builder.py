"""Changes of the schema on PostgreSQL: inside a transaction, under an advisory lock that every process takes.

Nodes of the previous release keep running meanwhile, and lock tables in an order of their own. A script that locked
one table after another would deadlock with them, repeatedly where they are busy. So all tables of a script are locked
before its first statement, with a short wait. When one is not free in time, all are released, the nodes continue, and
the transaction begins again.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import Connection, errors, sql

from everwhen.errors import StoreError
from everwhen.store.postgres.adapters import At
from everwhen.store.schema.migrate import Applied, Migration, Step

OLDEST = 150_000
BUILDING = 0x6576_0001  # a number that no other program is likely to lock
_CREATE = """
CREATE TABLE IF NOT EXISTS everwhen_migrations (
  number integer NOT NULL,
  name text NOT NULL,
  step text NOT NULL CHECK (step IN ('before', 'after')),
  applied_at timestamptz NOT NULL,
  PRIMARY KEY (number, step)
)
"""
_TABLE_WAIT = "300ms"  # below deadlock_timeout, so that the change of the schema gives way
_CHANGED = re.compile(
    r"\b(?:ALTER TABLE(?: ONLY)?|DROP TABLE(?: IF EXISTS)?|UPDATE|DELETE FROM|INSERT INTO"
    r"|(?:INDEX|TRIGGER)\b[^;]*?\bON)\s+(\w+)",
    re.IGNORECASE,
)
_EXISTING = """
SELECT name FROM unnest(%s::text[]) AS name JOIN pg_class ON oid = to_regclass(name) AND relkind = 'r' ORDER BY name
"""
_RECORD = "INSERT INTO everwhen_migrations (number, name, step, applied_at) VALUES (%s, %s, %s, %s)"


class TablesInUseError(Exception):
    """Other transactions used a table that the script changes; nothing was changed, and it may begin again."""


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
        # Checked first: where it exists, this user need not have the right to create tables.
        found = self._connection.execute("SELECT to_regclass('everwhen_migrations')").fetchone()
        if found is None or found[0] is None:
            self._connection.execute(_CREATE)

    def applied(self) -> Applied:
        return frozenset(self._connection.execute("SELECT number, step FROM everwhen_migrations").fetchall())

    def run(self, script: str) -> None:
        if script.strip():
            self._lock_tables(script)
            self._connection.execute(script.encode())

    def _lock_tables(self, script: str) -> None:
        """Lock the tables that the script changes and that exist already, all of them or none."""
        named = sorted(set(_CHANGED.findall(script)))
        found = self._connection.execute(_EXISTING, (named,)).fetchall()
        if not found:
            return
        tables = sql.SQL(", ").join(sql.Identifier(name) for (name,) in found)
        try:
            self._connection.execute(f"SET LOCAL lock_timeout = '{_TABLE_WAIT}'".encode())
            self._connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(tables))
        except errors.LockNotAvailable as error:
            raise TablesInUseError from error
        self._connection.execute("SET LOCAL lock_timeout = 0")

    def record(self, migration: Migration, step: Step, applied_at: int) -> None:
        self._connection.execute(_RECORD, (migration.number, migration.name, step, At(applied_at)))
