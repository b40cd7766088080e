"""Closed times: `only_between`, `not_on` and quiet hours, and the opening, the first instant that nothing closes.

Whether an instant is closed depends on the reading of the wall clock at that instant, so gaps and folds need no rule
of their own here. The end of each closed time can be computed; the opening is found by going from one such end to the
next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple

from everwhen.errors import TimetableError, shown
from everwhen.timetable.civil_time import DAY, ORDINAL_OF_1970, Zone

ClosedReason = Literal["excluded_day", "outside_window", "quiet_hours"]
HORIZON = 400 * DAY
EVERY_WEEKDAY = 0x7F

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_WINDOW = re.compile(r"\s*([0-9]{1,2}):([0-9]{2})\s*-\s*([0-9]{1,2}):([0-9]{2})\s*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MINUTES = 1_440


class Window(NamedTuple):
    """A daily range of wall-clock time, [start, end) in minutes; an end before the start wraps midnight."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{_clock(self.start)}-{_clock(self.end)}"

    @property
    def wraps(self) -> bool:
        return self.end < self.start


class QuietWindow(NamedTuple):
    """A window on certain weekdays; a window that wraps midnight belongs to the day on which it starts."""

    window: Window
    weekdays: int = EVERY_WEEKDAY


class QuietHours(NamedTuple):
    """A policy that schedules may share: windows and whole days, in a zone of its own."""

    zone: Zone
    windows: tuple[QuietWindow, ...] = ()
    dates: tuple[tuple[int, int], ...] = ()  # first and last day, counted from 1970-01-01

    def closes(self, reading: int) -> bool:
        day, second = divmod(reading, DAY)
        if any(first <= day <= last for first, last in self.dates):
            return True
        minute = second // 60
        return any(_quiet(window, day, minute) for window in self.windows)

    def edges(self) -> list[int]:
        """Return the minutes of a day at which it may open or close."""
        return sorted({0}.union(*(_edges(quiet.window) for quiet in self.windows)))


