"""The clock and the time zone of this machine: the only module that reads either."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import known_zones, zone

_LOCALTIME = Path("/etc/localtime")
_TIMEZONE = Path("/etc/timezone")
_ZONEINFO = Path("/usr/share/zoneinfo")


class Clock(Protocol):
    """Wall-clock instants for slots, monotonic seconds for sleeps, leases and timeouts."""

    def now(self) -> int:
        """Return the current instant, in microseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back and never jump."""
        ...


class SystemClock:
    """The system clock, in the units of the engine: microseconds since 1970."""

    def now(self) -> int:
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        return time.monotonic()


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def localized(moment: datetime) -> datetime:
    """Return a moment with the readings of the host's zone, to be shown.

    The C library knows that zone, but not its name. To find the name every zone of the system is listed, which takes
    longer than all else that a command does. TZ is resolved by name, because a program may set it after its start.
    """
    if "TZ" in os.environ:
        return zone(local_zone_name()).localized(moment)
    return moment.astimezone()


def local_zone_name() -> str:
    """Return the IANA name of the host's zone. It replaces `local` when it is stored, so that every node uses one zone.

    The sources are read in the C library's order: TZ (a name, or the path of a zone file; empty means UTC), then
    /etc/localtime, whose name Debian keeps in /etc/timezone.
    """
    spelled = os.environ.get("TZ")
    if spelled is None:
        candidates = names_on_disk(_LOCALTIME, _TIMEZONE, _ZONEINFO)
    else:
        candidates = [spelled.removeprefix(":").rpartition("/zoneinfo/")[2] or "UTC"]
    for name in candidates:
        if name == "UTC" or name in known_zones():
            return name
    raise TimetableError(
        "cannot tell the IANA name of this machine's time zone; set TZ (TZ=Europe/Paris) or name a timezone",
        key="timezone",
        value="local",
    )


def names_on_disk(localtime: Path, timezone: Path, zoneinfo: Path) -> Iterable[str]:
    if not localtime.exists():
        yield "UTC"  # as the C library does
        return
    if localtime.is_symlink():
        yield str(localtime.resolve()).rpartition("/zoneinfo/")[2]
        yield str(localtime.readlink()).rpartition("/zoneinfo/")[2]
    if timezone.is_file():
        yield timezone.read_text(errors="replace").strip()
    # A copied file has no name: look for a zone with the same content.
    content = localtime.read_bytes()
    for name in sorted(known_zones()):
        candidate = zoneinfo / name
        if candidate.is_file() and candidate.read_bytes() == content:
            yield name
