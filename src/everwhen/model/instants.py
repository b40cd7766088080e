"""Instants as microseconds: the constants, and the two ways to and from datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(moment: datetime) -> int:
    """An aware datetime as an instant."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(instant: int) -> datetime:
    """An instant as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def optional_moment(instant: int | None) -> datetime | None:
    """The same, where there may be none."""
    return None if instant is None else moment_of(instant)
