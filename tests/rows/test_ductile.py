"""Rows D: what Ductile's documents ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import epoch_seconds, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.interval import IntervalSeries
from everwhen.timetable.jitter import parse_jitter_ms
from everwhen.timetable.occurrences import Occurrences, series_of
from everwhen.timetable.trigger import EveryMonth, Once, Trigger, parse_every, parse_trigger
from everwhen.timetable.windows import ClosedTimes, NotOn, OnlyBetween, parse_weekdays, parse_window

SYDNEY = zone("Australia/Sydney")
CREATED = epoch_seconds(datetime(2026, 11, 15, tzinfo=UTC))


def trigger(**keys: Any) -> Trigger:
    return parse_trigger(zone=SYDNEY, created_at=CREATED, **keys)


def in_sydney(text: str) -> int:
    return epoch_seconds(datetime.fromisoformat(text).replace(tzinfo=SYDNEY.tzinfo))


def test_d8_exactly_one_of_every_cron_at_after_is_set() -> None:
    keys = {"every": "5m", "cron": "* * * * *", "at": "2027-01-01T00:00:00Z", "after": "5m"}
    for key, value in keys.items():
        trigger(**{key: value})
    with pytest.raises(TimetableError, match=r"^requires one of every, cron, at, or after$"):
        trigger()
    for key, value in list(keys.items())[1:]:
        with pytest.raises(TimetableError, match=r"^must set exactly one of every, cron, at, or after$"):
            trigger(every="5m", **{key: value})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("15m", 900),
        ("30m", 1_800),
        ("hourly", 3_600),
        ("2h", 7_200),
        ("daily", 86_400),
        ("weekly", 604_800),
    ],
)
def test_d9_every_takes_intervals_and_their_names(text: str, seconds: int) -> None:
    series = series_of(parse_every(text), zone=SYDNEY, anchor_at=CREATED)
    assert series.between(CREATED, CREATED + 3 * seconds, 10) == [
        CREATED,
        CREATED + seconds,
        CREATED + 2 * seconds,
    ]


def test_d9_monthly_is_a_calendar_month_at_the_same_wall_clock_time() -> None:
    assert parse_every("monthly") == EveryMonth()
    anchor = in_sydney("2026-08-31T09:00")
    series = series_of(parse_every("monthly"), zone=SYDNEY, anchor_at=anchor)
    walls = [f"{SYDNEY.datetime(t):%m-%d %H:%M}" for t in series.between(anchor, anchor + 100 * 86_400, 4)]
    assert walls == ["08-31 09:00", "09-30 09:00", "10-31 09:00", "11-30 09:00"]  # across daylight saving


def test_d10_cron_has_five_fields_minute_hour_day_month_weekday() -> None:
    series = CronSeries(parse_cron("30 8 14 2 *"), SYDNEY)
    found = series.next_datetime(datetime(2026, 11, 15, tzinfo=UTC))
    assert found == datetime(2027, 2, 14, 8, 30, tzinfo=SYDNEY.tzinfo)


@pytest.mark.parametrize("text", ["2026-12-24T18:00:00Z", "2026-12-25T05:00:00+11:00"])
def test_d11_at_is_an_rfc_3339_instant_in_utc_or_with_offset(text: str) -> None:
    once = trigger(at=text)
    assert isinstance(once, Once)
    assert datetime.fromtimestamp(once.instant, UTC) == datetime(2026, 12, 24, 18, tzinfo=UTC)
    series = series_of(once, zone=SYDNEY)
    assert series.next_after(CREATED) == once.instant
    assert series.next_after(once.instant) is None


def test_d13_jitter_is_an_offset_per_run_within_its_bound() -> None:
    window = parse_jitter_ms("30s", parse_every("1h"))
    slots = Occurrences(IntervalSeries(CREATED, 3_600), jitter_ms=window, jitter_key="withings.hourly")
    offsets = [slots.due_ms(CREATED + k * 3_600) - (CREATED + k * 3_600) * 1_000 for k in range(200)]
    assert all(0 <= offset < 30_000 for offset in offsets)
    assert len(set(offsets)) > 150  # it differs from run to run
    again = Occurrences(IntervalSeries(CREATED, 3_600), jitter_ms=window, jitter_key="withings.hourly")
    assert offsets[7] == again.due_ms(CREATED + 7 * 3_600) - (CREATED + 7 * 3_600) * 1_000


@pytest.mark.parametrize(
    ("window", "wall", "is_open"),
    [
        ("08:00-18:00", "2026-11-16T08:00", True),
        ("08:00-18:00", "2026-11-16T18:00", False),
        ("22:00-06:00", "2026-11-16T23:30", True),
        ("22:00-06:00", "2026-11-16T05:59", True),
        ("22:00-06:00", "2026-11-16T12:00", False),
    ],
)
def test_d14_only_between_is_a_window_in_local_time_that_may_wrap_midnight(
    window: str, wall: str, is_open: bool
) -> None:
    closed = ClosedTimes(only_between=OnlyBetween(SYDNEY, parse_window(window)))
    assert closed.reason_at(in_sydney(wall)) == (None if is_open else "outside_window")


def test_d15_timezone_serves_cron_and_window_alike() -> None:
    slot_at = CronSeries(parse_cron("0 9 * * *"), SYDNEY).next_after(CREATED)
    assert slot_at == in_sydney("2026-11-16T09:00")
    assert slot_at is not None
    window = ClosedTimes(only_between=OnlyBetween(SYDNEY, parse_window("09:00-09:01")))
    assert window.reason_at(slot_at) is None
    outside = ClosedTimes(only_between=OnlyBetween(zone("UTC"), parse_window("09:00-09:01")))
    assert outside.reason_at(slot_at) == "outside_window"


@pytest.mark.parametrize("days", [["saturday", "sunday"], ["sat", "sun"], [6, 0], [6, 7], ["6", "7"]])
def test_d16_not_on_takes_names_and_numbers_with_seven_for_sunday(days: list[Any]) -> None:
    closed = ClosedTimes(not_on=NotOn(SYDNEY, parse_weekdays(days)))
    reasons = [closed.reason_at(in_sydney(f"2026-11-{day}T12:00")) for day in range(16, 23)]
    assert reasons == [None] * 5 + ["excluded_day"] * 2  # Monday to Sunday
