"""Replacing the content of a PostgreSQL database by a backup, in one transaction: all of it, or nothing is changed.

All tables of everwhen are locked first, so that no node starts meanwhile; one that tries waits, and finds the
restored database. Where the backup has the same schema as the database, the tables are emptied and keep the
privileges granted on them; otherwise they are recreated with the schema of the backup, filled, and migrated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, sql

from everwhen.clock import Clock
from everwhen.runtime import Progress
from everwhen.store.backup_file import (
    BackupReader,
    BackupWriter,
    Header,
    TableRows,
    refusal,
    refuse_newer_backup,
    refuse_other_kind,
    usable_rows,
)
from everwhen.store.postgres.builder import PostgresBuilder
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.postgres.snapshot import PostgresSnapshot
from everwhen.store.postgres.transaction import PostgresTransaction
from everwhen.store.restore import BACKED_UP_AT, Restored, go_on_from_backup, numbers_skipped, refuse_beating
from everwhen.store.schema.migrate import Applied, Migration
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS
from everwhen.version import __version__

_LONGEST_WAIT = 86_400.0  # an index on millions of rows takes its time
_IDENTITIES = """
SELECT attrelid::regclass::text, attname FROM pg_attribute
WHERE attrelid = ANY(SELECT to_regclass(name) FROM unnest(%s::text[]) name) AND attidentity <> ''"""


def restore(
    url: str, path: Path, now: Callable[[], int] | None, *, catch_up: bool, progress: Progress
) -> Restored:
    """Replace the database by a backup; without `now`, the database's own time is used."""
    refuse_other_kind(path, is_postgres=True)
    database = PostgresDatabase(url, longest_wait=_LONGEST_WAIT)
    try:
        return database.transact(lambda c: _restore(c, path, now or _clock_of(c), catch_up, progress))
    finally:
        database.close()


def _clock_of(connection: Connection[Any]) -> Callable[[], int]:
    query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    return lambda: connection.execute(query).fetchall()[0][0]


def _restore(
    connection: Connection[Any], path: Path, now: Callable[[], int], catch_up: bool, progress: Progress
) -> Restored:
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    builder = PostgresBuilder(connection)
    builder.prepare()
    skipped = _lock_out_nodes(connection, now())
    with BackupReader(path) as reader:
        header = reader.header()
        refuse_newer_backup(header.applied, POSTGRES_MIGRATIONS, path)
        _empty_tables(connection, builder, header.applied, path)
        tables = set(own_tables(connection))
        for done, rows in enumerate(reader.tables()):
            progress(min(done / len(tables), 0.9))
            _fill(connection, rows, tables, path)
            tables.discard(rows.name)
    if tables:
        raise refusal(path, f"is damaged: it has no table {min(tables)}")
    with usable_rows(path, psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError):
        applied = builder.applied()
        for migration in POSTGRES_MIGRATIONS:
            if (migration.number, "before") not in applied:
                builder.run(migration.before)
                builder.record(migration, "before", now())
        _number_rows(connection)
        transaction = PostgresTransaction(connection)
        transaction.put_setting(BACKED_UP_AT, str(header.taken_at))
        restored = go_on_from_backup(transaction, now(), catch_up=catch_up, skipped=skipped)
    progress(1.0)
    return restored


def _lock_out_nodes(connection: Connection[Any], now: int) -> int:
    """Refuse while a node is alive; return how many numbers the database has skipped so far."""
    tables = own_tables(connection)
    names = sql.SQL(", ").join(map(sql.Identifier, tables))
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))
    if "nodes" in tables:
        refuse_beating(PostgresSnapshot(connection).nodes(), now)
    return numbers_skipped(PostgresSnapshot(connection)) if "settings" in tables else 0


def _empty_tables(
    connection: Connection[Any], builder: PostgresBuilder, applied: Applied, path: Path
) -> None:
    """Provide empty tables with the schema of the backup."""
    tables = own_tables(connection)
    if builder.applied() == applied:
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(map(sql.Identifier, tables))))
        return
    if max((number for number, _ in applied), default=0) > POSTGRES_MIGRATIONS[-1].number:
        what = "has the schema of a newer release, and the database has not; restore it with that release"
        raise refusal(path, what)
    for view in reversed(named("VIEW")):
        connection.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(view)))
    for table in tables:  # without CASCADE: objects of others that depend on them make it fail
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))
    builder.prepare()
    for migration in POSTGRES_MIGRATIONS:
        for step, script in (("before", migration.before), ("after", migration.after)):
            if (migration.number, step) in applied:
                builder.run(script)


def _fill(connection: Connection[Any], rows: TableRows, expected: set[str], path: Path) -> None:
    if rows.name not in expected or not set(rows.columns) <= set(columns_of(connection, rows.name)):
        raise refusal(path, f"does not fit: its table {rows.name} is another one")
    try:
        with connection.cursor().copy(copy_statement(rows.name, rows.columns, "FROM STDIN")) as copy:
            for piece in rows.pieces:
                copy.write(piece)
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
        raise refusal(path, f"is damaged: {rows.name}: {str(error).splitlines()[0]}") from error


def _number_rows(connection: Connection[Any]) -> None:
    """Continue the numbers of new rows behind the existing ones."""
    for table, column in connection.execute(_IDENTITIES, (own_tables(connection),)).fetchall():
        query = sql.SQL(
            "SELECT setval(pg_get_serial_sequence({}, {}), coalesce(max({}), 0) + 1, false) FROM {}"
        )
        column_name, table_name = sql.Identifier(column), sql.Identifier(table)
        connection.execute(query.format(sql.Literal(table), sql.Literal(column), column_name, table_name))


# A copy of a PostgreSQL database, written by the server's own COPY, from one snapshot: no external program is
# needed.
#
# The migrations define which tables belong to everwhen, and the database itself defines their columns: a new
# table or column is included without a change here. Generated columns are excluded, and so is `xid`: another
# cluster has other transactions, so a restored row gets the number of the transaction that restores it.


RECORD = "everwhen_migrations"
_CREATED = re.compile(r"^CREATE (TABLE|VIEW) (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)
_DROPPED = re.compile(r"^DROP (TABLE|VIEW) (?:IF EXISTS )?(\w+)", re.MULTILINE)
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    AND attgenerated = '' AND atttypid <> 'xid8'::regtype ORDER BY attnum"""


def back_up(database: PostgresDatabase, path: Path, progress: Progress, clock: Clock) -> None:
    """Write everything that one snapshot sees."""
    with database.snapshot() as connection:
        connection.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
        )
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


def named(kind: str, migrations: Sequence[Migration] = POSTGRES_MIGRATIONS) -> list[str]:
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
