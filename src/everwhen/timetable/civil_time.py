"""Zones: conversion between instants and readings of the wall clock, with gaps and folds.

A zone is a sequence of *spans*, ranges of instants with one offset from UTC. Where two spans meet, the readings may
jump: forwards, so that some readings never happen (a gap), or backwards, so that some happen twice (a fold). A
`DstRule` defines what happens to a slot that is planned for such a reading.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple

from everwhen.errors import TimetableError, shown

Gap = Literal["shift", "skip"]
Fold = Literal["first", "second", "both"]

DAY = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDINAL_OF_1970 = EPOCH.toordinal()
_EPOCH_NAIVE = datetime(1970, 1, 1)

# The range that datetime can represent in every zone, a few days inside its own limits.
EARLIEST = -62_135_300_000
LATEST = 253_402_000_000


@dataclass(frozen=True, slots=True)
class DstRule:
    """The rule for readings that fall into a gap, and for which of the two readings of a fold count."""

    gap: Gap
    fold: Fold

    def overridden(self, *, gap: Gap | None = None, fold: Fold | None = None) -> DstRule:
        if gap is None and fold is None:  # the usual case
            return self
        return DstRule(gap or self.gap, fold or self.fold)


FIXED = DstRule(gap="shift", fold="first")
WILD = DstRule(gap="skip", fold="both")


class Span(NamedTuple):
    """Instants start ≤ t < end with one offset; of its readings, those with count_from ≤ r < count_until count.

    It is a named tuple because the hot path unpacks it in one step. A span may also end where the offset does not
    change (at the edge of a probed stretch); that is harmless.
    """

    start: int
    end: int
    offset: int
    count_from: int
    count_until: int

    @property
    def first_reading(self) -> int:
        return self.start + self.offset

    @property
    def end_reading(self) -> int:
        return self.end + self.offset


class Zone:
    """One time zone. It is probed through its tzinfo in stretches of about a year, and the results are cached.

    zoneinfo has no API for transitions, but an offset is cheap to look up. In tzdata no offset since 1970 has lasted
    less than 6.9 days (a test checks this), so a probe every three days finds every change, and a bisection finds its
    second.
    """

    __slots__ = ("_only_span", "_spans", "_stretches", "name", "tzinfo")

    _STRETCH = 1 << 25  # 388 days
    _PROBE = 3 * DAY

    def __init__(self, info: tzinfo) -> None:
        self.tzinfo = info
        self.name = getattr(info, "key", None) or str(info)
        self._stretches: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}
        self._spans: dict[tuple[int, Fold], Span] = {}
        # A tzinfo that returns an offset for None has one fixed offset.
        fixed = info.utcoffset(None)
        self._only_span = None if fixed is None else (2 * EARLIEST, 2 * LATEST, _seconds(fixed))

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    @property
    def is_utc(self) -> bool:
        """Return whether its clocks always show UTC, under whichever name."""
        return self._only_span is not None and self._only_span[2] == 0

    def offset_at(self, instant: int) -> int:
        return self._plain_span(instant)[2]

    def localized(self, moment: datetime) -> datetime:
        """Return the moment with the readings of this zone, to be shown."""
        return moment.astimezone(self.tzinfo)

    def datetime(self, instant: int) -> datetime:
        """Return the instant as an aware datetime in this zone."""
        return datetime.fromtimestamp(instant, self.tzinfo)

    def span_at(self, instant: int, fold: Fold = "both") -> Span:
        """Return the span that contains the instant, with the readings that count in it under this fold rule."""
        plain = self._plain_span(instant)
        span = self._spans.get((plain[0], fold))
        if span is None:
            span = self._spans[plain[0], fold] = self._counted(*plain, fold)
        return span

    def _counted(self, start: int, end: int, offset: int, fold: Fold) -> Span:
        count_from, count_until = start + offset, end + offset
        if fold == "first":
            count_from = max(count_from, start + self._plain_span(start - 1)[2])
        elif fold == "second":
            count_until = min(count_until, end + self._plain_span(end)[2])
        return Span(start, end, offset, count_from, count_until)

    def instants_of(self, reading: int, rule: DstRule) -> list[int]:
        """Return the instants of a slot that is planned for this reading: one, two or none."""
        found: list[int] = []
        # Every offset is shorter than a day, so every span that can contain the reading lies in these two days.
        instant = reading - DAY
        while instant <= reading + DAY:
            span = self.span_at(instant, rule.fold)
            if span.count_from <= reading < span.count_until:
                found.append(reading - span.offset)
            following = span.end + self.offset_at(span.end)
            if rule.gap == "shift" and span.end_reading <= reading < following:
                found.append(span.end)
            instant = span.end
        return found

    def _plain_span(self, instant: int) -> tuple[int, int, int]:
        if self._only_span is not None:
            return self._only_span
        number = instant >> 25
        stretch = self._stretches.get(number)
        if stretch is None:
            stretch = self._stretches[number] = self._probe(number)
        starts, spans = stretch
        return spans[bisect_right(starts, instant) - 1]

    def _probe(self, number: int) -> tuple[list[int], list[tuple[int, int, int]]]:
        first = number * self._STRETCH
        last = first + self._STRETCH
        changes = [first]
        offsets = [self._ask(first)]
        known = first
        while known < last:
            probed = min(known + self._PROBE, last)
            offset = self._ask(probed)
            if offset != offsets[-1]:
                changes.append(self._change_between(known, probed, offset))
                offsets.append(offset)
            known = probed
        if changes[-1] == last:  # the next stretch begins with this change
            changes.pop()
        ends = [*changes[1:], last]
        return changes, list(zip(changes, ends, offsets, strict=False))

    def _change_between(self, before: int, after: int, offset: int) -> int:
        while after - before > 1:
            middle = (before + after) // 2
            if self._ask(middle) == offset:
                after = middle
            else:
                before = middle
        return after

    def _ask(self, instant: int) -> int:
        instant = in_calendar(instant)
        offset = datetime.fromtimestamp(instant, self.tzinfo).utcoffset()
        assert offset is not None  # the datetime is aware
        return _seconds(offset)


class _UtcZone(Zone):
    """UTC. Its tzinfo is loaded when somebody asks for it: without a database of the system that takes 20 imports."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name = "UTC"
        self._stretches = {}
        self._spans = {}
        self._only_span = (2 * EARLIEST, 2 * LATEST, 0)

    @property
    def tzinfo(self) -> tzinfo:  # type: ignore[override]
        return _zone_info("UTC")

    def localized(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC)


