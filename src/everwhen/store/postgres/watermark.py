"""Bounds that a process knows: before which instants nothing is due or ready, and up to which job none can appear.

An index keeps the entries of changed rows until they are vacuumed, which may take hours while an old snapshot is
open: a search for the earliest next_run_at from the very front then passes hundreds of thousands of them. With a
lower bound the search starts behind them. The bound follows the evaluations at a distance. A write of this process
below the bound lowers it again. Rows that others may have written there (a commit that took longer, a clock that was
set back) are found by a search without bound, every few seconds.

The index on the jobs' ready_at is similar, with one difference: a job may be ready for hours and wait for capacity.
So its bound follows only the first job that is ready at all, as the search without bound finds it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from everwhen.model.instants import SECOND
from everwhen.store.dialect import EARLIEST
from everwhen.store.postgres.database import PostgresDatabase

DISTANCE = 5 * SECOND  # a new row may be due a second before it was written, and its commit may take a while
LOOK_WITHOUT_BOUND = 10.0  # seconds
_PAUSE = 0.01  # seconds between two looks of a reader that waits


@dataclass(slots=True)
class Look:
    """One search: its lower bound, and what it found."""

    at: int
    found: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.at == EARLIEST


class Watermark:
    """A lower bound, shared by the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = EARLIEST
        self._looked: float | None = None

    @property
    def at(self) -> int:
        return self._at

    @contextmanager
    def search(self) -> Iterator[Look]:
        """Run a search for the earliest; every few seconds one without bound, which may lower the mark."""
        started = time.monotonic()
        is_whole = self._looked is None or started - self._looked >= LOOK_WITHOUT_BOUND
        look = Look(EARLIEST if is_whole else self._at)
        yield look
        if is_whole:
            self._looked = started
            self.lower(() if look.found is None else (look.found,))

    def raise_to(self, instant: int) -> None:
        """Raise the bound: nothing is due before that instant."""
        with self._lock:
            self._at = max(self._at, instant - DISTANCE)

    def lower(self, instants: Iterable[int | None]) -> None:
        """Lower the bound: something may be due at these instants."""
        earliest = min((at for at in instants if at is not None), default=None)
        if earliest is not None and earliest < self._at:
            with self._lock:
                self._at = min(self._at, earliest)


class Marks:
    """The lower bounds of the searches of one process."""

    __slots__ = ("due", "ready")

    def __init__(self) -> None:
        self.due = Watermark()
        self.ready = Watermark()


# The last job before which no other can appear any more, on PostgreSQL.
#
# Row ids are assigned before their transactions commit, so a larger one may become visible before a smaller one. Unlike
# an event, a job does not contain the number of its transaction, because every firing would pay for that column.
# (`xmin` cannot replace it: a claim and a settlement overwrite it.) Therefore the horizon is found in two steps. It
# records the largest visible row and obtains a transaction number for itself. A transaction with a smaller row that is
# not visible yet had its number earlier: only a transaction that has locked the schedule enqueues a job. When every
# transaction before the recorded one has ended, all rows up to the recorded one are visible, or never will be. Where no
# transaction is open that is at once, otherwise at one of the next calls.
#
# The upper end of a snapshot cannot replace the number of its own: it is the last transaction that has *ended*, and
# others beyond it may be open.


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

    def start(self, patience: float = 0.0) -> int:
        """Return where a new reader begins: at the horizon, or at the newest row when it was first determined.

        Behind that row others may still appear, and such a reader misses them. So one that must not waits up to
        `patience` seconds for the transactions that are open: one that fires takes milliseconds.
        """
        deadline = time.monotonic() + patience
        while True:
            with self._lock:
                self._look()
                newest = self._first or 0
                if self._settled >= newest or time.monotonic() >= deadline:
                    return max(self._settled, newest)
            time.sleep(_PAUSE)

    def _look(self) -> None:
        if self._noted is None:
            ((newest, transaction),) = self._database.ask(_NOTE, self._settled)
            self._first = newest if self._first is None else self._first
            if transaction is None:
                return
            self._noted = _Note(newest, transaction)
        ((oldest_open,),) = self._database.ask(_OLDEST_OPEN)
        if oldest_open >= self._noted.transaction:
            self._settled, self._noted = self._noted.row_id, None
