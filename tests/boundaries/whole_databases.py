"""What happens to a whole database, a restore and a copy: their statements, and one fault at each.

Both open the databases by themselves. Statements to databases in memory do not count: those hold the schema of this
release for a moment, and are lost with the process anyway.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from everwhen.errors import SchedulerError
from tests.boundaries.faults import Strike, cut_the_connection, fail_to_write
from tests.boundaries.tap import Boundary, Meet, Side, tapped

Where = tuple[int, Side]


def statements_of(work: Callable[[], object], look: Meet = lambda _boundary: None) -> list[Boundary]:
    """Do the work, and return both sides of each statement that went to a file or to a server; `look` gets each."""
    boundaries: list[Boundary] = []

    def note(boundary: Boundary) -> None:
        if is_stored(boundary.connection):
            boundaries.append(boundary._replace(connection=None))
            look(boundary)

    with tapped(note):
        work()
    return boundaries


def strike_once(work: Callable[[], object], where: Where, strike: Strike) -> SchedulerError | None:
    """Do the work with a fault at that boundary; return the error that it reports, if any."""
    has_struck = False

    def meet(boundary: Boundary) -> None:
        nonlocal has_struck
        if (boundary.number, boundary.side) == where:
            has_struck = True
            strike(boundary.connection)

    try:
        with tapped(meet):
            work()
    except SchedulerError as error:
        return error
    finally:
        assert has_struck
    return None


def fail(connection: Any) -> None:
    """Let a disk fail, or a connection to a server."""
    if isinstance(connection, sqlite3.Connection):
        fail_to_write(connection)
    cut_the_connection(connection)


def is_stored(connection: Any) -> bool:
    if not isinstance(connection, sqlite3.Connection):
        return True
    with suppress(sqlite3.ProgrammingError):  # it is closed
        return any(path for _, _, path in connection.execute("PRAGMA database_list"))
    return False
