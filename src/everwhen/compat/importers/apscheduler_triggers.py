"""The triggers of APScheduler 3 as keys of a schedule. A trigger is known by its class's name; nothing is imported.

What would fire at other times than it does there is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from everwhen.timetable.civil_time import zone

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")  # 0 is Monday there
_BOUNDS = {"minute": 59, "hour": 23, "day": 31, "month": 12, "day_of_week": 6, "second": 59}
_LAST = 5  # the place of "last" among the positions of a weekday
_GRID = datetime(2000, 1, 1, tzinfo=UTC)  # a whole minute in the past
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


class LeftOutError(Exception):
    """A job that cannot be a schedule here, and why."""


class Reading(NamedTuple):
    """What a trigger is read with: the instant, whether code declares it anew at each start, and where notes go."""

    now: datetime
    is_declared: bool
    note: Callable[[str], None]


def trigger_keys(trigger: Any, reading: Reading) -> dict[str, Any]:
    """Return the keys of a trigger with its bounds and its jitter; LeftOutError where it has no form here."""
    kind = type(trigger)
    convert = _CONVERTERS.get(kind.__name__) if kind.__module__.startswith("apscheduler.") else None
    if convert is None:
        advice = _ADVICE.get(kind.__name__, "there is no such trigger here")
        raise LeftOutError(f"its trigger is {trigger}: {advice}")
    keys = convert(trigger, reading)
    return keys | _jitter(trigger, keys, reading)


def duration_text(seconds: float) -> str:
    """Return whole seconds as the text of a duration.

    >>> duration_text(5400), duration_text(604800)
    ('1h30m', '7d')
    """
    text, rest = "", ceil(seconds)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _interval(trigger: Any, reading: Reading) -> dict[str, Any]:
    seconds = trigger.interval.total_seconds()
    if seconds != int(seconds) or seconds <= 0:
        raise LeftOutError(f"every {seconds:g} s cannot be kept; slots are whole seconds")
    keys: dict[str, Any] = {"every": duration_text(seconds)}
    # Without a start_date the trigger counts from the instant at which it was made, and only that has microseconds.
    if reading.is_declared and trigger.start_date.microsecond:
        keys["first_run"] = "after_interval"
    else:
        keys["start_at"] = _text(trigger.start_date)
    return keys | _end(trigger)


def _date(trigger: Any, reading: Reading) -> dict[str, Any]:
    if trigger.run_date <= reading.now:
        raise LeftOutError(
            f"its date {_text(trigger.run_date)} is past; a job without a trigger, which runs when the program starts,"
            " is a call of its function there"
        )
    return {"at": _text(_whole(trigger.run_date))}


def _cron(trigger: Any, reading: Reading) -> dict[str, Any]:
    fields = {field.name: field for field in trigger.fields}
    for name, advice in (("year", "start_at and end_at bound it"), ("week", "give the days of the month")):
        if str(fields[name]) != "*":
            raise LeftOutError(f"{name}={fields[name]}: the five fields of cron have no {name}; {advice}")
    bounds = {} if trigger.start_date is None else {"start_at": _text(_whole(trigger.start_date))}
    if str(fields["second"]) != "0":
        return _seconds(trigger, fields) | _end(trigger)
    keys = _days(fields, reading) | {"timezone": zone_name(trigger.timezone)}
    return keys | bounds | _end(trigger)


def _seconds(trigger: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Convert seconds at even distances in every minute to an interval; there is no other form for them."""
    found = sorted(_values_of(fields["second"]))
    step = 60 // len(found)
    is_even = found == list(range(found[0], 60, step)) and 60 % len(found) == 0
    if not is_even or any(str(field) != "*" for name, field in fields.items() if name != "second"):
        raise LeftOutError(
            f"second={fields['second']}: the five fields of cron have no seconds; take a whole minute or an interval"
        )
    first = _GRID + timedelta(seconds=found[0])
    if trigger.start_date is not None and trigger.start_date > first:
        first += ceil((trigger.start_date - first) / timedelta(seconds=step)) * timedelta(seconds=step)
    return {"every": duration_text(step), "start_at": _text(first)}


