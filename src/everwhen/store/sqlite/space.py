"""The free pages of an SQLite file: given back to the file system in small turns, or all at once.

A new database keeps the pointers (`auto_vacuum=incremental`) with which its last pages can be moved to free places, a
few at a time. A file that an earlier release made has none, and gets them when `vacuum` rewrites it as a whole. Some
free pages are always kept: what is deleted in one hour is written again in the next.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from everwhen.errors import StoreError, shown
from everwhen.store.load import PlanCache
from everwhen.store.restore import refuse_beating
from everwhen.store.sqlite.database import SqliteDatabase
from everwhen.store.sqlite.transaction import SqliteSnapshot

KEPT_PAGES, KEPT_SHARE = 256, 16  # a megabyte, or a sixteenth of the file
_INCREMENTAL = 2


class Vacuumed(NamedTuple):
    """The size of a file before it was rewritten and after it, and whether it could give space back before."""

    bytes_before: int
    bytes_after: int
    was_incremental: bool


def give_back(connection: sqlite3.Connection, most: int) -> int:
    """Give up to `most` free pages back, in a transaction; return how many more there are to give."""
    if _number(connection, "auto_vacuum") != _INCREMENTAL:
        return 0
    spare = _number(connection, "freelist_count")
    spare -= max(KEPT_PAGES, _number(connection, "page_count") // KEPT_SHARE)
    if spare <= 0:
        return 0
    for _ in range(min(spare, most)):
        # A page at a time: the pragma gives a row without columns for each, and Python's module stops at the first.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return max(spare - most, 0)


def vacuum(database: SqliteDatabase, path: str, now: Callable[[], int]) -> Vacuumed:
    """Rewrite the file without its free pages; refuse while a node may use it, or where there is no room.

    Every write waits until it is done, and one that waits too long fails. A process that is killed in the middle leaves
    the file as it was.
    """
    before = Path(path).stat().st_size
    was_incremental = False

    def check(connection: sqlite3.Connection) -> None:
        nonlocal was_incremental
        refuse_beating(SqliteSnapshot(connection, PlanCache()).nodes(), now())
        _refuse_full_disk(connection, path)
        was_incremental = _number(connection, "auto_vacuum") == _INCREMENTAL

    after = database.rewrite(check)
    return Vacuumed(before, after, was_incremental)


def _refuse_full_disk(connection: sqlite3.Connection, path: str) -> None:
    """Refuse where the new file would not fit: SQLite writes it to a temporary file, and then to the log."""
    pages = _number(connection, "page_count") - _number(connection, "freelist_count")
    needed = pages * _number(connection, "page_size")
    places = [Path(path).parent, _temporary_directory()]
    is_one = places[0].stat().st_dev == places[1].stat().st_dev
    for place in places:
        free, wanted = shutil.disk_usage(place).free, 2 * needed if is_one else needed
        if free < wanted:
            raise StoreError(
                f"rewriting the database needs {wanted:,} bytes in {shown(str(place))}, and {free:,} are free there; "
                "make room"
            )


def _temporary_directory() -> Path:
    """Return where SQLite puts its temporary files: by these variables, in this order."""
    named = (os.environ.get(name) for name in ("SQLITE_TMPDIR", "TMPDIR"))
    usual = ("/var/tmp", "/usr/tmp", "/tmp")
    for name in (*named, *usual):
        if name and Path(name).is_dir() and os.access(name, os.W_OK | os.X_OK):
            return Path(name)
    return Path(tempfile.gettempdir())


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
