"""Has somebody set the clock? Wall time and monotonic time are compared between two looks (E9).

Backwards nothing fires twice, because the rows have moved on; forwards the slots that were jumped over are
missed. Either way it is put on record, and leases of others are not judged for one whole lease.
"""

from __future__ import annotations

from dataclasses import dataclass

from everwhen.ports.clock import Clock

SMALLEST_STEP = 2.0


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

    def look(self) -> ClockStep | None:
        """The step since the last look; None when there was none worth telling."""
        wall, elapsed = self._clock.now(), self._clock.monotonic()
        expected = self._wall + int((elapsed - self._elapsed) * 1_000_000)
        self._wall, self._elapsed = wall, elapsed
        seconds = (wall - expected) / 1_000_000
        return ClockStep(seconds, expected, wall) if abs(seconds) >= SMALLEST_STEP else None
