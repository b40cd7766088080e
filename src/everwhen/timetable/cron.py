"""Cron expressions: five fields as bit masks, and the days of a year that they match.

The semantics are Debian's, as cronsim implements them. `cron_series` turns an expression into slots.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from everwhen.errors import CronParseError, shown
from everwhen.timetable.civil_time import ORDINAL_OF_1970

SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
HORIZON_YEARS = 50
# What is kept of expressions must not grow with their length: longer ones are parsed each time.
LONGEST_SHARED = 200

_MONTH_NAMES = dict(zip("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), range(1, 13), strict=True))
_DAY_NAMES = dict(zip("SUN MON TUE WED THU FRI SAT".split(), range(7), strict=True))
_BLANKS = " \t\r\n"
_CHOICES = re.compile(f"[^{_BLANKS}]+")


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    example: str
    names: dict[str, int]


_MINUTE = _Field("minute", 0, 59, "*/15 * * * *", {})
_HOUR = _Field("hour", 0, 23, "0 9 * * *", {})
_DAY_OF_MONTH = _Field("day-of-month", 1, 31, "0 0 1 * *", {})
_MONTH = _Field("month", 1, 12, "0 0 1 1 *", _MONTH_NAMES)
_DAY_OF_WEEK = _Field("day-of-week", 0, 7, "0 9 * * 1-5", _DAY_NAMES)


class Year(NamedTuple):
    """The matching days of one year: bit 0 of the mask is its first day. Days are counted from 1970-01-01."""

    first: int
    end: int
    mask: int


@dataclass(frozen=True)
class DayRule:
    """The three day fields of an expression. Bit n of a mask represents the value n; Sunday is 0.

    Equal fields share one rule, and so its cached years: most of a million schedules have `* * *` or `* * 1-5`.
    """

    dates: int
    last_day: bool
    last_working_day: bool
    months: int
    weekdays: int
    nth_weekdays: tuple[tuple[int, int], ...]  # (weekday, which of the month); 0 is the last
    both_must_match: bool
    _years: dict[int, Year] = field(default_factory=dict, init=False, repr=False, compare=False)

    def year_of(self, day: int) -> Year:
        """Return the year that contains a day (counted from 1970-01-01)."""
        if not _FIRST_DAY <= day <= _LAST_DAY:
            return Year(day, day + 1, 0)  # `date` supports the years 1 to 9999; nothing matches outside them
        number = date.fromordinal(day + ORDINAL_OF_1970).year
        year = self._years.get(number)
        if year is None:
            if len(self._years) >= _YEARS_KEPT:
                self._years.clear()
            first = date(number, 1, 1).toordinal() - ORDINAL_OF_1970
            end = date(number, 12, 31).toordinal() - ORDINAL_OF_1970 + 1
            year = self._years[number] = Year(first, end, self.days_of_year(number))
        return year

    def days_of_year(self, year: int) -> int:
        """Return the mask of the matching days of a year: bit 0 is 1 January."""
        days, shift = 0, 0
        leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        weekday = date(year, 1, 1).isoweekday() % 7
        for month in range(1, 13):
            length = 29 if month == 2 and leap else _MONTH_LENGTHS[month]
            if self.months >> month & 1:
                days |= self.days_of_month(length, weekday) << shift
            shift += length
            weekday = (weekday + length) % 7
        return days

    def days_of_month(self, length: int, first_weekday: int) -> int:
        """Return the mask of the matching days of a month, by its length and first weekday: bit 0 is the 1st."""
        whole = (1 << length) - 1
        by_date = self.dates >> 1 & whole
        if self.last_day:
            by_date |= 1 << (length - 1)
        if self.last_working_day:
            by_date |= 1 << _last_working_day(length, first_weekday)
        # Seven bits, rotated so that bit 0 is the weekday of the 1st, repeated for five weeks.
        week = (self.weekdays >> first_weekday | self.weekdays << (7 - first_weekday)) & 0x7F
        by_weekday = week * 0x10204081 & whole
        for weekday, nth in self.nth_weekdays:
            by_weekday |= _nth_weekday(length, first_weekday, weekday, nth)
        return by_date & by_weekday if self.both_must_match else by_date | by_weekday


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A parsed expression: minutes and hours as masks, and the rule for its days."""

    text: str
    minutes: int
    hours: int
    days: DayRule
    is_wild: bool

    def __str__(self) -> str:
        return self.text

    def times_of_day(self) -> int:
        """Return the matching minutes of a day as one mask of 1,440 bits."""
        times = 0
        for hour in bits(self.hours):
            times |= self.minutes << (60 * hour)
        return times


_FIRST_DAY = date.min.toordinal() - ORDINAL_OF_1970
_LAST_DAY = date.max.toordinal() - ORDINAL_OF_1970
_YEARS_KEPT = 200

_MONTH_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _last_working_day(length: int, first_weekday: int) -> int:
    last = length - 1
    weekday = (first_weekday + last) % 7
    return last - {0: 2, 6: 1}.get(weekday, 0)


def _nth_weekday(length: int, first_weekday: int, weekday: int, nth: int) -> int:
    first = (weekday - first_weekday) % 7
    day = first + 7 * (nth - 1) if nth else first + (length - 1 - first) // 7 * 7
    return 1 << day if day < length else 0


def bits(mask: int) -> list[int]:
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


# -- parsing --


def parse_cron(text: str) -> CronExpression:
    """Parse a cron expression; raise CronParseError, which names the invalid field."""
    if not isinstance(text, str):
        raise _shape_error(text, f"expected text, got {type(text).__name__}")
    return _parse_shared(text) if len(text) <= LONGEST_SHARED else _parse(text)


