"""Calendar months: the same day and wall-clock time every month, counted from an anchor.

The 31st is clipped to the last day of a shorter month and returns to the 31st afterwards. Gaps and folds are handled
as for a fixed cron entry.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass

from everwhen.timetable.civil_time import FIXED, DstRule, Zone, in_calendar, reading_of, wall_of

_LAST_MONTH = 9_999 * 12 + 10  # November 9999: the month after it may lie outside the calendar
MANY = 1_000_000  # more than a calendar has


@dataclass(frozen=True, slots=True)
class MonthlySeries:
    """Slot k is the anchor's reading k months later; slot 0 is the anchor itself."""

    anchor_at: int
    zone: Zone
    rule: DstRule = FIXED

    def next_after(self, instant: int) -> int | None:
        if instant < self.anchor_at:
            return self.anchor_at
        month = self._month_of(instant) - 1
        while month <= _LAST_MONTH:
            for slot_at in self._slots_of(month):
                if slot_at > instant:
                    return slot_at
            month += 1
        return None

    def previous_before(self, instant: int) -> int | None:
        month = min(self._month_of(instant) + 1, _LAST_MONTH)
        while month >= self._first_month:
            for slot_at in reversed(self._slots_of(month)):
                if slot_at < instant:
                    return slot_at
            month -= 1
        return None

    def between(self, start: int, end: int, limit: int) -> list[int]:
        slots: list[int] = []
        month = self._month_of(start) - 1
        while len(slots) < limit and month <= _LAST_MONTH:
            found = self._slots_of(month)
            slots.extend(slot_at for slot_at in found if start <= slot_at < end)
            if found and found[-1] >= end:
                break
            month += 1
        return slots[:limit]

    def count_between(self, start: int, end: int) -> int:
        """Return how many slots lie in [start, end); they are looked at, since a gap or a fold may change a month's."""
        return len(self.between(start, end, MANY)) if start < end else 0

    def is_shifted(self, slot_at: int) -> bool:
        """Return whether a reading inside a gap was shifted to this slot."""
        month = self._month_of(slot_at)
        readings = (self._reading_in(m) for m in (month - 1, month) if m > self._first_month)
        return slot_at != self.anchor_at and slot_at + self.zone.offset_at(slot_at) not in readings

    @property
    def _first_month(self) -> int:
        return self._month_of(self.anchor_at)

    def _month_of(self, instant: int) -> int:
        """Return the local month of an instant, counted from year 0."""
        instant = in_calendar(instant)
        wall = wall_of(instant + self.zone.offset_at(instant))
        return wall.year * 12 + wall.month - 1

    def _slots_of(self, month: int) -> list[int]:
        first_month = self._first_month
        if month < first_month:
            return []
        if month == first_month:
            return [self.anchor_at]  # also when it is the second reading of a fold
        return self.zone.instants_of(self._reading_in(month), self.rule)

    def _reading_in(self, month: int) -> int:
        """Return the anchor's reading in another month, clipped to its last day."""
        anchor = wall_of(self.anchor_at + self.zone.offset_at(self.anchor_at))
        year, month_of_year = divmod(month, 12)
        last_day = monthrange(year, month_of_year + 1)[1]
        day = anchor.replace(year=year, month=month_of_year + 1, day=min(anchor.day, last_day))
        return reading_of(day)
