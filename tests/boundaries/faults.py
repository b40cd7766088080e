"""The faults that can happen at a boundary, raised as the driver would raise them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors

from tests.boundaries.tap import Boundary, Side

Strike = Callable[[Any], None]


class Died(BaseException):
    """The process is dead: nothing that it does reaches the database any more."""


class Blow:
    """One fault at one boundary; `commits` counts the commits up to then."""

    def __init__(self, number: int, side: Side, strike: Strike) -> None:
        self._at = (number, side)
        self._strike = strike
        self.commits = 0
        self.has_struck = False

    def __call__(self, boundary: Boundary) -> None:
        if boundary.side == "after" and boundary.is_commit:
            self.commits += 1
        if not self.has_struck and (boundary.number, boundary.side) == self._at:
            self.has_struck = True
            self._strike(boundary.connection)


class Death(Blow):
    """From that boundary on every statement of the process fails; its connections are closed."""

    def __init__(self, number: int, side: Side) -> None:
        super().__init__(number, side, die)

    def __call__(self, boundary: Boundary) -> None:
        if self.has_struck:
            die(boundary.connection)
        super().__call__(boundary)


def die(connection: Any) -> None:
    connection.pgconn.finish()
    raise Died


# -- SQLite --


def fill_the_disk(connection: sqlite3.Connection) -> None:
    """Fail as on a full disk; SQLite rolls the transaction back by itself."""
    connection.rollback()
    raise _sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full")


def keep_it_locked(_connection: sqlite3.Connection) -> None:
    raise _sqlite_error(sqlite3.SQLITE_BUSY, "database is locked")


def fail_to_write(connection: sqlite3.Connection) -> None:
    connection.rollback()
    raise _sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error")


def _sqlite_error(code: int, message: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


# -- PostgreSQL --


def cut_the_connection(connection: psycopg.Connection[Any]) -> None:
    """Cut the connection; the server rolls back what was open when it notices."""
    connection.pgconn.finish()
    raise psycopg.OperationalError("the connection is lost")


def refuse(state: str) -> Strike:
    """Return a fault in which the server answers the statement with this error."""

    def strike(connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '{state}'; END $$")

    return strike


SERIALIZATION = errors.SerializationFailure.sqlstate or ""
DEADLOCK = errors.DeadlockDetected.sqlstate or ""
DISK_FULL = errors.DiskFull.sqlstate or ""
