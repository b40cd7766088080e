"""The source side of a move from SQLite to another database: its mark, the lock on its tables, and its rows.

The mark is the setting `moved`, in JSON. Together with it every table of everwhen gets triggers that refuse any
change, with a message that names the new address. So a process that opened the file before the move (an API without a
loop, a worker of a queue, a node that was frozen) cannot write either: it would fire slots that the target fires too.
Only the mark itself may change.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from everwhen.clock import Clock
from everwhen.errors import CopyError, shown
from everwhen.model.instants import SECOND
from everwhen.model.vitals import Move
from everwhen.runtime import Progress
from everwhen.store.schema.migrate import migrate
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS
from everwhen.store.sqlite.database import Lane, SqliteDatabase

T = TypeVar("T")

MARK = "moved"
# Not copied: the target has its own schema. The instants at which its steps were applied are copied.
LEFT_BEHIND = {
    "everwhen_migrations": "the target was migrated by itself; the instants of its steps are set",
    "job_tokens": "they are good while the run that has them goes on, and no run goes on over a move",
    "requests": "a program writes them inside its own transaction, which it has on PostgreSQL only",
}
_PREFIX = "everwhen_moved_"
_PORTION = 500

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_PUT_SETTING = """
INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
_BEATING = """
SELECT node, ? - heartbeat_at FROM nodes
WHERE stopped_at IS NULL AND abs(? - heartbeat_at) < ? ORDER BY heartbeat_at DESC LIMIT 1"""


class SourceSchema(NamedTuple):
    """The tables to copy, when each step of a migration was applied, and tables of other programs."""

    tables: Sequence[SqliteTable]
    migrated: Mapping[tuple[int, str], int]
    foreign: Sequence[str]


class SqliteMove:
    """The database to move away from. Each method is one transaction under the lock of its writers."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def move(self) -> Move | None:
        """Return the mark; None where the database was never moved."""
        with self._database.read() as connection:
            return mark_in(connection)

    def begin_move(self, move: Move, *, now: int, silent: int) -> None:
        """Mark the database and close it for every other writer.

        Raises CopyError while a node is alive: one that has not signed off and whose last heartbeat is younger than
        `silent`.
        """

        def work(connection: sqlite3.Connection) -> None:
            _refuse_beating(connection, now, silent)
            _open_tables(connection)
            _put_mark(connection, move)
            _close_tables(connection, move.to)

        self._database.write(Lane.API, work)

    def hand_over(self, move: Move, deliver: Callable[[SourceSchema], T]) -> T:
        """Call `deliver` with the tables while no other process can write; then mark the database as moved."""

        def work(connection: sqlite3.Connection) -> T:
            found = mark_in(connection)
            if found is None or found.copy_id != move.copy_id:
                raise CopyError("another process changed the mark of this database meanwhile; try again")
            result = deliver(_schema(connection))
            _put_mark(connection, move)
            return result

        return self._database.write(Lane.API, work)

    def forget_move(self) -> None:
        """Remove the mark and open the database for writers again."""

        def work(connection: sqlite3.Connection) -> None:
            _open_tables(connection)
            connection.execute("DELETE FROM settings WHERE key = ?", (MARK,))

        self._database.write(Lane.API, work)


@dataclass(slots=True)
class SqliteTable:
    """One table, read on the writer's own connection."""

    connection: sqlite3.Connection
    name: str
    columns: Sequence[str]
    key: Sequence[str]
    count: int

    def rows(self) -> Generator[tuple[Any, ...], None, None]:
        """Yield every row; texts come as their bytes."""
        names = ", ".join(map(_quoted, self.columns))
        query = f"SELECT {names} FROM {_quoted(self.name)} {_without_mark(self.name)}"
        # A text may be invalid UTF-8; only the code that encodes it can name its row.
        self.connection.text_factory = bytes
        try:
            cursor = self.connection.execute(query)
            while portion := cursor.fetchmany(_PORTION):
                yield from portion
        finally:
            self.connection.text_factory = str

    def last_number(self) -> int:
        """Return the highest number that the table ever gave to a row, as far as the database remembers it."""
        known = self.connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"
        ).fetchone()
        if known is None:
            return 0
        found = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (self.name,))
        return max((int(number) for (number,) in found), default=0)


def own_tables() -> list[str]:
    """List the tables that the migrations of this release create."""
    with _new_schema() as connection:
        return _tables(connection)


def own_parts() -> dict[str, str]:
    """Return the statement of each table and view that the migrations of this release create, by its name."""
    with _new_schema() as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view')"))


