"""The janitor: deletes rows that are older than the retention, in portions too small to disturb other work.

A pass reads the tables from their oldest rows on, with one short transaction per portion, in the writer's
lowest-priority lane. After each portion it rests for several times as long as it worked, so that even a first pass
over years of rows uses a small share of the machine. Nodes that prune at the same time do not conflict: each deletes
the rows that still exist.

A deletion is final, and the clock decides how old a row is. So the janitor is the one part that distrusts the clock:
the clock of a machine that has just started may be wrong, and a clock that was just set may be set again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from everwhen.clock import Clock
from everwhen.decide.retention import cutoffs
from everwhen.model.retention import PASS_START, Retention, RetentionPosition
from everwhen.store.maintenance import Upkeep

PORTION = 500
EVERY = 3_600.0
FIRST_AFTER = 600.0
AFTER_A_STEP = 86_400.0
REST = 9.0  # times the duration of the last portion
SHORTEST_REST = 0.02

log = logging.getLogger("everwhen")


class Janitor:
    """Deletes one portion per step, and waits between two passes."""

    def __init__(
        self,
        upkeep: Upkeep,
        clock: Clock,
        retention: Retention,
        ended: threading.Event,
        *,
        first_after: float = FIRST_AFTER,
        tidy: Callable[[], object] | None = None,
    ) -> None:
        self._upkeep = upkeep
        self._clock = clock
        self._retention = retention
        self._ended = ended
        self._tidy = tidy  # what else goes with time: called at the end of each pass
        self._place: RetentionPosition = PASS_START
        self._rows = 0
        self._next = clock.monotonic() + first_after

    def distrust_clocks(self) -> None:
        """Delete nothing for a day, because the clock was set."""
        self._next = self._clock.monotonic() + AFTER_A_STEP

    def step(self) -> None:
        """Wait until the next portion is due, then delete it."""
        while (left := self._next - self._clock.monotonic()) > 0:
            if self._ended.wait(left):  # behind it the next portion may have been postponed
                return
        self.portion()

    def portion(self) -> bool:
        """Delete one portion; return False when the pass ends with it."""
        began = self._clock.monotonic()
        self._next = began + EVERY  # also when the portion fails
        before = cutoffs(self._retention, self._clock.now())
        done = self._upkeep.forget(before, self._place, limit=PORTION)
        self._rows += done.rows
        self._place = done.next or PASS_START
        if done.next is None:
            if self._rows:
                log.info("retention: %s rows deleted", f"{self._rows:,}")
            self._rows = 0
            if self._tidy is not None:
                self._tidy()
            return False
        ended = self._clock.monotonic()
        self._next = ended + max(SHORTEST_REST, REST * (ended - began))
        return True
