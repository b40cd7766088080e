"""The tap: it sits below sqlite3 and psycopg, and reports every statement of a thread before and after it runs."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from unittest import mock

import psycopg

Side = Literal["before", "after"]


class Boundary(NamedTuple):
    """One side of one statement; statements are counted from 0."""

    number: int
    side: Side
    statement: str
    connection: Any

    @property
    def is_commit(self) -> bool:
        return self.statement == "COMMIT"


Meet = Callable[[Boundary], None]
_thread = threading.local()


class _Tap:
    def __init__(self, meet: Meet) -> None:
        self._meet = meet
        self._count = 0

    def run(self, connection: Any, statement: str | bytes, run: Callable[[], Any]) -> Any:
        fields = statement.decode() if isinstance(statement, bytes) else str(statement)
        number, self._count = self._count, self._count + 1
        with untapped():
            self._meet(Boundary(number, "before", fields, connection))
        result = run()
        with untapped():
            self._meet(Boundary(number, "after", fields, connection))
        return result


@contextmanager
def tapped(
    meet: Meet, on_lock: Callable[[], None] = lambda: None, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Report the statements of this thread to `meet`, which may raise what the driver would raise.

    `on_lock` is called before the thread requests the lock of an SQLite file, `on_wait` when that lock is taken.
    """
    _thread.tap, _thread.on_lock, _thread.on_wait = _Tap(meet), on_lock, on_wait
    try:
        yield
    finally:
        _thread.tap = _thread.on_lock = _thread.on_wait = None


@contextmanager
def untapped() -> Iterator[None]:
    """Do not report statements that are executed at a boundary."""
    tap, _thread.tap = getattr(_thread, "tap", None), None
    try:
        yield
    finally:
        _thread.tap = tap


class _Connection(sqlite3.Connection):
    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return _pass(self, sql, lambda: super(_Connection, self).execute(sql, *values))  # type: ignore[no-any-return]

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        return _pass(self, sql, lambda: super(_Connection, self).executemany(sql, rows))  # type: ignore[no-any-return]


def _pass(connection: Any, statement: str | bytes, run: Callable[[], Any]) -> Any:
    tap = getattr(_thread, "tap", None)
    return run() if tap is None else tap.run(connection, statement, run)


def _flock(descriptor: int, operation: int) -> None:
    if getattr(_thread, "tap", None) is None:
        _take_lock(descriptor, operation)
        return
    if operation & fcntl.LOCK_EX:
        _thread.on_lock()
    try:
        _take_lock(descriptor, operation)
    except BlockingIOError:
        _thread.on_wait()
        raise


_take_lock = fcntl.flock


@contextmanager
def installed() -> Iterator[None]:
    """Install the tap below both drivers, for every connection that is opened from now on."""
    connect = sqlite3.connect
    executes = {kind: kind.execute for kind in (psycopg.Cursor, psycopg.ServerCursor)}

    def under(execute: Any) -> Any:
        def pass_on(self: Any, query: Any, *values: Any, **keys: Any) -> Any:
            return _pass(self.connection, query, lambda: execute(self, query, *values, **keys))

        return pass_on

    with (
        mock.patch.object(sqlite3, "connect", lambda *a, **k: connect(*a, factory=_Connection, **k)),
        mock.patch.object(fcntl, "flock", _flock),
        mock.patch.object(psycopg.Cursor, "execute", under(executes[psycopg.Cursor])),
        mock.patch.object(psycopg.ServerCursor, "execute", under(executes[psycopg.ServerCursor])),
    ):
        yield
