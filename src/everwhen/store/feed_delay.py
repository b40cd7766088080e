"""The transaction that holds the event feed back, on a database where transactions run concurrently.

A stream reads what was committed before the oldest transaction that is still open. So one that stays open, of whatever
program, delays every reader of the feed: alerts, webhooks, listeners and streams. Nothing is lost; it arrives late.

Only a transaction that has a number delays: one that only reads does not. A role that may not see when the transaction
of another role began (that needs pg_read_all_stats) gets how long this process has seen it.
"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from everwhen.clock import Clock
from everwhen.errors import StoreError
from everwhen.model.instants import SECOND
from everwhen.model.vitals import FeedDelay
from everwhen.store.dialect import Statement
from everwhen.store.transaction import Store, StorePart

DELAYED_AFTER = 30 * SECOND
LOOK_EVERY = 1.0  # seconds
LONGEST_NAME = 100

log = logging.getLogger("everwhen")

# No text of a query is read: it may contain anything.
_OLDEST = Statement(
    sqlite="SELECT NULL, '', 0, NULL WHERE 0",
    postgres="""
SELECT pid, application, xid::text::bigint, (extract(epoch FROM clock_timestamp() - began) * 1000000)::bigint
FROM (SELECT pid, coalesce(application_name, '') AS application, backend_xid AS xid, xact_start AS began
      FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
      UNION ALL
      SELECT NULL, 'prepared transaction ' || gid, transaction, prepared FROM pg_prepared_xacts) AS open
ORDER BY age(xid) DESC LIMIT 1""",
)


class _OldestOpen(NamedTuple):
    """The oldest open transaction; `age` is None where this role may not see it."""

    pid: int | None
    application: str
    number: int
    age: int | None


class FeedDelays(StorePart):
    """What delays the feed; one for all threads of a process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None  # when this process first looked
        self._looked = float("-inf")
        self._number: int | None = None  # of the oldest transaction at the last look
        self._since = 0.0
        self._found: FeedDelay | None = None

    def look(self) -> FeedDelay | None:
        """Return the transaction that has held the feed for 30 seconds; None when there is none.

        Threads share the answer of a second. Where the database does not answer, it is that of the last look.
        """
        if self._store.is_exclusive:
            return None
        with self._lock:
            moment = self._clock.monotonic()
            if moment - self._looked >= LOOK_EVERY:
                self._looked = moment
                try:
                    self._found = self._ask(moment)
                except StoreError as error:  # a view that this role may not read must not stop those who ask
                    log.debug("what delays the event feed is not known: %s", error)
            return self._found

    def _ask(self, moment: float) -> FeedDelay | None:
        oldest = self._one(_OldestOpen._make, _OLDEST)
        if self._began is None:
            self._began = moment
        if oldest is None:
            self._number = None
            return None
        if oldest.number != self._number:
            self._number, self._since = oldest.number, moment
        seen = int((moment - self._since) * SECOND)
        # A transaction may have been open for long before it got its number, and delay nothing until then. A process
        # that has just begun to look cannot tell: it believes the age.
        is_new_here = self._since == self._began and oldest.age is not None
        held = max(seen, oldest.age or 0) if is_new_here else seen
        if held < DELAYED_AFTER:
            return None
        age = max(seen, oldest.age or 0)
        return FeedDelay(oldest.pid, oldest.application[:LONGEST_NAME], age)
