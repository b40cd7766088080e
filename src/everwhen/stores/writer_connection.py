"""The connection of the writer, and its storage: a file with its lock and its log, or memory.

It owns opening, reopening after damage, and closing. `sqlite_writer` decides when to write or to checkpoint.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from everwhen.errors import StoreError, shown
from everwhen.stores.file_lock import FileLock
from everwhen.stores.private_files import make_private
from everwhen.stores.sqlite_connection import connect_memory, connect_writer
from everwhen.stores.sqlite_errors import translated
from everwhen.stores.wal_gauge import WalGauge


class WriterConnection(Protocol):
    """The connection as the writer uses it; all but `lock`, `wait_at_most` and `close` need the lock."""

    where: str

    @property
    def lock(self) -> AbstractContextManager[None]: ...
    def wait_at_most(self, seconds: float) -> None: ...
    def get(self) -> sqlite3.Connection: ...
    def discard(self) -> None: ...
    def log_outgrows(self, size: int) -> bool: ...
    def fold_log(self) -> None: ...
    def close(self) -> None: ...


class FileConnection:
    """A writing connection to a file, reopened after an error that broke it."""

    def __init__(self, path: str, *, busy_timeout: float) -> None:
        self.where = shown(path)
        self._path = path
        self._busy_timeout = busy_timeout
        self._patience = self._told = busy_timeout  # as wanted, and as set on the connection
        self._gauge = WalGauge(path)
        make_private(path)
        self.lock = FileLock(path + ".lock", timeout=busy_timeout, beside=path)
        try:
            with self.lock, translated(self.where):
                self._connection: sqlite3.Connection | None = connect_writer(path, busy_timeout, create=True)
                self._identity = _identity(path)  # under the lock: no restore can replace the file
        except BaseException:
            self.lock.close()
            raise

    def wait_at_most(self, seconds: float) -> None:
        """Set how long the next turn waits for a lock on the file; never longer than the busy timeout."""
        self._patience = self.lock.timeout = min(seconds, self._busy_timeout)

    def get(self) -> sqlite3.Connection:
        self._refuse_moved_file()
        if self._connection is None:
            self._connection = connect_writer(self._path, self._busy_timeout, create=False)
            self._told = self._busy_timeout
        if self._told != self._patience:
            self._connection.execute(f"PRAGMA busy_timeout = {round(self._patience * 1_000)}")
            self._told = self._patience
        return self._connection

    def discard(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        self._gauge.close()

    def log_outgrows(self, size: int) -> bool:
        return self._gauge.outgrows(size)

    def fold_log(self) -> None:
        _, frames, _ = self.get().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._gauge.fold_seen(frames)

    def close(self) -> None:
        # Under the lock, because the last connection to close checkpoints once more and deletes the log. Where the
        # lock cannot be obtained, another process is working; SQLite leaves the log alone while that one is
        # connected.
        with suppress(StoreError), self.lock:
            self._empty_log()
            self.discard()
        self.discard()
        self.lock.close()

    def _empty_log(self) -> None:
        if self._connection is None:
            return
        with suppress(sqlite3.Error):  # another process reads it: the last one to close will empty it
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _refuse_moved_file(self) -> None:
        # SQLite would continue to write to a file that no longer has a name, and every commit would be lost.
        if _identity(self._path) != self._identity:
            raise StoreError(
                f"the database {self.where} was deleted, moved or replaced while it was open; "
                "put it back, or restart every process that uses it"
            )


class MemoryConnection:
    """A database inside its connection, which is therefore kept whatever error occurs.

    No other connection can reach the data: it ends with `close`, or with the last reference to this object.
    """

    def __init__(self) -> None:
        self.where = "in memory"
        self.lock = nullcontext()
        self._connection = connect_memory()
        weakref.finalize(self, self._connection.close)

    def wait_at_most(self, seconds: float) -> None:
        pass

    def get(self) -> sqlite3.Connection:
        return self._connection

    def discard(self) -> None:
        pass

    def log_outgrows(self, size: int) -> bool:
        return False

    def fold_log(self) -> None:
        pass

    def close(self) -> None:
        self._connection.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - called at every write; Path.stat costs twice as much
    except OSError:
        return None
    return status.st_dev, status.st_ino
