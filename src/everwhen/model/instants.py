"""Instants as microseconds: the constants, and the conversions to and from datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from everwhen.timetable.civil_time import Zone
from everwhen.timetable.instant_text import format_datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
END = 253_402_300_800 * SECOND  # of the year 9999, the last that a datetime can have

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: int) -> datetime:
    """Return an instant as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def optional_datetime(instant: int | None) -> datetime | None:
    """Return an instant as a datetime in UTC, or None for None."""
    return None if instant is None else to_datetime(instant)


def rfc3339_text(instant: int) -> str:
    """Return an instant as RFC 3339 in UTC.

    >>> rfc3339_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return to_datetime(instant).isoformat().replace("+00:00", "Z")


def format_instant(instant: int, zone: Zone, *, exact: bool = False) -> str:
    """Return an instant as people read it, in a zone: of a schedule in its own. `exact`: with its fraction of a second.

    >>> from everwhen.timetable.civil_time import zone
    >>> format_instant(1_500_000, zone("Asia/Kolkata"))
    'Thu 1970-01-01 05:30:01 IST +05:30'
    >>> format_instant(1_500_000, zone("UTC"), exact=True)
    'Thu 1970-01-01 00:00:01.5 UTC'
    """
    return format_datetime(zone.localized(to_datetime(instant)), exact=exact)


def format_duration(microseconds: int) -> str:
    """Return a duration as people read it, in its two largest units.

    >>> format_duration(202 * SECOND), format_duration(7_205 * SECOND), format_duration(49 * HOUR)
    ('3 min 22 s', '2 h', '2 d 1 h')
    """
    seconds, parts = microseconds // SECOND, []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        parts.append(f"{count} {'min' if unit == 'm' else unit}" if count else "")
    first = next((number for number, part in enumerate(parts) if part), len(parts) - 1)
    return " ".join(part for part in parts[first : first + 2] if part) or "0 s"


def duration_text(microseconds: int | None) -> str | None:
    """Format a duration as it is written in a file.

    >>> duration_text(5_400_000_000), duration_text(None)
    ('1h30m', None)
    """
    if microseconds is None:
        return None
    seconds, text = microseconds // SECOND, ""
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text