@contextmanager
def _new_schema() -> Iterator[sqlite3.Connection]:
    database = SqliteDatabase(None)
    try:
        migrate(database, SQLITE_MIGRATIONS, applied_at=0)
        with database.read() as connection:
            yield connection
    finally:
        database.close()


def mark_in(connection: sqlite3.Connection) -> Move | None:
    found = connection.execute("SELECT value FROM settings WHERE key = ?", (MARK,)).fetchone()
    return None if found is None else Move(**json.loads(found[0]))


def _put_mark(connection: sqlite3.Connection, move: Move) -> None:
    connection.execute(_PUT_SETTING, (MARK, json.dumps(move._asdict())))


def _refuse_beating(connection: sqlite3.Connection, now: int, silent: int) -> None:
    found = connection.execute(_BEATING, (now, now, silent)).fetchone()
    if found is not None:
        node, age = found
        raise CopyError(
            f"the node {shown(node)} is running (its last heartbeat is {abs(age) // SECOND}s old); stop every process "
            f"on this database first. A node that was killed counts as running for {silent // SECOND}s"
        )


def _schema(connection: sqlite3.Connection) -> SourceSchema:
    own = own_tables()
    present = _tables(connection)
    tables = [_table(connection, name) for name in own if name not in LEFT_BEHIND]
    steps = connection.execute("SELECT number, step, applied_at FROM everwhen_migrations").fetchall()
    foreign = sorted(set(present) - set(own))
    return SourceSchema(tables, {(number, step): at for number, step, at in steps}, foreign)


def _table(connection: sqlite3.Connection, name: str) -> SqliteTable:
    # hidden: 2 and 3 are generated columns, which the target computes itself
    rows = connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
    columns = [row[1] for row in rows if row[6] == 0]
    key = [row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5]]
    counted = connection.execute(f"SELECT count(*) FROM {_quoted(name)} {_without_mark(name)}")
    return SqliteTable(connection, name, columns, key, counted.fetchone()[0])


def _without_mark(table: str) -> str:
    return f"WHERE key <> '{MARK}'" if table == "settings" else ""


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute(_TABLES)]


# -- the lock on the tables --


def _close_tables(connection: sqlite3.Connection, to: str) -> None:
    message = f"nothing may be written here any more, because `everwhen db copy` moves this database to {to}"
    literal = "'" + message.replace("'", "''") + "'"
    for table in set(own_tables()) & set(_tables(connection)):
        for verb, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            condition = f"WHEN {row}.key <> '{MARK}'" if table == "settings" else ""
            connection.execute(
                f"CREATE TRIGGER {_quoted(f'{_PREFIX}{table}_{verb.lower()}')} BEFORE {verb} ON {_quoted(table)} "
                f"{condition} BEGIN SELECT RAISE(ABORT, {literal}); END"
            )


def _open_tables(connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in rows:
        if name.startswith(_PREFIX):
            connection.execute(f"DROP TRIGGER {_quoted(name)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# A copy of an SQLite database while it is in use.
#
# The copy is made from one snapshot, which stays open until the end. Later commits of others go to the log:
# the copy does not include them and does not restart because of them.


_PAGES = 1_000  # 4 MB between two reports
_WRITING = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR_WRITE: errno.EIO}


def back_up(database: SqliteDatabase, path: Path, progress: Progress, clock: Clock) -> None:
    """Copy one snapshot into an empty or new file, and record there when it was taken: after everything in it."""
    # Imported here: commands that only read ask this module whether the file was moved.
    from everwhen.store.restore import BACKED_UP_AT

    def report(_status: int, remaining: int, total: int) -> None:
        progress(1.0 - remaining / total if total else 1.0)

    with database.read() as source, _write_errors_of(path), closing(sqlite3.connect(path)) as target:
        source.execute(
            "SELECT count(*) FROM sqlite_master"
        ).fetchone()  # the snapshot begins with the first query
        taken_at = clock.now()  # afterwards: nothing in the copy was decided later
        source.backup(target, pages=_PAGES, progress=report, sleep=0)
        target.execute("PRAGMA journal_mode = DELETE")  # so that the copy is one file
        if mark_in(target) is None:  # a moved database refuses writes
            target.execute(_PUT_SETTING, (BACKED_UP_AT, str(taken_at)))
            target.commit()


@contextmanager
def _write_errors_of(path: Path) -> Iterator[None]:
    """Translate errors of writing: only the copy is written to, so the copy is what they are about."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = _WRITING.get(error.sqlite_errorcode)
        if reason is None:
            raise
        raise OSError(reason, os.strerror(reason), str(path)) from error
