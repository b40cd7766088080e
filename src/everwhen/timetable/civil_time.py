"""Zones: from instants to readings of the clock on the wall and back, with gaps and folds, here only.

A zone is a row of *spans*, stretches of instants with one offset from UTC. Where two spans meet the readings
may jump: ahead, and some readings never happen (a gap); or back, and some happen twice (a fold). A
`DstRule` says what becomes of a slot planned for such a reading.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from everwhen.errors import TimetableError, shown

Gap = Literal["shift", "skip"]
Fold = Literal["first", "second", "both"]

DAY = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDINAL_OF_1970 = EPOCH.toordinal()
_EPOCH_NAIVE = datetime(1970, 1, 1)

# What datetime can hold in every zone, a few days inside its own limits.
EARLIEST = -62_135_300_000
LATEST = 253_402_000_000


@dataclass(frozen=True, slots=True)
class DstRule:
    """What becomes of readings that a gap swallows, and which of a fold's two count."""

    gap: Gap
    fold: Fold

    def overridden(self, *, gap: Gap | None = None, fold: Fold | None = None) -> DstRule:
        if gap is None and fold is None:  # nearly always
            return self
        return DstRule(gap or self.gap, fold or self.fold)


FIXED = DstRule(gap="shift", fold="first")
WILD = DstRule(gap="skip", fold="both")


class Span(NamedTuple):
    """Instants start ≤ t < end share one offset; readings count_from ≤ r < count_until count in it.

    A named tuple, because the hot path takes it apart in one step. A span may also end where nothing
    changes (at the edge of a probed stretch); that is harmless.
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
    """One time zone, probed through its tzinfo in stretches of about a year and remembered.

    zoneinfo has no way to ask for transitions, but asking for an offset is cheap. In tzdata no offset since
    1970 has lasted less than 6.9 days (a test keeps watch), so a probe every three days finds every change
    and a bisection finds its second.
    """

    __slots__ = ("_only_span", "_spans", "_stretches", "name", "tzinfo")

    _STRETCH = 1 << 25  # 388 days
    _PROBE = 3 * DAY

    def __init__(self, info: tzinfo) -> None:
        self.tzinfo = info
        self.name = getattr(info, "key", None) or str(info)
        self._stretches: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}
        self._spans: dict[tuple[int, Fold], Span] = {}
        # A zone that answers without being told an instant has one offset for ever.
        fixed = info.utcoffset(None)
        self._only_span = None if fixed is None else (2 * EARLIEST, 2 * LATEST, _seconds(fixed))

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def offset_at(self, instant: int) -> int:
        return self._plain_span(instant)[2]

    def datetime(self, instant: int) -> datetime:
        """The instant as an aware datetime of this zone."""
        return datetime.fromtimestamp(instant, self.tzinfo)

    def span_at(self, instant: int, fold: Fold = "both") -> Span:
        """The span that holds the instant, with the readings that count in it under that rule for folds."""
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
        """When a slot planned for this reading happens: once, twice or never."""
        found: list[int] = []
        # No offset reaches a whole day, so every span that can show the reading lies in these two days.
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
        if changes[-1] == last:  # the stretch that begins there knows it too
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
        assert offset is not None  # the tzinfo of an aware datetime answers
        return _seconds(offset)


def _seconds(duration: timedelta) -> int:
    return duration.days * DAY + duration.seconds


def zone_of(info: tzinfo) -> Zone:
    """The zone behind a tzinfo: zoneinfo's, a fixed offset, or anybody else's."""
    try:
        return _remembered_zone(info)
    except TypeError:  # some libraries' zones cannot be hashed
        return Zone(info)


_remembered_zone = lru_cache(maxsize=1_024)(Zone)


def zone(name: str) -> Zone:
    """The zone of that IANA name; anything else is refused.

    `local` is no zone: it is resolved to the host's name before it gets here, so that every node means the
    same.
    """
    if not isinstance(name, str) or name not in known_zones():
        raise TimetableError(_unknown_zone(name), key="timezone", value=name)
    return zone_of(ZoneInfo(name))


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    """Names that mean the same on every machine: `localtime` is what its host likes, `Factory` nothing."""
    return frozenset(available_timezones() - {"localtime", "Factory"})


def _unknown_zone(name: object) -> str:
    near = difflib.get_close_matches(str(name)[:64], known_zones(), n=1)
    hint = f'did you mean "{near[0]}"?' if near else "use an IANA name such as Europe/Paris, or local"
    return f'Unknown time zone "{shown(name)}", {hint}'


def in_calendar(instant: int) -> int:
    """The instant, brought inside what a datetime can hold in every zone."""
    return min(max(instant, EARLIEST), LATEST)


def epoch_seconds(moment: datetime) -> int:
    """The second that an aware datetime lies in."""
    return _seconds(moment - EPOCH)


def epoch_seconds_up(moment: datetime) -> int:
    """The first whole second not before an aware datetime."""
    since = moment - EPOCH
    return _seconds(since) + (since.microseconds > 0)


def reading_of(wall: datetime) -> int:
    """A naive datetime as a reading of the clock on the wall, cut to the second."""
    return _seconds(wall - _EPOCH_NAIVE)


def wall_of(reading: int) -> datetime:
    """A reading as a naive datetime."""
    return _EPOCH_NAIVE + timedelta(seconds=reading)
