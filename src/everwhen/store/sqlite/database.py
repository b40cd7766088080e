"""An SQLite database as a store uses it: write in a lane, read a snapshot, detect changes.

It does not depend on schedules. `store.sqlite.writer` describes how writes are ordered and what survives a crash; this
module owns the address (`sqlite:///…`), the choice between file and memory, and the rule for its use: by threads of
the process that opened it, and not after a fork.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from everwhen.errors import StoreError, shown, shown_url
from everwhen.store.lanes import Lane
from everwhen.store.schema.migrate import Applied, Builder, Migration, Step, statements
from everwhen.store.sqlite.connection import ChangeCounter, SqliteReaders
from everwhen.store.sqlite.files import refuse_network_file_system
from everwhen.store.sqlite.writer import FileConnection, MemoryConnection, SqliteWriter

__all__ = ["Lane", "SqliteDatabase", "open_sqlite"]


T = TypeVar("T")


def open_sqlite(url: str) -> SqliteDatabase:
    """Open the database that a URL names; StoreError for any other kind of URL.

    `sqlite:///relative.db`, `sqlite:////absolute.db`; `sqlite://` is in memory.
    """
    return SqliteDatabase(path_of(url))


def path_of(url: str) -> str | None:
    """Return the file that a URL names, None for memory.

    >>> path_of("sqlite:///everwhen.db"), path_of("sqlite:////srv/everwhen.db"), path_of("sqlite://")
    ('everwhen.db', '/srv/everwhen.db', None)
    """
    scheme, separator, rest = url.partition("://")
    if scheme != "sqlite" or not separator:
        kind = f"of kind “{shown(scheme)}”" if separator else f"“{shown_url(url)}”"
        raise StoreError(
            f"a database URL {kind} does not name an SQLite file; write sqlite:///FILE, "
            "or postgresql://USER:PASSWORD@HOST/DATABASE for PostgreSQL"
        )
    if not rest:
        return None
    path = rest.removeprefix("/")
    if path == rest:
        raise StoreError(f"the database URL “{shown(url)}” lacks a slash; write sqlite:///{shown(rest)}")
    if path in ("", ":memory:"):
        raise StoreError(
            f"the database URL “{shown(url)}” does not name a file; write sqlite:///FILE, or sqlite:// for memory"
        )
    if not path.isprintable() or "?" in path:
        raise StoreError(
            f"the database URL “{shown(url)}” takes no options; write sqlite:///FILE and nothing more"
        )
    return path


class SqliteDatabase:
    """One database, for all threads of one process; without `path` it is in memory, and reads and writes take turns."""

    def __init__(self, path: str | None, *, busy_timeout: float = 10.0) -> None:
        self._process = os.getpid()
        self._readers: SqliteReaders | None = None
        self._counter: ChangeCounter | None = None
        if path is None:
            self._writer = SqliteWriter(MemoryConnection())
            return
        resolved = usable(path)
        self._writer = SqliteWriter(
            FileConnection(resolved, busy_timeout=busy_timeout), on_read_only=self._renew
        )
        self._readers = SqliteReaders(resolved, busy_timeout=busy_timeout)
        self._counter = ChangeCounter(resolved, busy_timeout=busy_timeout)

    @property
    def queue_length(self) -> int:
        """Return how many writes wait for their turn at this moment."""
        return self._writer.queue_length

    @property
    def checkpoint_error(self) -> StoreError | None:
        """Return why the last checkpoint failed, until one succeeds: writes continue, and the log grows."""
        return self._writer.checkpoint_error

    def write(self, lane: Lane, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run the work in a transaction, and return its result once it is on disk; when it raises, roll back.

        Blocks until its turn. SQLite's errors become StoreError, except IntegrityError. The work must not end the
        transaction, and must not ask for another turn.
        """
        self._refuse_other_process()
        return self._writer.write(lane, work)

    def build(self, work: Callable[[Builder], T]) -> T:
        """Run the work in a turn that may change the schema."""
        return self.write(Lane.API, lambda connection: work(SqliteBuilder(connection)))

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a read-only connection with one snapshot, taken by the first query; it never delays the writer.

        Fetch the rows inside the block: a cursor that outlives it keeps its snapshot, and the log grows.
        """
        return self._reader(is_snapshot=True)

    def look(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open the same for a single query, which has its snapshot by itself: it spares BEGIN and ROLLBACK."""
        return self._reader(is_snapshot=False)

    def _reader(self, *, is_snapshot: bool) -> AbstractContextManager[sqlite3.Connection]:
        self._refuse_other_process()
        if self._readers is None:
            return self._writer.look()
        return self._readers.read(is_snapshot=is_snapshot)

    def change_counter(self) -> int:
        """Return a number that changes when any process has committed; it may also change without a commit."""
        self._refuse_other_process()
        return self._writer.commits if self._counter is None else self._counter.value()

    def rewrite(self, check: Callable[[sqlite3.Connection], None]) -> int:
        """Rewrite the file without its free pages, if `check` does not raise; return its size."""
        self._refuse_other_process()
        return self._writer.rewrite(check)

    def fold(self) -> None:
        """Checkpoint if the log is large enough: for an idle moment, so that no write has to."""
        self._refuse_other_process()
        self._writer.fold()

    def close(self) -> None:
        """Wait for the pending writes, then close; may be called twice. A forked child closes nothing."""
        if os.getpid() != self._process:
            return
        for reading in (self._readers, self._counter):
            if reading is not None:
                reading.close()
        self._writer.close()

    def _renew(self) -> None:
        """Reopen every connection.

        All connections of a process share the log's index. One that was opened while the index was read-only keeps it
        read-only for the writer, too.
        """
        for reading in (self._readers, self._counter):
            if reading is not None:
                reading.renew()

    def _refuse_other_process(self) -> None:
        # Even Python's own locks in here may be held by a thread that the child does not have.
        if os.getpid() != self._process:
            raise StoreError(
                f"this database was opened by process {self._process}, before a fork; "
                "open it again in the new process (open_sqlite), as SQLite connections do not survive a fork"
            )


def usable(path: str) -> str:
    """Return the resolved file; raise StoreError where no database can be."""
    # Resolved, so that two names of one file share a lock, and a change of directory has no effect.
    resolved = Path(os.path.realpath(path))
    name = shown(str(resolved))
    try:
        if not resolved.parent.is_dir():
            raise StoreError(
                f"the directory of the database {name} does not exist; create it, or name another file"
            )
        if resolved.is_dir():
            raise StoreError(f"the database {name} is a directory; name a file")
    except OSError as error:
        raise StoreError(
            f"the database {name} cannot be reached ({error.strerror}); give this user access"
        ) from error
    refuse_network_file_system(str(resolved))
    return str(resolved)


# Changing the schema on SQLite, inside a turn of the writer.


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
