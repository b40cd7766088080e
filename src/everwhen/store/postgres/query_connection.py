"""A connection of the pool that is kept for single queries.

The pool lends its connections in turn. Each is a process of its own in the server, and one that has slept for a few
rounds answers in twice the time of one that has just answered: with ten of them an idle scheduler would wake them
all. A thread that finds the kept connection in use takes another one. The connection goes back from time to time, so
that the pool can renew it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from psycopg import Connection, Cursor
from psycopg_pool import ConnectionPool

KEPT = 60.0  # seconds


class QueryConnection:
    """Queries to one database, from any thread."""

    def __init__(
        self,
        pool: ConnectionPool[Any],
        take: Callable[[], Connection[Any]],
        give_back: Callable[[Connection[Any]], None],
    ) -> None:
        self._pool = pool
        self._take = take
        self._give_back = give_back
        self._lock = threading.Lock()
        self._cursor: Cursor[Any] | None = None
        self._kept_since = 0.0

    def ask(self, query: bytes, values: tuple[object, ...]) -> list[Any]:
        if not self._lock.acquire(blocking=False):
            connection = self._take()
            try:
                return connection.execute(query, values, binary=True).fetchall()
            finally:
                self._give_back(connection)
        try:
            if self._cursor is None:
                self._cursor = self._take().cursor(binary=True)
                self._kept_since = time.monotonic()
            return self._cursor.execute(query, values).fetchall()
        finally:
            is_old = time.monotonic() - self._kept_since > KEPT
            if is_old or self._pool.closed or (self._cursor is not None and self._cursor.connection.broken):
                self._let_go()
            self._lock.release()

    def close(self) -> None:
        """Return the kept connection before the pool is closed. A query under way returns its connection itself."""
        if self._lock.acquire(blocking=False):
            self._let_go()
            self._lock.release()

    def _let_go(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            self._give_back(cursor.connection)