def _days(fields: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """Convert the fields; day and day_of_week must both match there, while one is enough for cron."""
    positions = [one for one in fields["day"].expressions if hasattr(one, "option_num")]
    others = [one for one in fields["day"].expressions if one not in positions]
    weekdays = _values_of(fields["day_of_week"])
    dates = _list_of(others, "day") if others else "*"
    if dates.startswith("*/") and positions:
        dates = f"1-31{dates[1:]}"  # beside a star cron lets both fields decide
    names = ",".join(_position(one) for one in positions) if dates != "*" or not others else ""
    keys: dict[str, Any] = {}
    if len(weekdays) < len(_WEEKDAYS):
        if str(fields["day"]) == "*":
            names = ",".join(_WEEKDAYS[day] for day in sorted(weekdays))
        else:
            keys["not_on"] = [name for day, name in enumerate(_WEEKDAYS) if day not in weekdays]
            reading.note("day and day_of_week must both match; not_on leaves the other weekdays out")
    minute, hour, month = (_list_of(fields[name].expressions, name) for name in ("minute", "hour", "month"))
    return {"cron": f"{minute} {hour} {dates} {month} {names or '*'}"} | keys


def _position(expression: Any) -> str:
    weekday = (expression.weekday + 1) % 7
    return f"{weekday}L" if expression.option_num == _LAST else f"{weekday}#{expression.option_num + 1}"


def _list_of(expressions: list[Any], name: str) -> str:
    found = [_expression(one, name) for one in expressions]
    return "*" if "*" in found else ",".join(found)


def _expression(expression: Any, name: str) -> str:
    if type(expression).__name__ == "LastDayOfMonthExpression":
        return "L"
    if not hasattr(expression, "first"):
        return f"*/{expression.step}" if expression.step else "*"
    last = _BOUNDS[name] if expression.last is None else expression.last
    step = f"/{expression.step}" if expression.step else ""
    return str(expression.first) if last == expression.first else f"{expression.first}-{last}{step}"


def _values_of(field: Any) -> set[int]:
    found: set[int] = set()
    for one in field.expressions:
        last = getattr(one, "last", None)
        most = _BOUNDS[field.name] if last is None else last
        found.update(range(getattr(one, "first", 0), most + 1, one.step or 1))
    return found


def _calendar(trigger: Any, reading: Reading) -> dict[str, Any]:
    """Convert an interval of the calendar: daily, weekly, or some months of a year, at a time of day."""
    at, start = trigger._time, trigger.start_date
    if at.second:
        raise LeftOutError(f"it runs at {at:%H:%M:%S}: the five fields of cron have no seconds")
    months = 12 * trigger.years + trigger.months
    days = 7 * trigger.weeks + trigger.days
    if (months, days) == (0, 1):
        rest = "* * *"
    elif (months, days) == (0, 7):
        rest = f"* * {_WEEKDAYS[start.weekday()]}"
    elif days == 0 and 12 % months == 0:
        found = sorted((start.month - 1 + step) % 12 + 1 for step in range(0, 12, months))
        rest = f"{start.day} {'*' if months == 1 else ','.join(map(str, found))} *"
    else:
        raise LeftOutError(
            f"its trigger is {trigger}: cron cannot count days over the end of a month or year"
        )
    keys: dict[str, Any] = {
        "cron": f"{at.minute} {at.hour} {rest}",
        "timezone": zone_name(trigger.timezone),
    }
    if _midnight(start, trigger) > reading.now:
        keys["start_at"] = _text(_midnight(start, trigger))
    if trigger.end_date is not None:
        keys["end_at"] = _text(_midnight(trigger.end_date + timedelta(days=1), trigger))
    return keys


def _midnight(day: date, trigger: Any) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=trigger.timezone)


def _end(trigger: Any) -> dict[str, Any]:
    """Return the end, which is itself still a time to fire there, and is not here."""
    if trigger.end_date is None:
        return {}
    return {"end_at": _text(trigger.end_date.replace(microsecond=0) + timedelta(seconds=1))}


def _jitter(trigger: Any, keys: dict[str, Any], reading: Reading) -> dict[str, Any]:
    seconds = getattr(trigger, "jitter", None)
    if not seconds:
        return {}
    interval = getattr(trigger, "interval", None)
    if "at" in keys or (interval is not None and seconds >= interval.total_seconds()):
        reading.note(f"jitter={seconds} is left out; it must be smaller than the interval")
        return {}
    return {"jitter": duration_text(seconds)}


def zone_name(info: Any) -> str:
    """Return the IANA name of a zone of any library; raise TimetableError for a mere offset."""
    return zone(str(getattr(info, "key", None) or getattr(info, "zone", None) or info)).name


def _whole(moment: datetime) -> datetime:
    """Return the next whole second."""
    cut = moment.replace(microsecond=0)
    return cut if cut == moment else cut + timedelta(seconds=1)


def _text(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat()


_CONVERTERS: dict[str, Callable[[Any, Reading], dict[str, Any]]] = {
    "IntervalTrigger": _interval,
    "DateTrigger": _date,
    "CronTrigger": _cron,
    "CalendarIntervalTrigger": _calendar,
}
_ADVICE = {
    "OrTrigger": "give each of its triggers a schedule of its own",
    "AndTrigger": "write the times that all of them mean as one cron expression, with not_on or only_between",
}
