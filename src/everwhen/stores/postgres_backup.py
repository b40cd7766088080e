"""A copy of a PostgreSQL database, written by the server's own COPY, from one snapshot: no external program is needed.

The migrations define which tables belong to everwhen, and the database itself defines their columns: a new table or
column is included without a change here. Generated columns are excluded, and so is `xid`: another cluster has other
transactions, so a restored row gets the number of the transaction that restores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from psycopg import Connection, sql

from everwhen.clock import Clock
from everwhen.runtime import Progress
from everwhen.stores.backup_file import BackupWriter, Header
from everwhen.stores.migrate import Migration
from everwhen.stores.migrations.postgres import MIGRATIONS
from everwhen.stores.postgres_database import PostgresDatabase
from everwhen.version import __version__

RECORD = "everwhen_migrations"
_CREATED = re.compile(r"^CREATE (TABLE|VIEW) (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)
_DROPPED = re.compile(r"^DROP (TABLE|VIEW) (?:IF EXISTS )?(\w+)", re.MULTILINE)
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    AND attgenerated = '' AND atttypid <> 'xid8'::regtype ORDER BY attnum"""


def back_up(database: PostgresDatabase, path: Path, progress: Progress, clock: Clock) -> None:
    """Write everything that one snapshot sees."""
    with database.snapshot() as connection:
        _copy(connection, path, progress, clock)


def _copy(connection: Connection[Any], path: Path, progress: Progress, clock: Clock) -> None:
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
    applied = frozenset(connection.execute(f"SELECT number, step FROM {RECORD}").fetchall())
    # The snapshot is as old as the first query: nothing in it was decided later than this.
    header = Header(clock.now(), __version__, applied)
    tables = own_tables(connection)
    with BackupWriter(path, header) as writer:
        for done, table in enumerate(tables):
            progress(done / len(tables))
            columns = columns_of(connection, table)
            writer.write_table(table, columns, _rows(connection, table, columns))
    progress(1.0)


def own_tables(connection: Connection[Any]) -> list[str]:
    """Return the existing tables of everwhen, as the migrations name them; the database may have others."""
    names = [RECORD, *named("TABLE")]
    found = connection.execute(
        "SELECT name FROM unnest(%s::text[]) name WHERE to_regclass(name) IS NOT NULL", (names,)
    )
    return [name for (name,) in found.fetchall()]


def named(kind: str, migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Return the tables, or the views, that migrations create and do not remove again."""
    names: dict[str, None] = {}
    for script in (script for migration in migrations for script in (migration.before, migration.after)):
        names |= dict.fromkeys(name for of, name in _CREATED.findall(script) if of == kind)
        for of, name in _DROPPED.findall(script):
            if of == kind:
                names.pop(name, None)
    return list(names)


def columns_of(connection: Connection[Any], table: str) -> list[str]:
    return [name for (name,) in connection.execute(_COLUMNS, (table,)).fetchall()]


def copy_statement(table: str, columns: Sequence[str], way: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) " + way).format(sql.Identifier(table), names)


def _rows(connection: Connection[Any], table: str, columns: Sequence[str]) -> Iterator[bytes]:
    with connection.cursor().copy(copy_statement(table, columns, "TO STDOUT")) as copy:
        for piece in copy:
            yield bytes(piece)
