"""Rule T8 written down a second time, as slowly and plainly as possible: a minute-by-minute walk.

Shares no code with the engine or with cronsim: zoneinfo gives the readings, sets of numbers give the fields.
It decides where the two disagree.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


def slots(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Slots with start < slot < end, by rule T8; start and end are aware and on a whole minute."""
    fields = text.upper().split()
    is_wild = fields[0].startswith("*") or fields[1].startswith("*")
    matches = _matcher(text)
    found: set[datetime] = set()
    seen: set[datetime] = set()
    instant = start.astimezone(UTC)
    previous = (instant - MINUTE).astimezone(zone).replace(tzinfo=None)
    while instant < end:
        reading = instant.astimezone(zone).replace(tzinfo=None, fold=0)
        if is_wild:
            if matches(reading):
                found.add(instant)
        else:
            swallowed = previous + MINUTE
            while swallowed < reading:  # nothing to do on an ordinary minute
                if matches(swallowed):
                    found.add(instant)
                swallowed += MINUTE
            if matches(reading) and reading not in seen:
                found.add(instant)
            seen.add(reading)
        previous = reading
        instant += MINUTE
    return sorted(slot for slot in found if start < slot < end)


def _matcher(text: str) -> Callable[[datetime], bool]:
    minute, hour, day, month, weekday = text.upper().split()
    minutes, hours, months = (
        _numbers(minute, 0, 59),
        _numbers(hour, 0, 23),
        _numbers(month, 1, 12, MONTHS),
    )
    needs_both = day.startswith("*") or weekday.startswith("*")

    def matches(reading: datetime) -> bool:
        if reading.minute not in minutes or reading.hour not in hours or reading.month not in months:
            return False
        by_date, by_weekday = _date_matches(day, reading), _weekday_matches(weekday, reading)
        return (by_date and by_weekday) if needs_both else (by_date or by_weekday)

    return matches


MONTHS = dict(zip("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), range(1, 13), strict=True))
WEEKDAYS = dict(zip("SUN MON TUE WED THU FRI SAT".split(), range(7), strict=True))


def _numbers(field: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    """The numbers that a field of plain terms names."""
    found: set[int] = set()
    for term in field.split(","):
        body, _, step = term.partition("/")
        ends = [str((names or {}).get(word, word)) for word in body.split("-")]
        if body == "*":
            first, last = low, high
        elif len(ends) == 2:
            first, last = int(ends[0]), int(ends[1])
        else:
            first, last = int(ends[0]), high if step else int(ends[0])
        found.update(range(first, last + 1, int(step or 1)))
    return found


def _date_matches(field: str, day: datetime) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    working_days = [n for n in range(1, length + 1) if calendar.weekday(day.year, day.month, n) < 5]
    special = {"L": length, "LW": working_days[-1]}
    return any(
        day.day == special[term] if term in special else day.day in _numbers(term, 1, 31)
        for term in field.split(",")
    )


def _weekday_matches(field: str, day: datetime) -> bool:
    return any(_one_weekday_matches(term, day) for term in field.split(","))


def _one_weekday_matches(term: str, day: datetime) -> bool:
    if term.endswith("L"):
        is_last = day.day + 7 > calendar.monthrange(day.year, day.month)[1]
        return is_last and int(term[:-1]) % 7 == day.isoweekday() % 7
    name, _, nth = term.partition("#")
    if nth and (day.day + 6) // 7 != int(nth):
        return False
    return day.isoweekday() % 7 in {number % 7 for number in _numbers(name, 0, 7, WEEKDAYS)}
