"""Descriptions of triggers in English, made from the parsed value and not from its text, so that they are correct.

>>> from everwhen.timetable.cron import parse_cron
>>> describe_cron(parse_cron("0 9 * * 1-5"))
'at 09:00, Monday to Friday'
"""

from __future__ import annotations

from functools import lru_cache

from everwhen.timetable.civil_time import DAY, WILD, Zone, wall_of
from everwhen.timetable.cron import CronExpression, DayRule, bits
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.instant_text import format_datetime
from everwhen.timetable.monthly import MonthlySeries
from everwhen.timetable.occurrences import Series
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger

_MONTHS = "January February March April May June July August September October November December".split()
_WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_ALL_HOURS = (1 << 24) - 1
_ALL_DATES = (1 << 32) - 2
_ALL_MONTHS = (1 << 13) - 2
_ALL_WEEKDAYS = 0x7F
_TIMES_LISTED = 6


def describe(trigger: Trigger, zone: Zone) -> str:
    match trigger:
        case Every():
            is_day = trigger.seconds == 86_400  # of elapsed time, not of the calendar
            return "every 24 hours" if is_day else f"every {describe_seconds(trigger.seconds)}"
        case EveryMonth():
            return "every month, at the same day and time"
        case Cron():
            return describe_cron(trigger.expression)
        case Once():
            moment = zone.datetime(trigger.instant).replace(microsecond=trigger.fraction)
            return f"once, at {format_datetime(moment, exact=True)}"
        case OnRequest():  # pragma: no branch
            is_webhook = trigger.kind == "webhook"
            return "when its webhook is called" if is_webhook else "when somebody asks in chat"


def describe_seconds(seconds: int) -> str:
    """Describe a duration in English.

    >>> describe_seconds(5_400), describe_seconds(86_400), describe_seconds(60)
    ('1 hour 30 minutes', 'day', 'minute')
    """
    parts = []
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append((count, unit))
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return " ".join(f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in parts)


@lru_cache(maxsize=1_024)  # a list of schedules has few different ones
def describe_cron(expression: CronExpression) -> str:
    times = _times(expression.minutes, expression.hours)
    days, months = _days(expression.days), _months(expression.days)
    if times.startswith("at ") and not days:
        times = f"every day {times}"
    return ", ".join(part for part in (times, days, months) if part)


# -- times of day --


def _times(minute_mask: int, hour_mask: int) -> str:
    minutes, hours = bits(minute_mask), bits(hour_mask)
    if hour_mask == _ALL_HOURS:
        return _in_every_hour(minutes)
    if len(minutes) * len(hours) <= _TIMES_LISTED:
        return "at " + _listed([_clock(hour, minute) for hour in hours for minute in minutes])
    if len(minutes) == 1 and (step := _step(hours, 24)):
        return f"every {step} hours at minute {minutes[0]}" if minutes[0] else f"every {step} hours"
    if _is_run(hours) and (len(minutes) == 1 or _step(minutes, 60)):
        first, last = _clock(hours[0], minutes[0]), _clock(hours[-1], minutes[-1])
        return f"{_in_every_hour(minutes)} from {first} to {last}"
    return f"{_in_hour(minutes)} of {'hour' if len(hours) == 1 else 'hours'} {_runs(hours)}"


def _in_every_hour(minutes: list[int]) -> str:
    if minutes == [0]:
        return "every hour"
    if len(minutes) == 1:
        return f"every hour at minute {minutes[0]}"
    return _in_hour(minutes) if _step(minutes, 60) else f"{_in_hour(minutes)} of every hour"


def _in_hour(minutes: list[int]) -> str:
    if step := _step(minutes, 60):
        return "every minute" if step == 1 else f"every {step} minutes"
    return f"minute{'s' if len(minutes) > 1 else ''} {_runs(minutes)}"


# -- days --


def _days(days: DayRule) -> str:
    has_every_date = days.dates == _ALL_DATES
    has_every_weekday = days.weekdays == _ALL_WEEKDAYS
    if days.both_must_match:
        if has_every_date and has_every_weekday:
            return ""
        if has_every_date:
            return _weekdays(days)
        if has_every_weekday:
            return _dates(days)
        return f"{_dates(days)}, only {_weekdays(days)}"
    if has_every_date or has_every_weekday:
        return ""
    return f"{_dates(days)} or {_weekdays(days)}"


