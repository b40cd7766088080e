"""Connections to SQLite that nobody closes, named with the test that opened them, on every version of Python.

From 3.13 on Python itself warns of them, wherever the collector happens to run; which test opened one it cannot tell.
"""

import os
import sqlite3
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_connect = sqlite3.connect
_open: weakref.WeakSet[sqlite3.Connection] = weakref.WeakSet()
_tell: Callable[[str], None] | None = None


class WatchedConnection(sqlite3.Connection):
    """Warns when it is collected and was never closed; pytest makes an error of that."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._opened_in = os.environ.get("PYTEST_CURRENT_TEST", "no test")
        self._process = os.getpid()
        self._is_open = True
        super().__init__(*arguments, **options)
        self.set_trace_callback(_tell)
        _open.add(self)

    def close(self) -> None:
        self._is_open = False
        super().close()

    def __del__(self) -> None:
        if self._is_open and self._process == os.getpid():  # what a fork inherits is the parent's
            self.close()
            warnings.warn(
                f"a connection was never closed; it was opened in {self._opened_in}",
                ResourceWarning,
                stacklevel=2,
            )


def watch_connections() -> None:
    """From now on, whoever opens one in this process opens a watched one."""
    sqlite3.connect = _watched  # type: ignore[assignment]  # it has overloads


def _watched(database: Any, **options: Any) -> sqlite3.Connection:
    options.setdefault("factory", WatchedConnection)
    connection: sqlite3.Connection = _connect(database, **options)
    return connection


@contextmanager
def every_statement(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell each statement of this process, on the thread that executes it."""
    global _tell  # noqa: PLW0603
    _tell = tell
    _trace_all(tell)
    try:
        yield
    finally:
        _tell = None
        _trace_all(None)


def _trace_all(tell: Callable[[str], None] | None) -> None:
    for connection in list(_open):
        with suppress(sqlite3.ProgrammingError):  # it is closed, perhaps just now
            connection.set_trace_callback(tell)
