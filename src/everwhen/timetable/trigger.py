"""The triggers that a schedule can have, as values, and how they are parsed.

A schedule has exactly one of `every`, `cron`, `at` and `after`; `webhook` and `chat` are fired by a request, never by
the clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from everwhen.errors import TimetableError, shown
from everwhen.timetable.civil_time import (
    DAY,
    EARLIEST,
    EPOCH,
    FIXED,
    LATEST,
    DstRule,
    Zone,
    reading_of,
)
from everwhen.timetable.cron import CronExpression, parse_cron
from everwhen.timetable.interval import ALIASES, parse_seconds

MICROSECONDS = 1_000_000  # of a second
InstantKind = Literal["at", "after"]
RequestKind = Literal["webhook", "chat"]


@dataclass(frozen=True, slots=True)
class Every:
    """A plain interval of elapsed time."""

    seconds: int
    text: str


@dataclass(frozen=True, slots=True)
class EveryMonth:
    """A calendar month at the anchor's wall-clock time."""

    text: str = "monthly"


@dataclass(frozen=True, slots=True)
class Cron:
    """Every match of a cron expression."""

    expression: CronExpression


@dataclass(frozen=True, slots=True)
class Once:
    """One instant: given directly (`at`), or computed at creation from a delay (`after`).

    `instant` is the whole second in which it lies, which is its slot; it is due `fraction` microseconds later.
    """

    instant: int
    kind: InstantKind
    text: str
    fraction: int = 0

    @property
    def due_at(self) -> int:
        """Return the instant itself, in microseconds since 1970."""
        return self.instant * MICROSECONDS + self.fraction


@dataclass(frozen=True, slots=True)
class OnRequest:
    """Fired by a webhook or a chat message; the clock never fires it."""

    kind: RequestKind


Trigger = Every | EveryMonth | Cron | Once | OnRequest


def parse_trigger(
    *,
    every: str | None = None,
    cron: str | None = None,
    at: str | datetime | None = None,
    after: str | None = None,
    zone: Zone,
    created_at: float,
    dst: DstRule = FIXED,
) -> Trigger:
    """Parse the one trigger that is set; raise TimetableError when none or several are."""
    given = [
        key
        for key, value in (("every", every), ("cron", cron), ("at", at), ("after", after))
        if value is not None
    ]
    if not given:
        raise TimetableError("requires one of every, cron, at, or after", key="trigger")
    if len(given) > 1:
        raise TimetableError("must set exactly one of every, cron, at, or after", key="trigger", value=given)
    if every is not None:
        return parse_every(every)
    if cron is not None:
        return Cron(parse_cron(cron))
    if at is not None:
        second, fraction = parse_exact_instant(at, zone, dst)
        return Once(second, "at", str(at), fraction)
    assert after is not None
    return parse_after(after, created_at)


def parse_after(text: str, created_at: float) -> Once:
    """Parse a delay from creation, in seconds since 1970, into an instant."""
    second, fraction = divmod(round(created_at * MICROSECONDS), MICROSECONDS)
    return Once(second + parse_seconds(text), "after", text, fraction)


def parse_every(text: str) -> Every | EveryMonth:
    """Parse an interval, or one of the names hourly, daily, weekly, monthly."""
    name = text.strip().lower() if isinstance(text, str) else ""
    if name == "monthly":
        return EveryMonth()
    if name in ALIASES:
        return Every(ALIASES[name], name)
    return Every(parse_seconds(text), text.strip())


_RFC_3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2})?)(\.\d+)? ?([Zz]|[+-]\d{2}:\d{2})?", re.ASCII
)


def parse_instant(moment: str | datetime, zone: Zone, rule: DstRule = FIXED) -> int:
    """Parse an RFC 3339 time into a whole second, rounded up; a time without an offset is local to the zone.

    By default gaps and folds are handled as for a fixed cron entry: shifted to the end of the gap, the first of two.
    """
    second, fraction = parse_exact_instant(moment, zone, rule)
    return second + (fraction > 0)


def parse_exact_instant(moment: str | datetime, zone: Zone, rule: DstRule = FIXED) -> tuple[int, int]:
    """Parse the same into the whole second in which it lies, and the microseconds after it."""
    given = moment
    if isinstance(moment, str):
        moment = _parse_rfc_3339(moment)
    if not isinstance(moment, datetime):
        raise _no_instant(given)
    second, fraction = _instant_of(moment, zone, rule)
    if not EARLIEST <= second < LATEST:
        raise _no_instant(given)
    return second, fraction


def is_naive(moment: str | datetime) -> bool:
    """Return whether a time has no offset, so that it is read in the schedule's zone.

    >>> is_naive("2026-12-24T18:00"), is_naive("2026-12-24T18:00Z")
    (True, False)
    """
    return (_parse_rfc_3339(moment) if isinstance(moment, str) else moment).utcoffset() is None


def _instant_of(moment: datetime, zone: Zone, rule: DstRule) -> tuple[int, int]:
    if moment.utcoffset() is not None:
        since = moment - EPOCH
        return since.days * DAY + since.seconds, since.microseconds
    moment = moment.replace(tzinfo=None)
    reading = reading_of(moment)
    instants = zone.instants_of(reading, rule)
    if not instants:
        raise TimetableError(
            f"{moment.isoformat(' ')} does not exist in {zone.name}: the clock jumps over it; "
            "give another time, or one with an offset",
            key="at",
            value=moment,
        )
    # A reading in a gap is shifted to the end of the gap, which has no fraction.
    is_shifted = instants[0] + zone.offset_at(instants[0]) != reading
    return instants[0], 0 if is_shifted else moment.microsecond


def _parse_rfc_3339(text: str) -> datetime:
    parts = _RFC_3339.fullmatch(text.strip())
    if parts is None:
        raise _no_instant(text)
    day, clock, fraction, offset = parts.groups()
    digits = (fraction or ".")[1:]
    # Never before the given instant: what is finer than a microsecond is rounded up.
    microseconds = int(digits[:6].ljust(6, "0")) + (digits[6:].strip("0") != "")
    spelled = f"{day}T{clock if len(clock) > 5 else clock + ':00'}"
    try:
        moment = datetime.fromisoformat(spelled + (offset or "").upper())
        moment += timedelta(microseconds=microseconds)
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _no_instant(text) from None


def _no_instant(value: object) -> TimetableError:
    return TimetableError(
        f'"{shown(value)}" is not an RFC 3339 time; write it like 2026-12-24T18:00:00+01:00',
        key="at",
        value=value,
    )
