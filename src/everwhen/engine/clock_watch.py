"""Detection of clock steps, by comparing wall time and monotonic time between two looks (E9), and of clock skew.

When the clock steps back, nothing fires twice, because the rows have moved on; when it steps forward, the skipped
slots are missed. Either way the step is recorded, and leases of other nodes are not evaluated for one whole lease.
Skew is the difference between this host's clock and the database's. Slots use the database's clock, so a difference
fires nothing wrong; but the timestamps in the host's own logs are off by as much.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from everwhen.clock import Clock
from everwhen.model.node import MOST_SKEW

SMALLEST_STEP = 2.0

log = logging.getLogger("everwhen")


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A change of the wall clock by `seconds` that did not pass: from one instant to another."""

    seconds: float
    from_at: int
    to_at: int


class ClockWatch:
    """Compares both clocks, and reports when they disagree."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._elapsed = clock.now(), clock.monotonic()

    @property
    def now(self) -> int:
        """Return the instant of the last look: decisions by it use the clock that was checked."""
        return self._wall

    def look(self) -> ClockStep | None:
        """Return the step since the last look; None when there was none large enough."""
        wall, elapsed = self._clock.now(), self._clock.monotonic()
        expected = self._wall + int((elapsed - self._elapsed) * 1_000_000)
        self._wall, self._elapsed = wall, elapsed
        seconds = (wall - expected) / 1_000_000
        return ClockStep(seconds, expected, wall) if abs(seconds) >= SMALLEST_STEP else None


class SkewWatch:
    """Logs once that this host's clock is too far from the database's, and once that it agrees again."""

    def __init__(self) -> None:
        self._is_far = False

    def look(self, skew: int) -> None:
        is_far = abs(skew) >= MOST_SKEW
        if is_far == self._is_far:
            return
        self._is_far = is_far
        if is_far:
            log.warning(
                "this host's clock is %+.1f s from the database's, by which slots are fired; see to its time service",
                skew / 1_000_000,
            )
        else:
            log.info("this host's clock agrees with the database's again")
