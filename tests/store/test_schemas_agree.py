"""The two databases have the same tables and columns, but for what only one of them needs."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing

import psycopg
import pytest

from everwhen.store.schema.migrate import Migration
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS as POSTGRES
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS as SQLITE

# The order of commits: SQLite has one writer.
ONLY_POSTGRES = {("audit_events", "xid"), ("messages", "xid")}


def on_sqlite() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in SQLITE:
            connection.executescript(migration.before)
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {
            (table, row[1])
            for (table,) in tables
            for row in connection.execute(f"PRAGMA table_xinfo({table})")
        }


def on_postgres(url: str) -> set[tuple[str, str]]:
    with psycopg.connect(url) as connection:
        for migration in POSTGRES:
            connection.execute(migration.before.encode())
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        ).fetchall()
    return {(str(table), str(column)) for table, column in rows}


def test_a_column_of_one_database_is_one_of_the_other(postgres_url: str) -> None:
    assert on_postgres(postgres_url) - on_sqlite() == ONLY_POSTGRES
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    assert on_sqlite() - on_postgres(postgres_url) == set()


@pytest.mark.parametrize(
    ("migration", "digest"),
    [
        (SQLITE[0], "b70060842dc480fa6846c889cc1dde52d184f8f19cbb0169d3046a608a12d53c"),
        (POSTGRES[0], "40d32d97575635a4e67a4cfa920392495c169a4d42c8801afe96936f0d6c04cd"),
    ],
    ids=["sqlite", "postgres"],
)
def test_a_released_migration_stays_as_it_is_to_the_letter(migration: Migration, digest: str) -> None:
    assert hashlib.sha256(migration.before.encode()).hexdigest() == digest
