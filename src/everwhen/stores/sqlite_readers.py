"""Read-only connections to an SQLite file: a small free list.

A reader sees one snapshot, taken with its first query, and takes none of the writer's locks. While it is open, the
log cannot be emptied, so reads are short: rows are fetched before the block ends.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from everwhen.errors import StoreError, shown
from everwhen.stores.sqlite_connection import connect_reader
from everwhen.stores.sqlite_errors import translated

# Opening costs 80 µs and a cold statement cache; an idle connection costs its page cache, up to 4 MB.
MOST_IDLE = 4


class SqliteReaders:
    """A pool that lends read connections, each to one thread at a time, and opens more when all are lent."""

    def __init__(self, path: str, *, busy_timeout: float) -> None:
        self._path = path
        self._where = shown(path)
        self._busy_timeout = busy_timeout
        self._idle: list[sqlite3.Connection] = []
        self._lent: set[sqlite3.Connection] = set()
        self._outdated: set[sqlite3.Connection] = set()
        self._guard = threading.Lock()
        self._is_closed = False

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        with translated(self._where):
            connection = self._taken()
            is_sound = False
            try:
                connection.execute("BEGIN")
                yield connection
                is_sound = True
            finally:
                self._give_back(connection, is_sound=is_sound)

    def renew(self) -> None:
        """Give later readers new connections; lent ones close when they are returned."""
        with self._guard:
            self._outdated |= self._lent
            while self._idle:
                _close(self._idle.pop())

    def close(self) -> None:
        """Close idle connections; lent ones close when they are returned."""
        with self._guard:
            self._is_closed = True
            while self._idle:
                _close(self._idle.pop())

    def _taken(self) -> sqlite3.Connection:
        with self._guard:
            self._refuse_closed()
            connection = self._idle.pop() if self._idle else None
            if connection is not None:
                self._lent.add(connection)
                return connection
        connection = connect_reader(self._path, self._busy_timeout)
        with self._guard:
            self._lent.add(connection)
        return connection

    def _give_back(self, connection: sqlite3.Connection, *, is_sound: bool) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            is_sound = False
        with self._guard:
            self._lent.discard(connection)
            is_sound = is_sound and connection not in self._outdated
            self._outdated.discard(connection)
            if is_sound and not self._is_closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        _close(connection)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreError(f"the database {self._where} was closed; open it again to use it")


def _close(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()
