"""Durations as text (`5m`, `1h30m`), and slots at a fixed distance from an anchor.

Elapsed time only: a day is 24 hours here. Calendar months are in `monthly`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from everwhen.errors import IntervalParseError, shown

UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
ALIASES = {"hourly": 3_600, "daily": 86_400, "weekly": 604_800}
LONGEST = 3_650 * 86_400
TOO_LONG = "Intervals longer than 3650d are not supported"

_EXPECTED = 'Expected format: "{number}{unit}"'
# Matches anything that may be meant as a duration: signs, decimals and any word as a unit are accepted here, so that
# the error can name each fault. Only ASCII digits count as digits.
_PART = re.compile(
    r"(?P<sign>-?)[ \t\r\n]*(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)[ \t\r\n]*(?P<unit>[^\W\d_]*)[ \t\r\n]*"
)
_BLANKS = " \t\r\n"
_MOST_DIGITS = 12  # enough for the longest duration in seconds, and cheap to convert


def parse_interval(text: str) -> timedelta:
    """Parse a duration.

    >>> parse_interval("1h30m")
    datetime.timedelta(seconds=5400)
    """
    return timedelta(seconds=parse_seconds(text))


def parse_seconds(text: str) -> int:
    if not isinstance(text, str):
        raise _invalid(text)
    return _parse_seconds(text)


@lru_cache(maxsize=4_096)  # thousands of schedules have `5m`
def _parse_seconds(text: str) -> int:
    if not text.strip(_BLANKS):
        raise IntervalParseError("Interval cannot be empty", interval=text)
    parts = _split(text)
    _refuse_first_fault(text, parts)
    units = [unit.lower() for _, _, unit in parts]
    numbers = [number.lstrip("0") for _, number, _ in parts]
    if any(len(number) > _MOST_DIGITS for number in numbers):
        raise IntervalParseError(TOO_LONG, interval=text)
    seconds = sum(int(number) * UNIT_SECONDS[unit] for number, unit in zip(numbers, units, strict=True))
    if seconds > LONGEST:
        raise IntervalParseError(TOO_LONG, interval=text)
    if units != [unit for unit in UNIT_SECONDS if unit in units]:  # from large to small, each once
        raise _invalid(text)
    return seconds


def _split(text: str) -> list[tuple[str, str, str]]:
    """Split a duration into parts (sign, number, unit), without checking each part."""
    stripped = text.strip(_BLANKS)
    parts: list[tuple[str, str, str]] = []
    position = 0
    while position < len(stripped):
        part = _PART.match(stripped, position)
        if part is None:
            raise _invalid(text)
        parts.append((part["sign"], part["number"], part["unit"]))
        position = part.end()
    return parts


def _refuse_first_fault(text: str, parts: list[tuple[str, str, str]]) -> None:
    if any(sign for sign, _, _ in parts):
        raise IntervalParseError("Negative intervals are not allowed", interval=text)
    if any("." in number for _, number, _ in parts):
        raise IntervalParseError("Decimal values are not supported", interval=text)
    if not all(unit for _, _, unit in parts):
        raise IntervalParseError(f"Missing time unit. {_EXPECTED}", interval=text)
    for _, _, unit in parts:
        if unit.lower() not in UNIT_SECONDS:
            raise IntervalParseError(
                f'Invalid time unit "{shown(unit)}". Valid units are: s, m, h, d', interval=text
            )
    if not all(number.strip("0") for _, number, _ in parts):
        raise IntervalParseError("Zero interval is not allowed", interval=text)


def _invalid(text: object) -> IntervalParseError:
    return IntervalParseError(f'Invalid interval "{shown(text)}". {_EXPECTED}', interval=text)


@dataclass(frozen=True, slots=True)
class IntervalSeries:
    """Slot k is anchor + k × interval, k ≥ 0. There is no drift, whatever happens to the jobs."""

    anchor_at: int
    interval: int

    def next_after(self, instant: int) -> int | None:
        if instant < self.anchor_at:
            return self.anchor_at
        return instant + self.interval - (instant - self.anchor_at) % self.interval

    def previous_before(self, instant: int) -> int | None:
        if instant <= self.anchor_at:
            return None
        return instant - 1 - (instant - 1 - self.anchor_at) % self.interval

    def between(self, start: int, end: int, limit: int) -> list[int]:
        first = self.next_after(start - 1)
        assert first is not None  # an interval never ends
        return list(range(first, min(end, first + limit * self.interval), self.interval))

    def count_between(self, start: int, end: int) -> int:
        """Return how many slots lie in [start, end)."""
        first = self.next_after(start - 1)
        assert first is not None  # an interval never ends
        return len(range(first, end, self.interval))


def chain_slot(*, ended_at: float, interval: int, previous_slot_at: int) -> int:
    """Return the next slot of a completion chain: end + interval, in whole seconds, later than the previous slot.

    The clock may have been set back between the two; the slots of a chain never go back.

    >>> chain_slot(ended_at=1_000.25, interval=300, previous_slot_at=400)
    1301
    """
    return max(whole_second_after(ended_at + interval), previous_slot_at + 1)


def whole_second_after(instant: float) -> int:
    """Round an instant up to a whole second. Slots are whole seconds; only `immediately` is rounded down."""
    return -int(-instant // 1)
