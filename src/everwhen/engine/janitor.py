"""The janitor: deletes rows that are older than the retention, in portions too small to disturb other work.

A pass reads the tables from their oldest rows on, with one short transaction per portion, in the writer's
lowest-priority lane. After each portion it rests for several times as long as it worked, so that even a first pass
over years of rows uses a small share of the machine. But it deletes faster than rows are written: where several times
would be too long for that, it rests less. At the end of a pass an SQLite file gives its free pages back, a few at a
time. Nodes that prune at the same time do not conflict: each deletes the rows that still exist.

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

EVERY = 3_600.0
FIRST_AFTER = 600.0
AFTER_A_STEP = 86_400.0
REST = 9.0  # times the duration of the last portion
SHORTEST_REST = 0.005
FASTER = 1.5  # than rows are written, for the pauses between two passes
LOOK_EVERY = 10.0  # seconds between two looks at how many rows are written
LONGEST_TURN = 0.01  # seconds that a portion may keep the writer; others wait for it

log = logging.getLogger("everwhen")


class PortionSize:
    """How much a turn of the writer takes: halved when one was too long, doubled when one was short."""

    def __init__(self, most: int, least: int) -> None:
        self.value = most
        self._most, self._least = most, least

    def note(self, seconds: float) -> None:
        if seconds > LONGEST_TURN:
            self.value = max(self.value // 2, self._least)
        elif seconds < LONGEST_TURN / 4:
            self.value = min(self.value * 2, self._most)


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
        self._place: RetentionPosition | None = PASS_START  # None: the pass gives space back
        self._rows = 0
        self._next = clock.monotonic() + first_after
        self._limit, self._pages = PortionSize(500, 25), PortionSize(200, 10)
        self._written: tuple[float, int] | None = None  # when it was looked at, and how many rows it was
        self._pace = 0.0  # rows a second that are written

    @property
    def due_at(self) -> float:
        """Return when the next portion is due, by the monotonic clock."""
        return self._next

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
        """Delete one portion, or give some space back; return False when the pass ends with it."""
        began = self._clock.monotonic()
        self._next = began + EVERY  # also when the portion fails
        self._look_at_pace(began)
        examined = 0
        if self._place is not None:
            examined = self._delete(self._place)
        elif not self._give_space_back():
            self._end_pass()
            return False
        took = self._clock.monotonic() - began
        rest = REST * took
        if examined and self._pace:
            rest = min(rest, examined / (FASTER * self._pace) - took)
        self._next = began + took + max(SHORTEST_REST, rest)
        return True

    def _delete(self, place: RetentionPosition) -> int:
        """Delete one portion; return how many rows it may have examined."""
        before = cutoffs(self._retention, self._clock.now())
        done = self._upkeep.forget(before, place, limit=self._limit.value)
        self._limit.note(done.seconds)
        self._rows += done.rows
        self._place = done.next
        return done.examined

    def _give_space_back(self) -> bool:
        """Give some space back; return whether more is left."""
        left, seconds = self._upkeep.give_space_back(self._pages.value)
        self._pages.note(seconds)
        return left > 0

    def _end_pass(self) -> None:
        if self._rows:
            log.info("retention: %s rows deleted", f"{self._rows:,}")
        self._rows = 0
        self._place = PASS_START
        if self._tidy is not None:
            self._tidy()

    def _look_at_pace(self, now: float) -> None:
        """Count the rows that are written, from time to time: also since the pass before this one."""
        if self._written is not None and now < self._written[0] + LOOK_EVERY:
            return
        rows = self._upkeep.rows_written()
        if self._written is not None:
            since, before = self._written
            self._pace = max(rows - before, 0) / (now - since)
        self._written = now, rows
