"""A copy of an SQLite database while it is in use.

The copy is made from one snapshot, which stays open until the end. Later commits of others go to the log: the copy
does not include them and does not restart because of them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from everwhen.clock import Clock
from everwhen.runtime import Progress
from everwhen.stores.flows.restore import BACKED_UP_AT
from everwhen.stores.sqlite_database import SqliteDatabase
from everwhen.stores.sqlite_move import mark_in

_PAGES = 1_000  # 4 MB between two reports
_WRITING = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR_WRITE: errno.EIO}


_MARK = """
INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"""


def back_up(database: SqliteDatabase, path: Path, progress: Progress, clock: Clock) -> None:
    """Copy one snapshot into an empty or new file, and record there when it was taken: after everything in it."""
    with database.read() as connection:
        _copy(connection, path, progress, clock)


def _copy(source: sqlite3.Connection, path: Path, progress: Progress, clock: Clock) -> None:
    source.execute(
        "SELECT count(*) FROM sqlite_master"
    ).fetchone()  # the snapshot begins with the first query
    taken_at = clock.now()  # afterwards: nothing in the copy was decided later

    def report(_status: int, remaining: int, total: int) -> None:
        progress(1.0 - remaining / total if total else 1.0)

    with _room_in(path), closing(sqlite3.connect(path)) as target:
        source.backup(target, pages=_PAGES, progress=report, sleep=0)
        target.execute("PRAGMA journal_mode = DELETE")  # so that the copy is one file
        if mark_in(target) is None:  # a moved database refuses writes
            target.execute(_MARK, (BACKED_UP_AT, str(taken_at)))
            target.commit()


@contextmanager
def _room_in(path: Path) -> Iterator[None]:
    """Translate errors of writing: only the copy is written to, so the copy is what they are about."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = _WRITING.get(error.sqlite_errorcode)
        if reason is None:
            raise
        raise OSError(reason, os.strerror(reason), str(path)) from error
