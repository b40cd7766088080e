"""Rows H: what herdctl's document asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from everwhen import (
    CronParseError,
    IntervalParseError,
    SchedulerError,
    calculate_next_cron_trigger,
    calculate_next_trigger,
    clock,
    is_schedule_due,
    is_valid_cron_expression,
    parse_cron_expression,
    parse_interval,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("shorthand", "expected"),
    [
        ("@hourly", datetime(2026, 11, 15, 13, tzinfo=UTC)),
        ("@daily", datetime(2026, 11, 16, tzinfo=UTC)),
        ("@weekly", datetime(2026, 11, 22, tzinfo=UTC)),
        ("@monthly", datetime(2026, 12, 1, tzinfo=UTC)),
        ("@yearly", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_h9_shorthands_are_known_and_weekly_is_sunday_at_midnight(shorthand: str, expected: datetime) -> None:
    assert calculate_next_cron_trigger(shorthand, NOON) == expected


def test_h10_five_fields_only() -> None:
    with pytest.raises(CronParseError, match="expected 5 fields, got 6"):
        parse_cron_expression("0 0 9 * * *")


def test_h10_without_a_zone_cron_is_read_in_the_system_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Australia/Sydney")
    assert clock.local_zone_name() == "Australia/Sydney"
    found = calculate_next_cron_trigger("0 9 * * *", datetime(2026, 11, 15, 12))
    assert found.isoformat() == "2026-11-16T09:00:00+11:00"


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000)]
)
def test_h14_parse_interval_reads_seconds_minutes_hours_days(text: str, milliseconds: int) -> None:
    assert parse_interval(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", 'Missing time unit. Expected format: "{number}{unit}"'),
        ("5.5m", "Decimal values are not supported"),
        ("0m", "Zero interval is not allowed"),
        ("-5m", "Negative intervals are not allowed"),
        ("5x", 'Invalid time unit "x". Valid units are: s, m, h, d'),
        ("", "Interval cannot be empty"),
    ],
)
def test_h15_each_fault_of_an_interval_has_its_message(text: str, message: str) -> None:
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert str(caught.value) == message
    assert caught.value.interval == text
    assert isinstance(caught.value, SchedulerError)


def test_h16_the_next_cron_trigger_is_strictly_after() -> None:
    at_eight, at_nine = (datetime(2025, 1, 15, hour, tzinfo=UTC) for hour in (8, 9))
    assert calculate_next_cron_trigger("0 9 * * *", at_eight) == at_nine
    assert calculate_next_cron_trigger("0 9 * * *", at_nine) == at_nine + timedelta(days=1)
    assert str(parse_cron_expression("0 9 * * 1-5")) == "0 9 * * 1-5"


@pytest.mark.parametrize(
    "value", ["invalid", "", None, 5, b"* * * * *", "* * * * * *", "x" * 10_000, "0 0 30 2 *"]
)
def test_h16_whether_an_expression_is_valid_is_answered_and_never_raised(value: object) -> None:
    assert is_valid_cron_expression(value) is False
    assert is_valid_cron_expression("0 9 * * 1-5") is True


@pytest.mark.parametrize(
    ("text", "message", "field"),
    [
        ("0 25 * * *", 'Invalid cron expression "0 25 * * *" - hour must be 0-23', "hour"),
        ("* * *", 'Invalid cron expression "* * *" - expected 5 fields, got 3', None),
    ],
)
def test_h17_a_cron_error_says_what_is_wrong(text: str, message: str, field: str | None) -> None:
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression(text)
    assert str(caught.value) == message
    assert (caught.value.expression, caught.value.field) == (text, field)
    assert is_valid_cron_expression(caught.value.example)


def test_h18_the_first_run_is_now_and_the_next_counts_from_completion() -> None:
    assert calculate_next_trigger(None, "5m", now=NOON) == NOON
    assert calculate_next_trigger(NOON, "5m", now=NOON) == NOON + timedelta(minutes=5)
    assert not is_schedule_due(NOON + timedelta(minutes=5), now=NOON)
    assert is_schedule_due(NOON, now=NOON)


def test_h18_jitter_adds_up_to_its_share_of_the_interval() -> None:
    completions = [NOON + timedelta(minutes=n) for n in range(100)]
    added = [calculate_next_trigger(at, "1h", 5, now=NOON) - at - timedelta(hours=1) for at in completions]
    assert all(timedelta(0) <= extra < timedelta(minutes=3) for extra in added)
    assert len(set(added)) > 90
    assert added[3] == calculate_next_trigger(completions[3], "1h", 5, now=NOON) - completions[3] - timedelta(
        hours=1
    )
    for percent in (-1, 10.5):
        with pytest.raises(SchedulerError, match="jitter_percent must be 0 to 10"):
            calculate_next_trigger(NOON, "1h", percent, now=NOON)


def test_h19_a_computed_past_becomes_now() -> None:
    assert calculate_next_trigger(NOON - timedelta(hours=2), "5m", now=NOON) == NOON
