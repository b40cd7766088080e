"""The last job before which no other can appear any more, on PostgreSQL (L4).

Row ids are assigned before their transactions commit, so a larger one may become visible before a smaller one. Unlike
an event, a job does not contain the number of its transaction, because every firing would pay for that column.
(`xmin` cannot replace it: a claim and a settlement overwrite it.) Therefore the horizon is found in two steps. It
records the largest visible row and obtains a transaction number for itself. A transaction with a smaller row that is
not visible yet had its number earlier: only a transaction that has locked the schedule enqueues a job. When every
transaction before the recorded one has ended, all rows up to the recorded one are visible, or never will be. Where no
transaction is open that is at once, otherwise at one of the next calls.

The upper end of a snapshot cannot replace the number of its own: it is the last transaction that has *ended*, and
others beyond it may be open.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from everwhen.store.postgres.database import PostgresDatabase

# The primary key of jobs, one step from its end. The snapshot is taken before the number is assigned; where there is
# nothing new none is assigned.
_NOTE = """
SELECT newest, CASE WHEN newest > %s THEN pg_current_xact_id()::text::bigint END
FROM (SELECT coalesce(max(row_id), 0) AS newest FROM jobs) AS found"""
_OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class _Note(NamedTuple):
    """A row, all rows before which are visible as soon as every transaction before the recorded one has ended."""

    row_id: int
    transaction: int


class Horizon:
    """The horizon, shared by the threads of one process; it only moves forward."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._settled = 0
        self._noted: _Note | None = None
        self._first: int | None = None

    def row(self) -> int:
        """Return the row up to which nothing can appear any more."""
        with self._lock:
            self._look()
            return self._settled

    def start(self) -> int:
        """Return where a new reader begins: at the horizon, or at the newest row when it was first determined."""
        with self._lock:
            self._look()
            return max(self._settled, self._first or 0)

    def _look(self) -> None:
        if self._noted is None:
            self._note()
        if self._noted is None:
            return
        ((oldest_open,),) = self._database.ask(_OLDEST_OPEN)
        if oldest_open >= self._noted.transaction:
            self._settled, self._noted = self._noted.row_id, None

    def _note(self) -> None:
        ((newest, transaction),) = self._database.ask(_NOTE, self._settled)
        if self._first is None:
            self._first = newest
        if transaction is not None:
            self._noted = _Note(newest, transaction)
