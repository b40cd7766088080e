"""Connections to an SQLite file: their settings, the free list of readers, and the detection of commits."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import quote

from everwhen.errors import StoreError, shown
from everwhen.store.sqlite.errors import translated

# Large enough for the statements of the whole store; with the module's default of 128 some would be compiled again.
_STATEMENTS = 512

_FOR_ALL = "PRAGMA foreign_keys = ON"

# The writer checkpoints itself (see sqlite_writer). The log keeps its length, up to 64 MB, to be overwritten. The
# cache holds what a tick batch touches. A larger one gained nothing measurable with a million schedules, nor did
# mapping the file into memory, which would count as the process's memory. FAST, where Debian compiles ON: freed pages
# are not written once more just to blank them.
_FOR_WRITER = (
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
    "PRAGMA mmap_size = 0",
    "PRAGMA secure_delete = FAST",
)
# Of a new file, or one that is rewritten (`store.sqlite.space`). On any other file this would be a write.
GIVES_SPACE_BACK = "PRAGMA auto_vacuum = INCREMENTAL"
_FOR_READER = ("PRAGMA query_only = ON", "PRAGMA cache_size = -4096", "PRAGMA mmap_size = 0")


def connect_writer(path: str, busy_timeout: float, *, create: bool) -> sqlite3.Connection:
    connection = _connect(path, "rwc" if create else "rw", busy_timeout, _FOR_WRITER)
    try:
        if create and connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute(GIVES_SPACE_BACK)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"the database {shown(path)} cannot keep a write-ahead log (it stays in mode {mode}); "
                "put it on a local disk"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str, busy_timeout: float) -> sqlite3.Connection:
    return _connect(path, "ro", busy_timeout, _FOR_READER)


def connect_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
    )
    connection.execute(_FOR_ALL)
    return connection


def _connect(
    path: str, mode: Literal["ro", "rw", "rwc"], busy_timeout: float, pragmas: Sequence[str]
) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=busy_timeout,
        isolation_level=None,  # the caller begins and ends transactions
        check_same_thread=False,  # passed from thread to thread, never used by two at once
        cached_statements=_STATEMENTS,
    )
    try:
        for pragma in (_FOR_ALL, *pragmas):
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


# Read-only connections to an SQLite file: a small free list.
#
# A reader sees one snapshot, taken with its first query, and takes none of the writer's locks. While it is
# open, the log cannot be emptied, so reads are short: rows are fetched before the block ends.


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
    def read(self, *, is_snapshot: bool = True) -> Iterator[sqlite3.Connection]:
        with translated(self._where):
            connection = self._taken()
            is_sound = False
            try:
                if is_snapshot:
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
            if self._is_closed:
                raise StoreError(f"the database {self._where} was closed; open it again to use it")
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


def _close(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()


# Detection of commits to an SQLite file by any process: how processes on one machine wake each other.
#
# `PRAGMA data_version` costs 4 µs. Reading the -shm file would cost less, but closing a descriptor of it
# drops the locks that SQLite holds there.


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
            _close(self._connection)
            self._connection = None
