"""The database's clock, as the nodes of a cluster read it.

Many schedulers must agree on what is due, so `now` is the clock of the database that they share. A query for every
evaluation would double the cost of an idle one. So the clock is queried once a second, between two readings of this
host's monotonic clock, which advances the time in between: the error is at most a round trip, and within a second no
quartz drifts by as much. A difference smaller than that error is ignored, so the time never jitters back. A step of
the database's clock is seen within the second, and `engine.watches` records it. While the database does not
answer, the monotonic clock alone advances the time. One thread queries; the others continue meanwhile, because a
database that does not respond may block it for seconds.

The time is never ahead of the database's, except for up to a second after that clock was set back. Otherwise a node
would fire slots before they are due, and a pause, which the database dates, could lie before a slot that has fired. So
the answer counts as given at the end of the round trip. After a slow one the database is asked again: the answer may
be as old as the round trip is long.

`skew` is how far this host's own clock is from the database's; nodes record it with their heartbeat.
"""

from __future__ import annotations

import threading

from everwhen.clock import Clock
from everwhen.errors import StoreError
from everwhen.store.postgres.database import PostgresDatabase

FRESH = 1.0  # seconds
SLOW = 50_000  # microseconds: a longer round trip says too little
MOST_QUESTIONS = 3


class DatabaseClock:
    """Instants from the database's clock, seconds from this host's."""

    def __init__(self, database: PostgresDatabase, host: Clock) -> None:
        self._database = database
        self._host = host
        self._lock = threading.Lock()
        self._offset: int | None = None  # of the database's clock from this host's monotonic one
        self._asked = 0.0

    def now(self) -> int:
        if self._is_stale:
            self._refresh()
        assert self._offset is not None
        return self._offset + _micros(self._host.monotonic())

    def monotonic(self) -> float:
        return self._host.monotonic()

    def skew(self) -> int:
        """Return the microseconds that this host's clock is ahead of the database's."""
        return self._host.now() - self.now()

    @property
    def _is_stale(self) -> bool:
        return self._offset is None or self._host.monotonic() - self._asked >= FRESH

    def _refresh(self) -> None:
        if not self._lock.acquire(blocking=self._offset is None):
            return  # another thread is querying
        try:
            if self._is_stale:
                self._ask()
        except StoreError:  # a caller that needs the database gets the error; the time continues
            if self._offset is None:
                raise
            self._asked = self._host.monotonic()
        finally:
            self._lock.release()

    def _ask(self) -> None:
        for _ in range(MOST_QUESTIONS):
            least, most = self._bounds()
            if self._offset is not None and least <= self._offset <= most:
                return
            if most - least <= SLOW:
                break
        self._offset = least

    def _bounds(self) -> tuple[int, int]:
        """Ask the database, and return between which offsets the true one lies."""
        with self._database.connection(is_question=True) as connection:
            before = self._host.monotonic()
            row = connection.cursor(binary=True).execute("SELECT clock_timestamp()").fetchone()
            self._asked = after = self._host.monotonic()
        assert row is not None
        return row[0] - _micros(after), row[0] - _micros(before)


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
