"""Instants as people read and type them: one form on every surface, which names its zone and can be typed back."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from everwhen.errors import TimetableError, shown
from everwhen.timetable.civil_time import WILD, Zone, reading_of
from everwhen.timetable.trigger import parse_instant

_TYPED = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) +)?"
    r"(?P<day>\d{4}-\d{2}-\d{2}(?=[Tt ]|$))?[Tt ]*"
    r"(?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
    r" *(?P<name>[A-Za-z]{1,6})? *(?P<offset>[+-]\d{2}:\d{2})?",
    re.ASCII,
)
_OF_UTC = frozenset(("Z", "UTC", "GMT"))


def format_datetime(local: datetime, *, exact: bool = False) -> str:
    """Format an aware datetime in the readings that it has, with its abbreviation and its offset.

    UTC needs no offset, and some zones have no abbreviation. `exact`: with a fraction of a second, if it has one.

    >>> from datetime import UTC
    >>> from everwhen.timetable.civil_time import zone
    >>> moment = datetime(2026, 11, 16, 8, tzinfo=UTC)
    >>> [format_datetime(zone(name).localized(moment)) for name in ("Europe/Paris", "Asia/Dubai", "UTC")]
    ['Mon 2026-11-16 09:00:00 CET +01:00', 'Mon 2026-11-16 12:00:00 +04:00', 'Mon 2026-11-16 08:00:00 UTC']
    """
    text, name = local.isoformat(" ", "seconds"), local.tzname() or ""
    reading, offset = text[:19], text[19:]
    if exact and local.microsecond:
        reading += f".{local.microsecond:06}".rstrip("0")
    if name == "UTC":
        return f"{local:%a} {reading} UTC"
    abbreviation = f"{name} " if name.isalpha() else ""
    return f"{local:%a} {reading} {abbreviation}{offset}"


class _Typed(NamedTuple):
    """The parts of a typed instant; those that were left out are None."""

    day: str | None
    clock: str | None
    name: str | None
    offset: str | None


def read_instant(text: str, zone: Zone, now: datetime) -> int:
    """Read an instant that a person typed or copied, as whole seconds, rounded up.

    It may be in the form of `format_datetime` or of RFC 3339. Without an offset it is in the zone, where an
    abbreviation distinguishes the two readings of a fold. A date alone is its midnight, a time alone is today's.

    >>> from datetime import UTC
    >>> from everwhen.timetable.civil_time import zone
    >>> where, now = zone("America/New_York"), datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> [read_instant(text, where, now) % 86_400 // 3_600 for text in ("01:30", "01:30 EST", "01:30 +05:00")]
    [5, 6, 20]
    """
    match = _TYPED.fullmatch(text.strip())
    typed = None if match is None else _Typed(**match.groupdict())
    if typed is None or not (typed.day or typed.clock):
        raise _make_error(text)
    offset = "Z" if (typed.name or "").upper() in _OF_UTC else ""
    offset = typed.offset or offset
    day = typed.day or _today(offset, zone, now)
    wall = f"{day}T{typed.clock or '00:00'}"
    if typed.name is None or offset:
        return parse_instant(f"{wall}{offset}", zone)
    return _named_instant(wall, typed.name, zone)


def as_rfc3339(text: str) -> str:
    """Return an instant in the form of `format_datetime` as RFC 3339; any other text stays as it is.

    >>> as_rfc3339("Mon 2026-11-16 09:00:00 CET +01:00"), as_rfc3339("Mon 2026-11-16 08:00:00 UTC"), as_rfc3339("noon")
    ('2026-11-16T09:00:00+01:00', '2026-11-16T08:00:00Z', 'noon')
    """
    match = _TYPED.fullmatch(text)
    typed = None if match is None else _Typed(**match.groupdict())
    if typed is None or typed.day is None or typed.clock is None:
        return text
    offset = typed.offset or ("Z" if (typed.name or "").upper() in _OF_UTC else "")
    return f"{typed.day}T{typed.clock}{offset}" if offset else text


def _today(offset: str, zone: Zone, now: datetime) -> str:
    if offset:
        local = now.astimezone(datetime.fromisoformat(f"2000-01-01T00:00{offset}").tzinfo)
    else:
        local = zone.localized(now)
    return local.date().isoformat()


def _named_instant(wall: str, name: str, zone: Zone) -> int:
    """Return the instant at which the clocks of the zone show this time under this abbreviation."""
    first = parse_instant(wall, zone)
    naive = zone.datetime(first).replace(tzinfo=None)
    for instant in zone.instants_of(reading_of(naive), WILD):
        if zone.datetime(instant).tzname() == name.upper():
            return instant
    raise TimetableError(
        f'"{shown(name)}" is not what clocks in {zone.name} show at {naive.isoformat(" ")}; '
        f"write the offset, such as {_offset_at(first, zone)}",
        key="at",
        value=name,
    )


def _offset_at(instant: int, zone: Zone) -> str:
    return zone.datetime(instant).isoformat()[19:]


def _make_error(text: str) -> TimetableError:
    return TimetableError(
        f'"{shown(text)}" is not an instant; write it like 2026-12-24T18:00, 18:00 for today, '
        "or with an offset 2026-12-24T18:00:00+01:00",
        key="at",
        value=text,
    )
