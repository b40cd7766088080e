"""The slots of a cron expression in a zone, forwards, backwards and in bulk.

The minutes of a day are one integer of 1,440 bits and the days of a year one of 366 bits, so the next slot is found
by shifting, never by stepping from minute to minute. `civil_time` decides which readings count in a span of the zone;
this module decides what happens to the readings that fall into a gap.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property, lru_cache

from everwhen.timetable.civil_time import (
    DAY,
    EARLIEST,
    EPOCH,
    FIXED,
    LATEST,
    WILD,
    DstRule,
    Span,
    Zone,
    epoch_seconds,
)
from everwhen.timetable.cron import HORIZON_YEARS, LONGEST_SHARED, CronExpression, Year, bits, parse_cron

_UNKNOWN = object()


class CronSeries:
    """The slots of an expression in a zone.

    It caches the last span and the last year, each as one tuple. Threads may share a series: a stale cache only costs
    a look-up.
    """

    def __init__(self, expression: CronExpression, zone: Zone, rule: DstRule | None = None) -> None:
        self.expression = expression
        self.zone = zone
        self.rule = rule or (WILD if expression.is_wild else FIXED)
        self._times = expression.times_of_day()
        self._first_second = ((self._times & -self._times).bit_length() - 1) * 60
        self._last_second = (self._times.bit_length() - 1) * 60
        self._wall_epoch = EPOCH
        self._wall_zone: object = _UNKNOWN
        self._steps: dict[int, timedelta] = {}
        self._span = Span(0, 0, 0, 0, 0)
        self._year = Year(0, 0, 0)

    def next_after(self, instant: int) -> int | None:
        """Return the first slot after the instant, or None when there is none within fifty years."""
        span = self._span  # read once: another thread may replace it meanwhile
        start, end, offset, count_from, count_until = span
        if not start <= instant < end:
            self._span = span = self.zone.span_at(instant, self.rule.fold)
            start, end, offset, count_from, count_until = span
        reading = instant + offset
        if reading < count_from:
            reading = count_from - 1
        later = self._reading_after(reading)
        if later is None:
            return None
        return later - offset if later < count_until else self._next_beyond(span, reading, later)

    def next_datetime(self, after: datetime) -> datetime | None:
        """Return the result of `next_after` for an aware datetime, as a datetime in the zone of the series."""
        if after.tzinfo is self._wall_zone and not after.fold and not after.microsecond:
            # Within one zone Python subtracts and adds wall-clock times, which saves two offset look-ups. Well inside
            # a span the result is the same; no fold is as long as a day.
            span = self._span
            start, end, offset, _, count_until = span
            since = after - self._wall_epoch
            reading = since.days * 86_400 + since.seconds
            if start + 86_400 <= reading - offset < end:
                later = self._reading_after(reading)
                if later is not None and later < count_until:
                    return after + self._step(later - reading)
                beyond = None if later is None else self._next_beyond(span, reading, later)
                return self._datetime(beyond)
        if self._wall_zone is _UNKNOWN:
            self._load_wall_zone()
        return self._datetime(self.next_after(max(epoch_seconds(after), EARLIEST)))

    def _load_wall_zone(self) -> None:
        """Load the tzinfo, which slots as numbers do not need. Zones of other libraries never match: their arithmetic
        may differ."""
        from zoneinfo import ZoneInfo

        info = self.zone.tzinfo
        self._wall_epoch = datetime(1970, 1, 1, tzinfo=info)
        self._wall_zone = info if isinstance(info, ZoneInfo) else object()

    def _datetime(self, slot_at: int | None) -> datetime | None:
        if slot_at is None or slot_at > LATEST:
            return None
        return datetime.fromtimestamp(slot_at, self.zone.tzinfo)

    def _step(self, seconds: int) -> timedelta:
        """Return a cached timedelta: creating one costs more than all the arithmetic around it."""
        step = self._steps.get(seconds)
        if step is None:
            if len(self._steps) >= 256:
                self._steps.clear()
            step = self._steps[seconds] = timedelta(seconds=seconds)
        return step

    def previous_before(self, instant: int) -> int | None:
        """Return the last slot before the instant, or None when there is none within fifty years."""
        span = self.zone.span_at(instant - 1, self.rule.fold)
        limit = instant + span.offset  # readings below it are not yet searched
        earliest = instant - HORIZON_YEARS * 366 * DAY
        while True:
            reading = self._reading_before(min(limit, span.count_until))
            if reading is not None and reading >= span.count_from:
                return reading - span.offset
            if reading is None or span.start <= earliest:
                return None
            before = self.zone.span_at(span.start - 1, self.rule.fold)
            if self._gap_has_slot(before, span.first_reading):
                return span.start
            span = self._skip_back(before, reading)
            limit = span.end_reading

    def between(self, start: int, end: int, limit: int) -> list[int]:
        """Return the first `limit` slots with start ≤ slot < end, computed in bulk."""
        slots: list[int] = []
        start = max(start, EARLIEST)
        span = self.zone.span_at(start, self.rule.fold)
        before = self.zone.span_at(span.start - 1, self.rule.fold)
        end = min(end, LATEST)
        while True:
            if start <= span.start < end and self._gap_has_slot(before, span.first_reading):
                slots.append(span.start)
            self._extend(slots, span, max(start, span.start), min(end, span.end), limit)
            if span.end >= end or len(slots) >= limit:
                return slots[:limit]
            before, span = span, self.zone.span_at(span.end, self.rule.fold)

    def count_between(self, start: int, end: int) -> int:
        """Return how many slots have start ≤ slot < end: the matching days of each span, times the times of a day."""
        start, end = max(start, EARLIEST), min(end, LATEST)
        if start >= end:
            return 0
        number, span = 0, self.zone.span_at(start, self.rule.fold)
        before = self.zone.span_at(span.start - 1, self.rule.fold)
        while True:
            low = max(max(start, span.start) + span.offset, span.count_from)
            number += self._count_readings(low, min(min(end, span.end) + span.offset, span.count_until))
            if start <= span.start < end and self._gap_has_slot(before, span.first_reading):
                # The shifted slot is one with a slot that the span begins with anyhow.
                number += not self._matches(span.first_reading, span)
            if span.end >= end:
                return number
            before, span = span, self.zone.span_at(span.end, self.rule.fold)

    def is_shifted(self, slot_at: int) -> bool:
        """Return whether readings inside a gap were shifted to this slot."""
        before = self.zone.span_at(slot_at - 1, self.rule.fold)
        return self._gap_has_slot(before, slot_at + self.zone.offset_at(slot_at))

    # -- across the edge of a span --

    def _next_beyond(self, span: Span, reading: int, later: int) -> int | None:
        """Return the first slot after a span, where the next match after `reading` would be `later`."""
        while True:  # ends: the last span reaches beyond every reading that a date can have
            edge = span.end
            if span.end_reading - reading > DAY and later - span.end_reading > 3 * DAY:
                # Neither a fold nor a gap at this edge can produce a slot: go straight to the span of `later`.
                there = self.zone.span_at(later - span.offset, self.rule.fold)
                if there.first_reading + DAY <= later < there.count_until:
                    self._span = there
                    return later - there.offset
                edge = max(edge, self.zone.span_at(later - 2 * DAY).start)
            before = self.zone.span_at(edge - 1, self.rule.fold)
            span = self.zone.span_at(edge, self.rule.fold)
            if self._gap_has_slot(before, span.first_reading):
                return edge
            reading = span.count_from - 1
            found = self._reading_after(reading)
            if found is None:
                return None
            if found < span.count_until:
                return found - span.offset
            later = found

    def _skip_back(self, span: Span, reading: int) -> Span:
        if span.start - reading > 3 * DAY:  # nothing matches in between
            return min(span, self.zone.span_at(reading + 2 * DAY, self.rule.fold))
        return span

    def _gap_has_slot(self, before: Span, first_reading: int) -> bool:
        """Return whether readings inside the gap after a span are shifted to a slot at the end of the span."""
        if self.rule.gap == "skip" or before.end_reading >= first_reading:
            return False
        swallowed = self._reading_after(before.end_reading - 1)
        return swallowed is not None and swallowed < first_reading

    # -- readings: a calendar without gaps and folds --

    def _reading_after(self, reading: int) -> int | None:
        minute = reading // 60 + 1
        day = minute // 1440
        first, end, days = self._year
        if not first <= day < end:
            first, end, days = self._year = self.expression.days.year_of(day)
        rest = days >> (day - first)
        if rest & 1:
            times = self._times >> (minute - day * 1440)
            if times:
                return (minute + (times & -times).bit_length() - 1) * 60
        rest >>= 1
        if rest:
            return (day + (rest & -rest).bit_length()) * DAY + self._first_second
        return self._reading_from_year(end)

    def _reading_from_year(self, day: int) -> int | None:
        for _ in range(HORIZON_YEARS):
            first, end, days = self._year_of(day)
            if days:
                return (first + (days & -days).bit_length() - 1) * DAY + self._first_second
            day = end
        return None

    def _reading_before(self, reading: int) -> int | None:
        minute = (reading - 1) // 60
        day = minute // 1440
        first, _, days = self._year_of(day)
        if days >> (day - first) & 1:
            times = self._times & ((2 << (minute - day * 1440)) - 1)
            if times:
                return (day * 1440 + times.bit_length() - 1) * 60
        rest = days & ((1 << (day - first)) - 1)
        for _ in range(HORIZON_YEARS + 1):
            if rest:
                return (first + rest.bit_length() - 1) * DAY + self._last_second
            first, _, rest = self._year_of(first - 1)
        return None

    def _matches(self, reading: int, span: Span) -> bool:
        """Return whether a reading of a span is a slot."""
        return span.count_from <= reading < span.count_until and bool(
            self._count_readings(reading, reading + 1)
        )

    def _count_readings(self, low: int, high: int) -> int:
        """Return how many readings from `low` on match that are before `high`."""
        if low >= high:
            return 0
        day, minute = divmod(-(-low // 60), 1440)
        last_day, last_minute = divmod(-(-high // 60), 1440)
        number = self._count_days(day, last_day) * self._times.bit_count()
        number -= self._count_days(day, day + 1) * (self._times & ((1 << minute) - 1)).bit_count()
        return (
            number
            + self._count_days(last_day, last_day + 1) * (self._times & ((1 << last_minute) - 1)).bit_count()
        )

    def _count_days(self, day: int, end: int) -> int:
        number = 0
        while day < end:
            first, last, days = self._year_of(day)
            until = min(last, end)
            number += (days >> (day - first) & ((1 << (until - day)) - 1)).bit_count()
            day = until
        return number

    def _year_of(self, day: int) -> Year:
        known = self._year
        if not known.first <= day < known.end:
            known = self._year = self.expression.days.year_of(day)
        return known

    # -- in bulk --

    @cached_property
    def _seconds_of_day(self) -> tuple[int, ...]:
        return tuple(minute * 60 for minute in bits(self._times))

    def _extend(self, slots: list[int], span: Span, start: int, end: int, limit: int) -> None:
        """Append the slots of one span from start to end."""
        low = max(start + span.offset, span.count_from)
        high = min(end + span.offset, span.count_until)
        seconds = self._seconds_of_day
        day = low // DAY
        while day * DAY < high and len(slots) < limit:
            first, last, days = self._year_of(day)
            rest = days >> (day - first)
            if not rest:
                day = last
                continue
            day += (rest & -rest).bit_length() - 1
            base = day * DAY
            found = [base + second - span.offset for second in seconds]
            if base < low or base + DAY > high:
                found = [slot for slot in found if low <= slot + span.offset < high]
            # A slot at the span's start may be in the list already, shifted there from the gap before it.
            slots.extend(found[1:] if slots and found and found[0] == slots[-1] else found)
            day += 1


def shared_series(text: str, zone: Zone) -> CronSeries:
    """Return the slots of an expression in a zone; equal arguments share a series, and so what it has computed."""
    if not isinstance(text, str) or len(text) > LONGEST_SHARED:
        return CronSeries(parse_cron(text), zone)
    return _shared_series(text, zone)


@lru_cache(maxsize=1_024)
def _shared_series(text: str, zone: Zone) -> CronSeries:
    return CronSeries(parse_cron(text), zone)