class OnlyBetween(NamedTuple):
    """Closed outside one daily window."""

    zone: Zone
    window: Window

    def closes(self, reading: int) -> bool:
        return not _inside(self.window, reading % DAY // 60)

    def edges(self) -> list[int]:
        return sorted(_edges(self.window))


class NotOn(NamedTuple):
    """Closed on whole weekdays (bit 0 is Sunday)."""

    zone: Zone
    weekdays: int

    def closes(self, reading: int) -> bool:
        return bool(self.weekdays >> _weekday(reading // DAY) & 1)

    def edges(self) -> list[int]:
        return [0]


Closing = NotOn | OnlyBetween | QuietHours


@dataclass(frozen=True, slots=True)
class ClosedTimes:
    """The closed times of one schedule, in the order in which their reasons take precedence."""

    not_on: NotOn | None = None
    only_between: OnlyBetween | None = None
    quiet_hours: QuietHours | None = None

    def reason_at(self, instant: int) -> ClosedReason | None:
        """Return why the instant is closed, or None when it is open."""
        if self.not_on is not None and _closed(self.not_on, instant):
            return "excluded_day"
        if self.only_between is not None and _closed(self.only_between, instant):
            return "outside_window"
        if self.quiet_hours is not None and _closed(self.quiet_hours, instant):
            return "quiet_hours"
        return None

    def opening_from(self, instant: int) -> int | None:
        """Return the first open instant, this one or later, or None when there is none within 400 days."""
        latest = instant + HORIZON
        while instant <= latest:
            closing = next((c for c in self._closings() if _closed(c, instant)), None)
            if closing is None:
                return instant
            instant = _closed_until(closing, instant, latest)
        return None

    def steady_until(self, instant: int) -> int:
        """Return until when the result of `reason_at` cannot change; at most 400 days ahead."""
        return min((_next_edge(c, instant) for c in self._closings()), default=instant + HORIZON)

    def _closings(self) -> list[Closing]:
        return [c for c in (self.not_on, self.only_between, self.quiet_hours) if c is not None]


def _closed(closing: Closing, instant: int) -> bool:
    return closing.closes(instant + closing.zone.offset_at(instant))


def _closed_until(closing: Closing, instant: int, latest: int) -> int:
    """Return the first later instant at which this closed time ends (beyond `latest` any instant is correct).

    Within a span it can only end at one of a few minutes of the day. Where the span ends, the wall clock may jump into
    open time, so that instant is checked too.
    """
    minutes = closing.edges()
    while instant <= latest:
        span = closing.zone.span_at(instant)
        reading = instant + span.offset
        for candidate in _readings(minutes, reading, span.end_reading):
            if not closing.closes(candidate):
                return candidate - span.offset
        instant = span.end
        if not _closed(closing, instant):
            return instant
    return instant


def _next_edge(closing: Closing, instant: int) -> int:
    span = closing.zone.span_at(instant)
    readings = _readings(closing.edges(), instant + span.offset, span.end_reading)
    return next(iter(readings), span.end_reading) - span.offset


def _edges(window: Window) -> set[int]:
    return {window.start, window.end % _MINUTES}


def _readings(minutes: list[int], after: int, end: int) -> Iterable[int]:
    day = after // DAY
    end = min(end, after + HORIZON + DAY)
    while day * DAY < end:
        for minute in minutes:
            reading = day * DAY + minute * 60
            if after < reading < end:
                yield reading
        day += 1


def _quiet(quiet: QuietWindow, day: int, minute: int) -> bool:
    if not _inside(quiet.window, minute):
        return False
    started = day - 1 if quiet.window.wraps and minute < quiet.window.end else day
    return bool(quiet.weekdays >> _weekday(started) & 1)


def _inside(window: Window, minute: int) -> bool:
    if window.wraps:
        return minute >= window.start or minute < window.end
    return window.start <= minute < window.end


def _weekday(day: int) -> int:
    return (day + 4) % 7  # 1 January 1970 was a Thursday; Sunday is 0


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


# -- parsing --


def parse_window(text: str, key: str = "only_between") -> Window:
    """Parse a window such as `08:00-18:00`: half-open, in minutes, may wrap midnight; the end may be 24:00.

    >>> str(parse_window("22:00-06:00"))
    '22:00-06:00'
    """
    parts = _WINDOW.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise _refused(f'{key} "{shown(text)}" is not a time window; write it like "08:00-18:00"', key, text)
    hour, minute, end_hour, end_minute = (int(part) for part in parts.groups())
    start, end = hour * 60 + minute, end_hour * 60 + end_minute
    if minute > 59 or end_minute > 59 or start >= _MINUTES or end > _MINUTES:
        fault = "times go from 00:00 to 23:59, and to 24:00 at the end"
        raise _refused(f'{key} "{shown(text)}": {fault}', key, text)
    if start == end:
        fault = 'starts where it ends; for the whole day write "00:00-24:00"'
        raise _refused(f'{key} "{shown(text)}" {fault}', key, text)
    return Window(start, end)


def parse_weekdays(days: Sequence[str | int] | str | int, key: str = "not_on") -> int:
    """Parse weekdays into a mask: names, three-letter names, or numbers with 0 and 7 for Sunday.

    >>> bin(parse_weekdays(["saturday", "Sun", 1]))
    '0b1000011'
    """
    if isinstance(days, str | int):
        days = [days]
    if not isinstance(days, Iterable):
        raise _no_weekday(days, key)
    mask = 0
    for day in days:
        mask |= 1 << _parse_weekday(day, key)
    return mask


def weekday_names(mask: int) -> list[str]:
    """Return the names of the days in a mask.

    >>> weekday_names(0b1000001)
    ['sunday', 'saturday']
    """
    return [name for number, name in enumerate(_WEEKDAYS) if mask >> number & 1]


def _parse_weekday(day: str | int, key: str) -> int:
    if isinstance(day, int) and not isinstance(day, bool) and 0 <= day <= 7:
        return day % 7
    if isinstance(day, str):
        word = day.strip().lower()
        if len(word) == 1 and word in "01234567":
            return int(word) % 7
        for number, name in enumerate(_WEEKDAYS):
            if word in (name, name[:3]):
                return number
    raise _no_weekday(day, key)


def _no_weekday(day: object, key: str) -> TimetableError:
    known = "use names (saturday, sat) or 0 to 7, where 0 and 7 are Sunday"
    return _refused(f'{key}: "{shown(day)}" is not a weekday; {known}', key, day)


def _refused(message: str, key: str, value: object) -> TimetableError:
    return TimetableError(message, key=key, value=value)


def parse_dates(entries: Sequence[object], key: str = "dates") -> tuple[tuple[int, int], ...]:
    """Parse whole days, each a date or {from, to} with both ends included, into first and last day since 1970."""
    if isinstance(entries, str | dict) or not isinstance(entries, Iterable):
        entries = [entries]
    return tuple(_parse_date_range(entry, key) for entry in entries)


def _parse_date_range(entry: object, key: str) -> tuple[int, int]:
    if isinstance(entry, dict) and set(entry) == {"from", "to"}:
        first, last = _parse_date(entry["from"], key), _parse_date(entry["to"], key)
    else:
        first = last = _parse_date(entry, key)
    if last < first:
        raise _refused(f"{key}: {shown(entry)} ends before it begins", key, entry)
    return first, last


def _parse_date(value: object, key: str) -> int:
    try:
        if not isinstance(value, date) and not (isinstance(value, str) and _DATE.fullmatch(value)):
            raise ValueError(value)
        day = value if isinstance(value, date) else date.fromisoformat(value)
    except ValueError:
        known = "write 2026-12-25 or {from: 2026-12-31, to: 2027-01-01}"
        raise _refused(f'{key}: "{shown(value)}" is not a date; {known}', key, value) from None
    return day.toordinal() - ORDINAL_OF_1970
