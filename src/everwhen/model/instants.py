"""Instants as microseconds: the constants, and the conversions to and from datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
END = 253_402_300_800 * SECOND  # of the year 9999, the last that a datetime can have

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(moment: datetime) -> int:
    """Return an aware datetime as an instant."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(instant: int) -> datetime:
    """Return an instant as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def optional_moment(instant: int | None) -> datetime | None:
    """Return an instant as a datetime in UTC, or None for None."""
    return None if instant is None else moment_of(instant)
