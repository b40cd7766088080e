"""Detection of commits to an SQLite file by any process: how processes on one machine wake each other.

`PRAGMA data_version` costs 4 µs. Reading the -shm file would cost less, but closing a descriptor of it drops the
locks that SQLite holds there.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress

from everwhen.errors import StoreError, shown
from everwhen.stores.sqlite_connection import connect_reader
from everwhen.stores.sqlite_errors import translated


class ChangeCounter:
    """A number that changes with the commits of all other connections; its own never commits."""

    def __init__(self, path: str, *, busy_timeout: float) -> None:
        self._path = path
        self._where = shown(path)
        self._busy_timeout = busy_timeout
        self._guard = threading.Lock()
        self._is_closed = False
        self._connection: sqlite3.Connection | None = None
        self._opened = 0

    def value(self) -> int:
        with self._guard, translated(self._where):
            if self._is_closed:
                raise StoreError(f"the database {self._where} was closed; open it again to use it")
            connection = self._connection or self._connect()
            try:
                (version,) = connection.execute("PRAGMA data_version").fetchone()
            except BaseException:
                self._drop()
                raise
            # Versions count from the opening of a connection; a later connection must not repeat the numbers.
            return (self._opened << 32) + int(version)

    def renew(self) -> None:
        """Read the next value with a new connection."""
        with self._guard:
            self._drop()

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
            self._drop()

    def _connect(self) -> sqlite3.Connection:
        self._connection = connect_reader(self._path, self._busy_timeout)
        self._opened += 1
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
