"""Ranges of slots that one record stands for, as it has them: their ends and their number, evenly spaced."""

from __future__ import annotations

from typing import NamedTuple


class SlotRange(NamedTuple):
    """So many slots from the first to the last.

    >>> SlotRange(0, 90, 10).within(25, 60)
    SlotRange(first_at=30, last_at=50, slots=3)
    """

    first_at: int
    last_at: int
    slots: int = 1

    def within(self, start: int, end: int) -> SlotRange | None:
        """Return the slots that lie in [start, end); None when none does."""
        gaps = self.slots - 1
        length = self.last_at - self.first_at
        if length <= 0 or gaps <= 0:
            return self if start <= self.first_at < end else None
        first = max(-((self.first_at - start) * gaps // length), 0)
        behind = min(-((self.first_at - end) * gaps // length), self.slots)
        if first >= behind:
            return None
        return SlotRange(
            self.first_at + first * length // gaps,
            self.first_at + (behind - 1) * length // gaps,
            behind - first,
        )
