"""The last job before which no other can appear any more, on PostgreSQL (L4).

Row ids are drawn before their transactions commit, so a larger one may be seen before a smaller one appears; and a job,
unlike an event, does not carry the number of its transaction, because every firing would pay for that column. (`xmin`
is no substitute: a claim and a settlement overwrite it.) Therefore the horizon is found in two steps. It notes the
largest row that it sees and draws a number of a transaction for itself. Whoever holds a smaller row that nobody sees
yet had a transaction before: a job is enqueued by those who have locked its schedule. When every transaction before
the noted one has ended, all rows up to the noted one are there, or never will be. Where nothing is open that is at
once, otherwise at one of the next looks.

The upper end of a snapshot would not do instead of a number of its own: it is the last transaction that has *ended*,
and others beyond it may be open.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from everwhen.stores.postgres_database import PostgresDatabase

# The primary key of jobs, one step from its end. The snapshot is taken before the number is drawn; where there is
# nothing new none is drawn.
_NOTE = """
SELECT newest, CASE WHEN newest > %s THEN pg_current_xact_id()::text::bigint END
FROM (SELECT coalesce(max(row_id), 0) AS newest FROM jobs) AS found"""
_OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class _Note(NamedTuple):
    """All rows up to this one are there as soon as every transaction before that one has ended."""

    row_id: int
    transaction: int


class Horizon:
    """Shared by the threads of one process; it only moves on."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._settled = 0
        self._noted: _Note | None = None
        self._first: int | None = None

    def row(self) -> int:
        """Up to here nothing can appear any more."""
        with self._lock:
            self._look()
            return self._settled

    def start(self) -> int:
        """Where somebody begins who begins now: at the horizon, or at what was there when it was first looked for."""
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
