"""A copy of an SQLite database while it is in use.

The copy is made from one snapshot, held open for as long as it takes: what others commit meanwhile goes to the
log, and the copy neither sees it nor begins anew because of it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from everwhen.ports.upkeep import Progress

_PAGES = 1_000  # 4 MB between two reports


def back_up(source: sqlite3.Connection, path: Path, progress: Progress) -> None:
    """Copy the snapshot of a reading connection into a file that is empty or not there."""
    source.execute(
        "SELECT count(*) FROM sqlite_master"
    ).fetchone()  # the snapshot begins with the first query

    def report(_status: int, remaining: int, total: int) -> None:
        progress(1.0 - remaining / total if total else 1.0)

    with closing(sqlite3.connect(path)) as target:
        source.backup(target, pages=_PAGES, progress=report, sleep=0)
