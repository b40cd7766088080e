"""Instants for people: as local time of a zone, and as the distance from now."""

from __future__ import annotations

from datetime import datetime

import click

from everwhen.clock import local_zone_name, localized, now
from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.trigger import parse_instant

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def moment_text(text: str | None, where: str | None = None, *, none: str = "–") -> str:
    """Format as `Mon 16 Nov 09:00:00 CET`, with the year unless it is this one; in the given zone or this machine's."""
    if text is None:
        return none
    moment = datetime.fromisoformat(text)
    moment = localized(moment) if where is None else zone(where).localized(moment)
    year = "" if moment.year == now().year else f" {moment.year}"
    return f"{moment:%a} {moment.day:>2} {moment:%b}{year} {moment:%H:%M:%S %Z}"


def away(text: str | None) -> str:
    """Format as `in 5m`, `3h ago`: the one or two largest units."""
    if text is None:
        return ""
    seconds = (datetime.fromisoformat(text) - now()).total_seconds()
    fields = span_text(abs(seconds))
    return f"in {fields}" if seconds >= 0 else f"{fields} ago"


def span_text(seconds: float) -> str:
    """Format as `1h 5m`, `0.3s`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    found, left = [], int(seconds)
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            found.append(f"{count}{unit}")
    return " ".join(found[:2])


def instant_option(option: str, text: str | None, where: str) -> str | None:
    """Convert an instant that a user typed to the format of the API; without an offset it is read in `where`."""
    if text is None:
        return None
    try:
        spelled = f"{text}T00:00" if len(text) == 10 else text
        return _zone(where).datetime(parse_instant(spelled, _zone(where))).isoformat()
    except TimetableError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _zone(name: str | None) -> Zone:
    return zone(name or local_zone_name())


def seconds_between(start: str, end: str | None) -> float:
    """Return the seconds from one instant of a response to another, or to now."""
    last = now() if end is None else datetime.fromisoformat(end)
    return (last - datetime.fromisoformat(start)).total_seconds()
