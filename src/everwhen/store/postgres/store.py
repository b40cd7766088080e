"""The beginning and end of transactions on PostgreSQL; `store.postgres.transaction` describes what happens in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection

from everwhen.clock import Clock
from everwhen.store.lanes import Lane
from everwhen.store.postgres.adapters import At
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.postgres.snapshot import PostgresSnapshot
from everwhen.store.postgres.transaction import CHANGING, EVALUATING, PostgresTransaction
from everwhen.store.postgres.watermark import Marks
from everwhen.store.transaction import Snapshot, Transaction

T = TypeVar("T")

# One round trip for both: later reads see what the system switch has committed.
_BEGIN_EVALUATION = f"BEGIN; SELECT pg_advisory_xact_lock_shared({EVALUATING})"
_BEGIN = {Lane.TICK: _BEGIN_EVALUATION, Lane.CLAIM: _BEGIN_EVALUATION}
_BEGIN_CHANGE = f"BEGIN; SELECT pg_advisory_xact_lock_shared({CHANGING})"


# idx_schedules_next_run, idx_schedules_release: one step into each, as for NEXT_DUE.
_EARLIEST_DUE = """
(SELECT next_run_at FROM schedules WHERE enabled AND next_run_at >= %s ORDER BY next_run_at LIMIT 1)
UNION ALL
(SELECT release_at FROM schedules WHERE release_at IS NOT NULL ORDER BY release_at LIMIT 1)"""


class PostgresStore:
    """Transactions on one PostgreSQL database.

    `skew` is how far this node's clock is from the database's. `has_time`: the nodes use the database's time,
    otherwise `clock`.
    """

    is_exclusive = False  # the keys of a claim would be locked after the schedules of a settlement

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        skew: Callable[[], int] = lambda: 0,
        has_time: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._database = database
        self._skew = skew
        self._has_time = has_time
        self._clock = clock
        self._marks = Marks()

    def write(self, lane: Lane, work: Callable[[Transaction], T], *, is_change: bool = False) -> T:
        def transact(connection: Connection[Any]) -> T:
            transaction = PostgresTransaction(
                connection, self._marks, self._skew, self._has_time, self._clock
            )
            result = work(transaction)
            transaction.announce()
            return result

        begin = _BEGIN_CHANGE if is_change else _BEGIN.get(lane, "BEGIN")
        return self._database.transact(transact, begin=begin)

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        with self._database.snapshot() as connection:
            yield PostgresSnapshot(connection, self._marks)

    @contextmanager
    def look(self) -> Iterator[Snapshot]:
        with self._database.connection() as connection:
            yield PostgresSnapshot(connection, self._marks)

    def earliest_due_at(self) -> int | None:
        with self._marks.due.search() as look:
            rows = self._database.ask(_EARLIEST_DUE, At(look.at))
            look.found = min([row[0] for row in rows], default=None)
        return look.found

    def nothing_due_before(self, instant: int) -> None:
        self._marks.due.raise_to(instant)
