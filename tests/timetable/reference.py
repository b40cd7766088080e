"""Rule T8 written down a second time, as slowly and plainly as possible: a minute-by-minute walk.

Shares no code with the engine: zoneinfo gives the readings, sets of numbers give the fields. It decides
where the engine and cronsim disagree.
"""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

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


def _matcher(text: str):  # type: ignore[no-untyped-def]  # a closure over five sets
    # Only cronsim's parser is used, never its arithmetic; the walk above is what is under comparison.
    fields = CronSim(text, datetime(2020, 1, 1))

    def day_matches(day: datetime) -> bool:
        length = calendar.monthrange(day.year, day.month)[1]
        weekday = day.isoweekday()
        last_working = max(n for n in range(1, length + 1) if calendar.weekday(day.year, day.month, n) < 5)
        by_date = (
            day.day in fields.days
            or (CronSim.LAST in fields.days and day.day == length)
            or (CronSim.LAST_WEEKDAY in fields.days and day.day == last_working)
        )
        by_weekday = any(
            number in fields.weekdays
            or (number, (day.day + 6) // 7) in fields.weekdays
            or ((number, CronSim.LAST) in fields.weekdays and day.day + 7 > length)
            for number in {weekday, weekday % 7}
        )
        return (by_date and by_weekday) if fields.day_and else (by_date or by_weekday)

    def matches(reading: datetime) -> bool:
        return (
            reading.minute in fields.minutes
            and reading.hour in fields.hours
            and reading.month in fields.months
            and day_matches(reading)
        )

    return matches