def _dates(days: DayRule) -> str:
    dates = bits(days.dates)
    text = []
    if len(dates) > 2 and _is_run(dates):
        text.append(f"{_nth(dates[0])} to {_nth(dates[-1])}")
    elif len(dates) > 4 and (step := dates[1] - dates[0]) and _is_stepped(dates, step):
        text.append(f"{_nth(dates[0])}, {_nth(dates[1])}, {_nth(dates[2])} … {_nth(dates[-1])}")
    else:
        text.extend(_nth(date) for date in dates)
    if days.last_working_day:
        text.append("last working day")
    if days.last_day:
        text.append("last day")
    return f"on the {_listed(text)} of the month"


def _weekdays(days: DayRule) -> str:
    plain = [day or 7 for day in bits(days.weekdays)]
    plain.sort()  # the week begins on Monday
    text = []
    if len(plain) > 2 and _is_run(plain):
        text.append(f"{_WEEKDAYS[plain[0]]} to {_WEEKDAYS[plain[-1]]}")
    elif plain:
        text.append("on " + _listed([f"{_WEEKDAYS[day]}s" for day in plain]))
    once_a_month = [
        f"{_nth(which) if which else 'last'} {_WEEKDAYS[weekday]}" for weekday, which in days.nth_weekdays
    ]
    if once_a_month:
        text.append(f"on the {_listed(once_a_month)} of the month")
    return _listed(text)


def _months(days: DayRule) -> str:
    if days.months == _ALL_MONTHS:
        return ""
    months = bits(days.months)
    if len(months) > 2 and _is_run(months):
        return f"{_MONTHS[months[0] - 1]} to {_MONTHS[months[-1] - 1]}"
    return "in " + _listed([_MONTHS[month - 1] for month in months])


# -- lists and numbers --


def _is_run(values: list[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _is_stepped(values: list[int], step: int) -> bool:
    return values == list(range(values[0], values[-1] + 1, step))


def _step(values: list[int], whole: int) -> int:
    """Return the step of values that divide the whole evenly from 0 on, or 0 when they do not."""
    if len(values) < 2 or values[0] != 0:
        return 0
    step = values[1]
    return step if whole % step == 0 and values == list(range(0, whole, step)) else 0


def _runs(values: list[int]) -> str:
    """Write consecutive values as ranges: `1, 2, 3, 7` → `1–3 and 7`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    text = []
    for run in runs:
        text.extend([f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(value) for value in run])
    return _listed(text)


def _listed(text: list[str]) -> str:
    return f"{', '.join(text[:-1])} and {text[-1]}" if len(text) > 1 else "".join(text)


def _nth(number: int) -> str:
    ending = "th" if 11 <= number <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02d}:{minute:02d}"


# -- gaps and folds --


def describe_dst(series: Series, slot_at: int) -> str | None:
    """Describe how a change of the offset (DST) affects a slot; return None when it does not."""
    if not isinstance(series, CronSeries | MonthlySeries):
        return None
    zone, fold = series.zone, series.rule.fold
    span = zone.span_at(slot_at)
    reading = slot_at + span.offset
    shown_before = slot_at + zone.offset_at(slot_at - 1)
    if slot_at == span.start and shown_before < reading and series.is_shifted(slot_at):
        return (
            f"shifted: the clock jumps from {_time(shown_before, reading)} to {_time(reading, shown_before)}"
        )
    twins = zone.instants_of(reading, WILD)
    if len(twins) < 2:
        return None
    counted = {"first": "the first counts", "second": "the second counts", "both": "both count"}[fold]
    which = "first" if slot_at == twins[0] else "second"
    return f"doubled: {_time(reading)} comes twice, this is the {which} ({counted})"


def _time(reading: int, other: int | None = None) -> str:
    """Format the time of a reading, with its date when the other reading has a different date."""
    is_same_day = other is None or reading // DAY == other // DAY
    return wall_of(reading).strftime("%H:%M" if is_same_day else "%a %d %b %H:%M")
