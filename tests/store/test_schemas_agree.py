"""The two databases have the same tables and columns, but for what only one of them needs."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg

from everwhen.store.schema.postgres import MIGRATIONS as POSTGRES
from everwhen.store.schema.sqlite import MIGRATIONS as SQLITE

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
