"""What to write in place of an unknown zone: abbreviations and offsets stand for several zones, and lead to some."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache

from everwhen.timetable.civil_time import known_zones, zone

_OFFSET = re.compile(r"(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?", re.ASCII)
_LONGEST_ABBREVIATION = 5
_MOST_NAMED = 3
# The names that people look for first. Behind them come all others, by their letters.
_WELL_KNOWN = """
Europe/Berlin Europe/Paris Europe/London Europe/Helsinki Europe/Lisbon Europe/Madrid Europe/Moscow Europe/Istanbul
America/New_York America/Chicago America/Denver America/Los_Angeles America/Anchorage America/Halifax
America/St_Johns America/Mexico_City America/Bogota America/Sao_Paulo Pacific/Honolulu Pacific/Auckland
Australia/Sydney Australia/Brisbane Australia/Adelaide Australia/Perth Asia/Kolkata Asia/Shanghai Asia/Tokyo
Asia/Seoul Asia/Singapore Asia/Dubai Asia/Karachi Asia/Dhaka Asia/Jakarta Asia/Jerusalem Africa/Johannesburg
Africa/Lagos Africa/Nairobi Africa/Cairo
""".split()


def zone_hint(name: str) -> str:
    """Return what to write in place of an unknown zone."""
    if zones := _abbreviated_zones(name.upper()):
        return f"an abbreviation; use the name of a zone, such as {_listed(zones)}"
    if (offset := _parse_offset(name)) is not None:
        return _offset_hint(offset)
    by_lower = {known.lower(): known for known in known_zones()}
    # A short name without a place resembles others that mean another time.
    cutoff = 0.6 if len(name) > _LONGEST_ABBREVIATION else 1.0
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return (
        f'did you mean "{by_lower[near[0]]}"?' if near else "use an IANA name such as Europe/Paris, or local"
    )


def _offset_hint(offset: int) -> str:
    """Return zones of an offset: those that have it as their standard time, and those that have it in summer."""
    winter, summer = _zones_by_offset().get(offset, ((), ()))
    zones = [*winter[:2], *(f"{name} in summer" for name in summer[:1])]
    if not zones:
        return "an offset from UTC that no zone has; use an IANA name such as Europe/Paris, or local"
    exact = f"; Etc/GMT{-offset // 3_600:+d} is exactly this offset" if offset and offset % 3_600 == 0 else ""
    return f"an offset from UTC; use the name of a zone, such as {_listed(zones)}{exact}"


def _listed(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _parse_offset(text: str) -> int | None:
    """Return the seconds east of UTC of `+02:00`, `UTC+2` or `GMT-0530`; None for any other text."""
    found = _OFFSET.fullmatch(text.upper())
    if found is None:
        return None
    seconds = 3_600 * int(found["hours"]) + 60 * int(found["minutes"] or 0)
    return -seconds if found["sign"] == "-" else seconds


def _abbreviated_zones(name: str) -> list[str]:
    """Return a few zones that go by an abbreviation, of each of its meanings one before a second of any."""
    meanings = _zones_by_abbreviation().get(name, {})
    firsts = [zones[0] for zones in meanings.values()]
    others = [zone for zones in meanings.values() for zone in zones[1:] if zone in _WELL_KNOWN]
    return [*firsts, *others][:_MOST_NAMED]


@lru_cache(maxsize=1)
def _zones_by_abbreviation() -> dict[str, dict[int, list[str]]]:
    """Return the zones that go by an abbreviation at some time of the year, by what it means there."""
    found: dict[str, dict[int, list[str]]] = {}
    for name, readings in _yearly_readings():
        for reading in readings:
            abbreviation = reading.tzname() or ""
            if abbreviation.isalpha():
                zones = found.setdefault(abbreviation, {}).setdefault(_offset_of(reading), [])
                zones.extend([name] if name not in zones else [])
    return found


@lru_cache(maxsize=1)
def _zones_by_offset() -> dict[int, tuple[list[str], list[str]]]:
    """Return the zones of each offset: those whose standard time it is, and those that have it in summer."""
    found: dict[int, tuple[list[str], list[str]]] = {}
    for name, readings in _yearly_readings():
        winter, *summer = sorted({_offset_of(reading) for reading in readings})
        found.setdefault(winter, ([], []))[0].append(name)
        for offset in summer:
            found.setdefault(offset, ([], []))[1].append(name)
    return found


def _yearly_readings() -> Iterator[tuple[str, list[datetime]]]:
    """Yield each zone of a place with a reading in January and one in July, of a year in which today's rules hold."""
    places = sorted(name for name in known_zones() if "/" in name and not name.startswith("Etc/"))
    for name in dict.fromkeys((*(known for known in _WELL_KNOWN if known in known_zones()), *places)):
        info = zone(name).tzinfo
        yield name, [datetime(2400, month, 1, 12, tzinfo=info) for month in (1, 7)]


def _offset_of(reading: datetime) -> int:
    offset = reading.utcoffset()
    assert offset is not None  # the reading is aware
    return int(offset.total_seconds())