def _parse(text: str) -> CronExpression:
    words = _CHOICES.findall(_expand_shorthand(text))
    if len(words) != 5:
        raise _shape_error(text, f"expected 5 fields, got {len(words)}")
    # upper() turns some non-ASCII letters into ASCII ones ("ſun"), so such a field is replaced by an invalid one first.
    fields = [word.upper() if word.isascii() else "?" for word in words]
    minute, hour, day, month, weekday = fields
    expression = CronExpression(
        text=" ".join(_CHOICES.findall(text)),
        minutes=_parse_field(text, _MINUTE, minute),
        hours=_parse_field(text, _HOUR, hour),
        days=_parse_days(text, day, month, weekday),
        is_wild=minute.startswith("*") or hour.startswith("*"),
    )
    if _never_matches(expression.days):
        raise CronParseError(
            "never matches", expression=text, field=_DAY_OF_MONTH.name, example=_DAY_OF_MONTH.example
        )
    return expression


_parse_shared = lru_cache(maxsize=4_096)(_parse)  # thousands of schedules have `0 9 * * *`


def _expand_shorthand(text: str) -> str:
    word = text.strip(_BLANKS)
    if not word.startswith("@"):
        return word
    try:
        return SHORTHANDS[word.lower()]
    except KeyError:
        shorthand = shown(word)
        raise _shape_error(text, f'unknown shorthand "{shorthand}"', example="@daily") from None


def _parse_days(text: str, day: str, month: str, weekday: str) -> DayRule:
    dates, last_day, last_working_day = _parse_dates(text, day)
    months = _parse_field(text, _MONTH, month)
    weekdays, nth_weekdays = _parse_weekdays(text, weekday)
    both_must_match = day.startswith("*") or weekday.startswith("*")
    return _shared_rule(
        dates,
        last_day,
        last_working_day,
        months,
        weekdays=weekdays,
        nth_weekdays=nth_weekdays,
        both_must_match=both_must_match,
    )


_shared_rule = lru_cache(maxsize=1_024)(DayRule)


def _parse_dates(text: str, field: str) -> tuple[int, bool, bool]:
    """Parse the days of the month into a mask, whether the last day matches, and whether the last working day does."""
    terms = field.split(",")
    plain = [term for term in terms if term not in ("L", "LW")]
    mask = _parse_field(text, _DAY_OF_MONTH, ",".join(plain)) if plain else 0
    return mask, "L" in terms, "LW" in terms


def _parse_weekdays(text: str, field: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Parse the days of the week into a mask, and those that match only once a month."""
    plain: list[str] = []
    nth: list[tuple[int, int]] = []
    for term in field.split(","):
        if "#" in term:
            weekday, _, which = term.partition("#")
            nth.append((_parse_value(text, _DAY_OF_WEEK, weekday) % 7, _parse_nth(text, which)))
        elif term.endswith("L") and term[:-1].isdigit():
            nth.append((_parse_value(text, _DAY_OF_WEEK, term[:-1]) % 7, 0))
        else:
            plain.append(term)
    mask = _parse_field(text, _DAY_OF_WEEK, ",".join(plain)) if plain else 0
    return (mask | mask >> 7) & 0x7F, tuple(dict.fromkeys(nth))  # 7 is also Sunday


def _parse_nth(text: str, which: str) -> int:
    nth = _parse_number(text, _DAY_OF_WEEK, which)
    if not 1 <= nth <= 5:
        raise _field_error(text, _DAY_OF_WEEK)
    return nth


def _parse_field(text: str, field: _Field, spelled: str) -> int:
    mask = 0
    for term in spelled.split(","):
        mask |= _parse_term(text, field, term)
    return mask


def _parse_term(text: str, field: _Field, term: str) -> int:
    """Parse `*`, `5` or `5-9`, each with an optional `/step`, into a mask; `5/step` runs to the end of the field."""
    body, slash, step = term.partition("/")
    stride = _parse_number(text, field, step) if slash else 1
    if stride == 0:
        raise _field_error(text, field)
    if body == "*":
        first, last = field.low, field.high
    elif "-" in body:
        low, _, high = body.partition("-")
        first, last = _parse_value(text, field, low), _parse_value(text, field, high)
    else:
        first = _parse_value(text, field, body)
        last = field.high if slash else first
    if last < first:
        raise _field_error(text, field)
    mask = 0
    for value in range(first, last + 1, stride):
        mask |= 1 << value
    return mask


def _parse_value(text: str, field: _Field, word: str) -> int:
    value = field.names.get(word)
    if value is None:
        value = _parse_number(text, field, word)
    if not field.low <= value <= field.high:
        raise _field_error(text, field)
    return value


def _parse_number(text: str, field: _Field, word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 9):
        raise _field_error(text, field)
    return int(word)


def _field_error(text: str, field: _Field) -> CronParseError:
    fault = f"{field.name} must be {field.low}-{field.high}"
    return CronParseError(fault, expression=text, field=field.name, example=field.example)


def _shape_error(text: object, fault: str, example: str = "0 9 * * 1-5") -> CronParseError:
    return CronParseError(fault, expression=text, field=None, example=example)


def _never_matches(days: DayRule) -> bool:
    # Every month begins on every weekday in some year (a February of 29 days, too: within 40 years). So a rule that
    # matches in no month of any length and first weekday never matches. A shorter February has dates of its own for
    # the last days: its last Sunday can be the 22nd, that of a longer one cannot.
    lengths = {length for month in bits(days.months) for length in _lengths_of_month(month)}
    return not any(days.days_of_month(length, weekday) for length in lengths for weekday in range(7))


def _lengths_of_month(month: int) -> tuple[int, ...]:
    return (28, 29) if month == 2 else (_MONTH_LENGTHS[month],)
