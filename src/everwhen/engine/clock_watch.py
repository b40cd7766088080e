"""Has somebody set the clock? Wall time and monotonic time are compared between two looks (E9).

Backwards nothing fires twice, because the rows have moved on; forwards the slots that were jumped over are
missed. Either way it is put on record, and leases of others are not judged for one whole lease. And is this host's
clock where the database's is? Slots go by the database's, so a difference fires nothing wrong; but what people read
in the host's own logs is off by as much.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from everwhen.model.node import MOST_SKEW
from everwhen.ports.clock import Clock

SMALLEST_STEP = 2.0

log = logging.getLogger("everwhen")


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The wall clock moved by so many seconds that did not pass: from one instant to another."""

    seconds: float
    from_at: int
    to_at: int


class ClockWatch:
    """Looks at both clocks, and tells when they disagree."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._elapsed = clock.now(), clock.monotonic()

    @property
    def now(self) -> int:
        """The instant of the last look: what is judged by it is judged by the clock that was looked at."""
        return self._wall

    def look(self) -> ClockStep | None:
        """The step since the last look; None when there was none worth telling."""
        wall, elapsed = self._clock.now(), self._clock.monotonic()
        expected = self._wall + int((elapsed - self._elapsed) * 1_000_000)
        self._wall, self._elapsed = wall, elapsed
        seconds = (wall - expected) / 1_000_000
        return ClockStep(seconds, expected, wall) if abs(seconds) >= SMALLEST_STEP else None


class SkewWatch:
    """Says once that this host's clock is too far from the database's, and once that it is not any more."""

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
