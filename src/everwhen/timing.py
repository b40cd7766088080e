"""The public functions for time: `timetable` with the host's clock and zone as defaults.

Naive datetimes are local to the host's zone, as in Python; every returned datetime is aware.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from everwhen import clock
from everwhen.errors import CronParseError, TimetableError, shown
from everwhen.timetable.civil_time import Zone, zone, zone_of
from everwhen.timetable.cron import CronExpression, parse_cron
from everwhen.timetable.cron_series import shared_series
from everwhen.timetable.interval import parse_interval
from everwhen.timetable.jitter import draw

MOST_JITTER_PERCENT = 10

__all__ = [
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "is_schedule_due",
    "is_valid_cron_expression",
    "parse_cron_expression",
    "parse_interval",
]


def calculate_next_trigger(
    last_completed_at: datetime | None,
    interval: str | timedelta,
    jitter_percent: float = 0,
    *,
    now: datetime | None = None,
) -> datetime:
    """Return when an interval schedule runs next: its last completion + interval, never before now.

    `jitter_percent` (0 to 10) adds up to that share of the interval; the same arguments give the same jitter.

    >>> from datetime import datetime, timezone
    >>> ten = datetime(2025, 1, 19, 10, tzinfo=timezone.utc)
    >>> calculate_next_trigger(ten, "5m", now=ten).isoformat()
    '2025-01-19T10:05:00+00:00'
    """
    _check_jitter(jitter_percent)
    length = interval if isinstance(interval, timedelta) else parse_interval(interval)
    if length <= timedelta(0):
        raise TimetableError("interval must be longer than zero", key="interval", value=interval)
    now = clock.now() if now is None else _aware(now, "now")
    if last_completed_at is None:
        return now
    last = _aware(last_completed_at, "last_completed_at")
    window_ms = int(length.total_seconds() * 10 * jitter_percent)
    seed = f"{last.isoformat()}|{length.total_seconds():.3f}|{float(jitter_percent)}"
    jitter = timedelta(milliseconds=draw(seed, window_ms)) if window_ms else timedelta(0)
    try:
        return max(last + length + jitter, now)
    except OverflowError:
        raise TimetableError(
            "last_completed_at + interval lies beyond the year 9999", key="interval", value=interval
        ) from None


def is_schedule_due(next_at: datetime, *, now: datetime | None = None) -> bool:
    """Return whether `next_at` has been reached."""
    now = clock.now() if now is None else _aware(now, "now")
    return _aware(next_at, "next_at") <= now


def parse_cron_expression(text: str) -> CronExpression:
    """Parse a cron expression; raise CronParseError with `.expression`, `.field` and `.example`."""
    return parse_cron(text)


def is_valid_cron_expression(text: object) -> bool:
    """Return whether `parse_cron_expression` accepts the value. Never raises."""
    try:
        parse_cron(text)  # type: ignore[arg-type]  # any value may be passed
    except CronParseError:
        return False
    return True


def calculate_next_cron_trigger(
    text: str, after: datetime | None = None, timezone: str | None = None
) -> datetime:
    """Return the first match strictly after `after` (default: now).

    The expression is evaluated in `timezone`, else in the zone of an aware `after`, else in the host's zone.

    >>> from datetime import datetime
    >>> calculate_next_cron_trigger("0 9 * * *", datetime(2025, 1, 15, 9), "UTC").isoformat()
    '2025-01-16T09:00:00+00:00'
    """
    where = _zone_for(after, timezone)
    series = shared_series(text, where)
    moment = clock.now() if after is None else _in_zone(after, where)
    slot = series.next_datetime(moment)
    if slot is None:
        raise TimetableError(
            f'"{shown(text)}" has no match after {moment.isoformat()}', key="after", value=after
        )
    return slot


def _zone_for(after: datetime | None, timezone: str | None) -> Zone:
    if timezone is not None and timezone != "local":
        return zone(timezone)
    if timezone is None and isinstance(after, datetime) and after.utcoffset() is not None:
        assert after.tzinfo is not None
        return zone_of(after.tzinfo)
    return zone(clock.local_zone_name())


def _in_zone(moment: datetime, where: Zone) -> datetime:
    """Return an aware datetime unchanged; interpret a naive one as local time in the zone."""
    if isinstance(moment, datetime) and moment.tzinfo is where.tzinfo:  # the usual case when slots are walked
        return moment
    _check_datetime(moment, "after")
    return moment if moment.utcoffset() is not None else moment.replace(tzinfo=where.tzinfo)


def _aware(moment: datetime, name: str) -> datetime:
    _check_datetime(moment, name)
    try:
        if moment.utcoffset() is None:
            moment = moment.replace(tzinfo=zone(clock.local_zone_name()).tzinfo)
        return moment.astimezone(UTC)
    except (OverflowError, OSError):
        raise TimetableError(f"{name} lies outside the years 1 to 9999", key=name, value=moment) from None


def _check_datetime(moment: object, name: str) -> None:
    if not isinstance(moment, datetime):
        raise TimetableError(
            f"{name} must be a datetime, not {type(moment).__name__}", key=name, value=moment
        )


def _check_jitter(percent: float) -> None:
    if isinstance(percent, bool) or not isinstance(percent, int | float):
        raise TimetableError("jitter_percent must be a number", key="jitter_percent", value=percent)
    if not 0 <= percent <= MOST_JITTER_PERCENT:
        raise TimetableError(
            f"jitter_percent must be 0 to {MOST_JITTER_PERCENT}, not {percent}",
            key="jitter_percent",
            value=percent,
        )
