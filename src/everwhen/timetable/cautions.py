"""How often a trigger fires, and what people often do not mean by a cron expression although they wrote it.

>>> from everwhen.timetable.cron import parse_cron
>>> for text in ("0 9 1 * mon", "*/7 * * * *", "0 9 16 11 *", "0 9 * * 1-5"):
...     print(cautions(Cron(parse_cron(text)), 2026))
['the day fields are joined by OR: it fires on those days of the month, and on every such weekday besides']
['*/7 is uneven: 7 does not divide 60, so the last step of each hour is 4 minutes']
['it fires once a year: did you mean at?']
[]
"""

from __future__ import annotations

import re

from everwhen.timetable.civil_time import DstRule, Zone
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Trigger

DAY = 86_400
_DAYS_OF_MONTH, _DAYS_OF_WEEK = 2, 4
_STEPS = ((0, 60, "hour", "minutes"), (1, 24, "day", "hours"))
_STEP = re.compile(r"(?:\*|0-59|0-23)/(\d+)", re.ASCII)
_EITHER_DAY = (
    "the day fields are joined by OR: it fires on those days of the month, and on every such weekday besides"
)


def fires_per_day(trigger: Trigger, year: int) -> float | None:
    """Return how many slots a day has on average in a year; None for what does not repeat."""
    match trigger:
        case Every():
            return DAY / trigger.seconds
        case EveryMonth():
            return 12 / 365
        case Cron():
            expression = trigger.expression
            times = expression.minutes.bit_count() * expression.hours.bit_count()
            return times * expression.days.days_of_year(year).bit_count() / 365
        case _:
            return None


def most_fires_per_day(trigger: Trigger, zone: Zone, rule: DstRule, start: int) -> int | None:
    """Return how many slots the day of UTC has that has the most, of a year; None for what does not repeat."""
    match trigger:
        case Every():
            return -(-DAY // trigger.seconds)
        case EveryMonth():
            return 1
        case Cron():
            series, first = CronSeries(trigger.expression, zone, rule), start - start % DAY
            days = range(first, first + 366 * DAY, DAY)
            return max(series.count_between(day, day + DAY) for day in days)
        case _:
            return None


def cautions(trigger: Trigger, year: int) -> list[str]:
    """Return a sentence for each thing about a trigger that its author may not have meant."""
    if not isinstance(trigger, Cron):
        return []
    fields = trigger.expression.text.split()
    found = []
    if len(fields) == 5 and not trigger.expression.days.both_must_match:
        found.append(_EITHER_DAY)
    for number, size, whole, unit in _STEPS:
        step = _STEP.fullmatch(fields[number]) if len(fields) == 5 else None
        if step is not None and size % int(step[1]) and int(step[1]) < size:
            last = size - (size - 1) // int(step[1]) * int(step[1])
            rest = f"so the last step of each {whole} is {last} {unit}"
            found.append(f"{step[0]} is uneven: {step[1]} does not divide {size}, {rest}")
    per_year = (fires_per_day(trigger, year) or 0) * 365
    if 0 < per_year <= 1.5:
        found.append("it fires once a year: did you mean at?")
    return found
