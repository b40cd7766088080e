"""Opening connections to an SQLite file, and their settings. It decides nothing about their use."""

from __future__ import annotations

import os
import sqlite3
from typing import Literal
from urllib.parse import quote

from everwhen.errors import StoreError, shown

# Large enough for the statements of the whole store; with the module's default of 128 some would be compiled again.
_STATEMENTS = 512

_FOR_ALL = ("PRAGMA foreign_keys = ON",)

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
_FOR_READER = ("PRAGMA query_only = ON", "PRAGMA cache_size = -4096", "PRAGMA mmap_size = 0")


def connect_writer(path: str, busy_timeout: float, *, create: bool) -> sqlite3.Connection:
    connection = _connect(path, "rwc" if create else "rw", busy_timeout)
    try:
        _set(connection, *_FOR_ALL, *_FOR_WRITER)
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
    connection = _connect(path, "ro", busy_timeout)
    try:
        _set(connection, *_FOR_ALL, *_FOR_READER)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
    )
    _set(connection, *_FOR_ALL)
    return connection


def _connect(path: str, mode: Literal["ro", "rw", "rwc"], busy_timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=busy_timeout,
        isolation_level=None,  # the caller begins and ends transactions
        check_same_thread=False,  # passed from thread to thread, never used by two at once
        cached_statements=_STATEMENTS,
    )


def _set(connection: sqlite3.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(pragma)
