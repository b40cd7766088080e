"""One transaction as the flows see it: batched methods, each with its SQL, and no decisions.

`tick`, `claim`, `settle` and their neighbours define what happens. The methods are those of the modules `*_rows`, each
with the statements that both databases share; `store.sqlite.transaction` and `store.postgres.transaction` add what
differs. Every method takes a whole batch, because a round trip costs PostgreSQL as much as twenty rows.

Where transactions run concurrently, rows are locked in one order (described in `store.postgres.transaction`). So a flow
first *peeks*, without a lock, to learn which keys it will need, locks these, and only then locks the rows. Where
transactions exclude each other, as on SQLite, a peek returns nothing and costs nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from everwhen.clock import Clock
from everwhen.store.dialect import Statement
from everwhen.store.job_rows import JobReads, JobWrites
from everwhen.store.lanes import Lane
from everwhen.store.records import Due, Finished, JobLine, LockHint, Offer, ReadyQuery, Row
from everwhen.store.schedule_rows import ScheduleReads, ScheduleWrites
from everwhen.store.system_rows import LimitReads, LimitWrites, SystemReads, SystemWrites

if TYPE_CHECKING:
    from everwhen.model.schedule import Plan
    from everwhen.store.load import PlanCache

__all__ = [
    "Due",
    "Finished",
    "JobLine",
    "LockHint",
    "Offer",
    "ReadyQuery",
    "Row",
    "Snapshot",
    "Store",
    "Transaction",
]

T = TypeVar("T")


class Snapshot(ScheduleReads, JobReads, LimitReads, SystemReads):
    """The reads; inside a writing transaction they lock the rows that it may change."""

    plans: PlanCache  # of the process

    def load_plans(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Plan]:
        """Return the plans of revisions, by uid and number."""
        return self.plans.load(self, wanted)


class Transaction(Snapshot, ScheduleWrites, JobWrites, LimitWrites, SystemWrites):
    """The reads and writes of one transaction; its opener ends it."""

    _clock: Clock | None = None

    def latest(self, now: int) -> int:
        """Return the time at which this transaction holds the rows, or `now` where that is later.

        The caller read `now` before it waited for the rows. Where nodes use the database's clock, they read it once a
        second, so the clock may have been set forward since. Other nodes may have fired slots meanwhile: the time at
        which a schedule stopped must not be earlier than those slots, or it would remove them from the revision that
        they belong to.
        """
        return now if self._clock is None else max(now, self._clock.now())

    def expect_long_pauses(self) -> None:
        """Announce that many rows are processed between two statements, so that the node does not count as hung."""

    def lock_token(self, token_id: str) -> None:
        """Prevent other transactions from creating with this token until the end of this one."""

    def exclude_evaluations(self) -> None:
        """Block new ticks and claims until the end of this transaction, and wait for those under way."""

    def exclude_changes(self) -> None:
        """Block new changes of schedules until the end of this transaction, and wait for those under way."""

    @abstractmethod
    def announce_due(self, due_at: int) -> None:
        """Announce that a slot is due sooner than sleeping schedulers may expect."""

    @property
    @abstractmethod
    def is_sooner(self) -> bool:
        """Return whether a sooner slot was announced."""


class Store(Protocol):
    """A database that runs work in transactions.

    `is_exclusive`: one at a time, so that nothing is locked, and two flows may share one. `plans`: those that its
    transactions have read.
    """

    plans: PlanCache

    @property
    def is_exclusive(self) -> bool: ...

    def write(self, lane: Lane, work: Callable[[Transaction], T], *, is_change: bool = False) -> T:
        """Run the work, commit, and return its result; when it raises, roll back. The work may run more than once.

        `is_change`: it creates or changes schedules on request, and `exclude_changes` waits for it.
        """
        ...

    def read(self) -> AbstractContextManager[Snapshot]:
        """Open one snapshot for reading."""
        ...

    def look(self) -> AbstractContextManager[Snapshot]:
        """Open a read for a single method: cheaper than a snapshot where that costs round trips."""
        ...

    def earliest_due_at(self) -> int | None:
        """Return the earliest due slot or release, even while the system is paused; every idle evaluation calls it."""
        ...

    def nothing_due_before(self, instant: int) -> None:
        """Record that nothing is due before the instant: the next search need not begin at the first entry."""
        ...


class StorePart:
    """A part of a store: verbs about one subject, each of which is one transaction, or reads one snapshot."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _many(self, make: Callable[[Any], T], statement: Statement, **values: Any) -> list[T]:
        """Return what `make` makes of each row that a single statement finds."""
        with self._store.look() as tx:
            return tx.many(make, statement, **values)

    def _one(self, make: Callable[[Any], T], statement: Statement, **values: Any) -> T | None:
        """Return the same of the first row, or None."""
        with self._store.look() as tx:
            return tx.one(make, statement, **values)
