"""Triggers: exactly one, each read and refused by its own rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from everwhen.errors import CronParseError, IntervalParseError, TimetableError
from everwhen.timetable.civil_time import DstRule, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, Trigger, parse_instant, parse_trigger

CREATED = 1_800_000_000.25


def trigger(**keys: Any) -> Trigger:
    return parse_trigger(zone=zone("Europe/Berlin"), created_at=CREATED, **keys)


def test_each_kind_of_trigger_is_read() -> None:
    assert trigger(every="5m") == Every(300, "5m")
    assert trigger(every="weekly") == Every(604_800, "weekly")
    assert trigger(every="Monthly") == EveryMonth()
    assert trigger(cron="0 9 * * *") == Cron(parse_cron("0 9 * * *"))
    assert trigger(at="2027-01-15T09:00:00+01:00") == Once(1_800_000_000, "at", "2027-01-15T09:00:00+01:00")


def test_after_counts_from_the_instant_of_its_creation() -> None:
    found = trigger(after="90s")
    assert found == Once(1_800_000_090, "after", "90s", 250_000)
    assert isinstance(found, Once) and found.due_at == 1_800_000_090_250_000


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("2027-01-15T08:00:00.25Z", 250_000),
        ("2027-01-15T09:00:00.000001", 1),
        ("2027-01-15T08:00:00.0000001Z", 1),
        ("2027-01-15T07:59:59.9999999Z", 0),
        ("2027-01-15T08:00:00.000000Z", 0),
    ],
)
def test_an_instant_keeps_its_fraction_to_the_microsecond_and_is_never_early(
    text: str, fraction: int
) -> None:
    assert trigger(at=text) == Once(1_800_000_000, "at", text, fraction)


def test_a_reading_in_a_gap_is_the_end_of_the_gap_without_its_fraction() -> None:
    """The clocks go forward from 02:00 to 03:00."""
    in_the_gap, after_it = (trigger(at=f"2026-03-29T{clock}") for clock in ("02:30:00.5", "03:00:00"))
    assert isinstance(in_the_gap, Once) and isinstance(after_it, Once)
    assert in_the_gap.due_at == after_it.due_at


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "requires one of every, cron, at, or after"),
        ({"every": "5m", "cron": "* * * * *"}, "must set exactly one of every, cron, at, or after"),
        ({"at": "2027-01-01T00:00:00Z", "after": "5m"}, "must set exactly one of every, cron, at, or after"),
    ],
)
def test_none_and_several_are_refused(keys: dict[str, str], message: str) -> None:
    with pytest.raises(TimetableError) as caught:
        trigger(**keys)
    assert str(caught.value) == message


def test_faults_of_each_kind_keep_their_own_errors() -> None:
    with pytest.raises(IntervalParseError):
        trigger(every="5x")
    with pytest.raises(IntervalParseError):
        trigger(after="monthly")
    with pytest.raises(CronParseError):
        trigger(cron="0 25 * * *")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-24T18:00:00+01:00", datetime(2026, 12, 24, 17, tzinfo=UTC)),
        ("2026-12-24t18:00:00z", datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("2026-12-24 18:00Z", datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("2026-12-24T18:00:00.0000001Z", datetime(2026, 12, 24, 18, 0, 1, tzinfo=UTC)),
        ("2026-12-24T18:00:00.000000000000Z", datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("2026-07-01T12:00:00.5", datetime(2026, 7, 1, 10, 0, 1, tzinfo=UTC)),
        ("2026-12-24T18:00:00.5Z", datetime(2026, 12, 24, 18, 0, 1, tzinfo=UTC)),
        ("2026-07-01T12:00:00", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-03-29T02:30:00", datetime(2026, 3, 29, 1, tzinfo=UTC)),  # behind the gap
        ("2026-10-25T02:30:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # the first of two
    ],
)
def test_an_instant_has_an_offset_or_is_read_in_the_zone(text: str, expected: datetime) -> None:
    assert parse_instant(text, zone("Europe/Berlin")) == expected.timestamp()


def test_a_datetime_is_an_instant_too() -> None:
    aware = datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=1)))
    assert parse_instant(aware, zone("UTC")) == aware.timestamp()
    assert parse_instant(datetime(2026, 12, 24, 18), zone("Europe/Berlin")) == aware.timestamp()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "tomorrow",
        "2026-12-24",
        "2026-13-01T00:00:00Z",
        "2026-12-24T25:00:00Z",
        "2026-12-24T18:00:60Z",
        "2026-12-24T18:00:00+25:00",
        "0001-01-01T00:00:00+12:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.5Z",
        datetime.max.replace(tzinfo=UTC),
        "9999-12-31T23:59:59-12:00",
        "２０２６-12-24T18:00:00Z",
        "2026-W01-1T00:00:00Z",
        "x" * 10_000,
        None,
        5,
    ],
)
def test_what_is_no_instant_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(TimetableError, match="write it like 2026-12-24T18:00:00") as caught:
        parse_instant(value, zone("UTC"))
    assert caught.value.key == "at"
    assert len(str(caught.value)) < 220


def test_an_instant_in_a_gap_that_is_to_be_skipped_does_not_exist() -> None:
    with pytest.raises(TimetableError, match="does not exist in Europe/Berlin"):
        parse_instant("2026-03-29T02:30:00", zone("Europe/Berlin"), DstRule("skip", "first"))
