"""The slots of one schedule in microseconds: the interface to `timetable`, which counts in seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from everwhen.model.instants import SECOND
from everwhen.timetable.interval import IntervalSeries
from everwhen.timetable.jitter import jitter_offset_ms
from everwhen.timetable.occurrences import Occurrences
from everwhen.timetable.windows import ClosedReason, ClosedTimes

MANY = 10_000_000


@dataclass(frozen=True, slots=True)
class Calendar:
    """The slots of a schedule, when they are due, and its closed times.

    `fraction`: a one-shot is due that long after its slot, the whole second in which its instant lies. Of a one-shot
    its due_at decides what lies before an instant, and what after it; of every other slot, slot_at does.
    """

    slots: Occurrences
    closed_times: ClosedTimes
    is_chain: bool = False
    fraction: int = 0

    @property
    def jitter(self) -> int:
        """Return how long after its slot_at a slot may be due."""
        return self.slots.jitter_ms * 1_000 or self.fraction

    def first_from(self, instant: int) -> int | None:
        """Return the first slot at or after the instant."""
        return self._micro(self.slots.next_after(-(-instant // SECOND) - 1))

    def next_after(self, instant: int) -> int | None:
        """Return the first slot after the instant."""
        return self._micro(self.slots.next_after(instant // SECOND))

    def last_until(self, instant: int) -> int | None:
        """Return the last slot at or before the instant."""
        return self._micro(self.slots.previous_before(instant // SECOND + 1))

    def next_to_come(self, instant: int) -> int | None:
        """Return the first slot that lies after an instant."""
        # Without the fraction: the slot of a one-shot that is due later in this second.
        return self.next_after(instant) if not self.fraction else self.first_from(instant - self.fraction + 1)

    def last_to_pass(self, instant: int) -> int | None:
        """Return the last slot that lies at an instant or before it."""
        return self.last_until(instant - self.fraction)

    def is_reached(self, slot_at: int, instant: int) -> bool:
        """Return whether a slot lies at an instant or before it."""
        return slot_at + self.fraction <= instant

    def due_at(self, slot_at: int) -> int:
        """Return slot_at + jitter; of a one-shot the instant itself."""
        if not self.slots.jitter_ms:
            return slot_at + self.fraction
        second = slot_at // SECOND
        if self.is_chain:  # the following slot is at least one interval away: the window is not cut
            return slot_at + jitter_offset_ms(self.slots.jitter_key, second, self.slots.jitter_ms) * 1_000
        return self.slots.due_ms(second) * 1_000

    def due_slots(self, first: int, now: int) -> Sequence[int]:
        """Return the slots from `first` on that are due by now, in order."""
        found = self.reached_slots(first, now)
        # Jitter is smaller than the gap to the following slot: only the last slot may not be due yet.
        return found[:-1] if found and self.due_at(found[-1]) > now else found

    def reached_slots(self, first: int, now: int) -> Sequence[int]:
        """Return the slots from `first` to now, in order, including one whose jitter has not elapsed yet."""
        series = self.slots.series
        if isinstance(series, IntervalSeries):  # a year of seconds is too long for a list
            end = min(now + 1, self.slots.end_at * SECOND)
            return range(first, end, series.interval * SECOND)
        # The slot that is stored in the row counts, even when newer zone data would move it.
        later = self.slots.between(first // SECOND + 1, now // SECOND + 1, MANY)
        return [first, *(second * SECOND for second in later)]

    def runs(self, slots: Sequence[int]) -> Iterator[tuple[ClosedReason | None, Sequence[int]]]:
        """Yield the slots in runs that are open, or closed for one reason; the due_at of each slot decides."""
        position = 0
        while position < len(slots):
            due_at = self.due_at(slots[position])
            reason = self.closed_reason(due_at)
            steady = self.closed_times.steady_until(due_at // SECOND) * SECOND
            # Slots whose whole jitter window lies before the next edge have the same reason; they need no check.
            until = max(bisect_left(slots, steady - self.jitter), position + 1)
            yield reason, slots[position:until]
            position = until

    def closed_reason(self, instant: int) -> ClosedReason | None:
        return self.closed_times.reason_at(instant // SECOND)

    def opening_from(self, instant: int) -> int | None:
        """Return the first instant from this one on at which the schedule is open, or None within 400 days."""
        if self.closed_reason(instant) is None:
            return instant
        return self._micro(self.closed_times.opening_from(instant // SECOND))

    @staticmethod
    def _micro(second: int | None) -> int | None:
        return None if second is None else second * SECOND