_UTC = _UtcZone()


@lru_cache(maxsize=1_024)
def _zone_info(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _seconds(duration: timedelta) -> int:
    return duration.days * DAY + duration.seconds


def zone_of(info: tzinfo) -> Zone:
    """Return the zone of a tzinfo: one of zoneinfo, a fixed offset, or one of another library."""
    if getattr(info, "key", None) == "UTC":
        return _UTC
    try:
        return _remembered_zone(info)
    except TypeError:  # the zones of some libraries are not hashable
        return Zone(info)


_remembered_zone = lru_cache(maxsize=1_024)(Zone)


def zone(name: str) -> Zone:
    """Return the zone with this IANA name; raise TimetableError for any other value.

    `local` is not accepted: the caller resolves it to the name of the host's zone first, so that every node uses the
    same zone.
    """
    if name == "UTC":  # always known; listing the names takes longer than anything else here
        return _UTC
    if not isinstance(name, str):
        raise TimetableError(_unknown_zone(name), key="timezone", value=name)
    return _named_zone(name)


@lru_cache(maxsize=1_024)
def _named_zone(name: str) -> Zone:
    if name not in known_zones():
        raise TimetableError(_unknown_zone(name), key="timezone", value=name)
    return zone_of(_zone_info(name))


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    """Return the names that mean the same on every host: not `localtime`, and not `Factory`, which is a placeholder."""
    from zoneinfo import available_timezones

    return frozenset(available_timezones() - {"localtime", "Factory"})


def _unknown_zone(name: object) -> str:
    from everwhen.timetable.zone_hints import zone_hint

    return f'Unknown time zone "{shown(name)}", {zone_hint(str(name)[:64].strip())}'


def in_calendar(instant: int) -> int:
    """Return the instant, clamped to the range that a datetime can represent in every zone."""
    return min(max(instant, EARLIEST), LATEST)


def epoch_seconds(moment: datetime) -> int:
    """Return an aware datetime as seconds since 1970, rounded down."""
    return _seconds(moment - EPOCH)


def epoch_seconds_up(moment: datetime) -> int:
    """Return an aware datetime as seconds since 1970, rounded up."""
    since = moment - EPOCH
    return _seconds(since) + (since.microseconds > 0)


def reading_of(wall: datetime) -> int:
    """Return a naive datetime as a reading of the wall clock, rounded down to the second."""
    return _seconds(wall - _EPOCH_NAIVE)


def wall_of(reading: int) -> datetime:
    """Return a reading as a naive datetime."""
    return _EPOCH_NAIVE + timedelta(seconds=reading)
