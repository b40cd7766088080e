"""The public functions about time, where rows do not reach: zones, naive times, bad input."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from everwhen import (
    CronParseError,
    TimetableError,
    calculate_next_cron_trigger,
    calculate_next_trigger,
    clock,
    is_schedule_due,
    is_valid_cron_expression,
)
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import LONGEST_SHARED, parse_cron
from everwhen.timetable.cron_series import shared_series

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


def test_the_zone_is_the_argument_then_that_of_the_instant_then_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    sydney = datetime(2026, 11, 15, 12, tzinfo=ZoneInfo("Australia/Sydney"))
    assert calculate_next_cron_trigger("0 9 * * *", sydney, "UTC").isoformat() == "2026-11-15T09:00:00+00:00"
    assert calculate_next_cron_trigger("0 9 * * *", sydney).isoformat() == "2026-11-16T09:00:00+11:00"
    naive = datetime(2026, 11, 15, 12)
    assert calculate_next_cron_trigger("0 9 * * *", naive).isoformat() == "2026-11-16T09:00:00-05:00"
    assert calculate_next_cron_trigger("0 9 * * *", naive, "local").isoformat() == "2026-11-16T09:00:00-05:00"
    fixed = datetime(2026, 11, 15, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert calculate_next_cron_trigger("0 9 * * *", fixed).isoformat() == "2026-11-16T09:00:00+05:30"


def test_without_an_instant_it_is_now() -> None:
    before = clock.now()
    found = calculate_next_cron_trigger("* * * * *", timezone="UTC")
    assert before < found <= clock.now() + timedelta(minutes=1)
    assert calculate_next_trigger(None, "5m") >= before
    assert is_schedule_due(before)


def test_an_interval_may_be_a_timedelta() -> None:
    assert calculate_next_trigger(NOON, timedelta(minutes=5), now=NOON) == NOON + timedelta(minutes=5)


def test_elapsed_time_ignores_daylight_saving() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before_the_gap = datetime(2026, 3, 29, 1, 30, tzinfo=berlin)
    found = calculate_next_trigger(before_the_gap, "1h", now=before_the_gap)
    assert found == datetime(2026, 3, 29, 3, 30, tzinfo=berlin)


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda: calculate_next_trigger("yesterday", "5m"), "last_completed_at"),  # type: ignore[arg-type]
        (lambda: calculate_next_trigger(LAST, "5m", now=NOON), "interval"),
        (lambda: calculate_next_trigger(NOON, timedelta(0)), "interval"),
        (lambda: calculate_next_trigger(NOON, "5m", "much"), "jitter_percent"),  # type: ignore[arg-type]
        (lambda: calculate_next_trigger(NOON, "5m", float("nan")), "jitter_percent"),
        (lambda: calculate_next_trigger(NOON, "5m", now="soon"), "now"),  # type: ignore[arg-type]
        (lambda: is_schedule_due(None), "next_at"),  # type: ignore[arg-type]
        (lambda: calculate_next_cron_trigger("0 9 * * *", "today", "UTC"), "after"),  # type: ignore[arg-type]
        (lambda: calculate_next_cron_trigger("0 9 * * *", timezone="Mars/Olympus"), "timezone"),
        (lambda: calculate_next_cron_trigger("0 9 * * *", LAST), "after"),
    ],
)
def test_bad_input_is_a_typed_error_that_names_the_argument(call: Callable[[], object], key: str) -> None:
    with pytest.raises(TimetableError) as caught:
        call()
    assert caught.value.key == key


class Nowhere(tzinfo):
    """A zone that knows no offset: Python calls such datetimes naive."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "?"


def test_a_zone_without_an_offset_is_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    nowhere = datetime(2026, 11, 15, 12, tzinfo=Nowhere())
    assert calculate_next_cron_trigger("0 13 * * *", nowhere) == NOON + timedelta(hours=1)
    assert is_schedule_due(nowhere, now=NOON)


def test_naive_times_are_the_hosts_in_every_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    nine_in_tokyo = datetime(2026, 11, 15, 9)
    assert calculate_next_trigger(nine_in_tokyo, "5m", now=nine_in_tokyo) == NOON.replace(hour=0, minute=5)
    monkeypatch.setenv("TZ", "rubbish")
    for call in (is_schedule_due, lambda at: calculate_next_trigger(at, "5m"), _next_nine):
        with pytest.raises(TimetableError, match="set TZ"):
            call(nine_in_tokyo)


def _next_nine(after: datetime) -> datetime:
    return calculate_next_cron_trigger("0 9 * * *", after)


@pytest.mark.parametrize("moment", [datetime.min, datetime.max])  # noqa: DTZ901  # naive is the point
def test_the_ends_of_the_calendar_are_typed_errors_or_answers(
    moment: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UTC", "Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", name)
        for call in (is_schedule_due, lambda at: calculate_next_trigger(at, "5m"), _next_nine):
            try:
                call(moment)
            except TimetableError as error:
                assert error.key in ("next_at", "last_completed_at", "interval", "after")


def test_equal_percentages_give_equal_jitter() -> None:
    assert calculate_next_trigger(NOON, "1h", 5, now=NOON) == calculate_next_trigger(
        NOON, "1h", 5.0, now=NOON
    )


@pytest.mark.parametrize("name", ["UTC", "Asia/Tokyo", "Etc/GMT+12", "Pacific/Kiritimati"])
def test_the_first_day_of_the_calendar_has_a_next_in_every_zone(name: str) -> None:
    found = calculate_next_cron_trigger("0 9 * * *", datetime.min.replace(tzinfo=ZoneInfo(name)))
    assert found.year == 1 and found.hour == 9


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("Europe/Paris", "Europe/Paris"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("UTC", "UTC"),
        ("", "UTC"),
        ("/usr/share/zoneinfo/Europe/Paris", "Europe/Paris"),
    ],
)
def test_the_hosts_zone_is_what_tz_says(spelled: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", spelled)
    assert clock.local_zone_name() == expected


def test_a_tz_that_is_no_iana_name_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    with pytest.raises(TimetableError, match="set TZ"):
        clock.local_zone_name()


def test_a_link_a_copy_and_nothing_at_all_name_the_zone(tmp_path: Path) -> None:
    zones = tmp_path / "zoneinfo"
    (zones / "Europe").mkdir(parents=True)
    (zones / "Europe" / "Paris").write_bytes(b"paris")
    (zones / "Europe" / "Rome").write_bytes(b"rome")
    localtime, timezone_file = tmp_path / "localtime", tmp_path / "timezone"
    names = clock.names_on_disk
    assert list(names(localtime, timezone_file, zones)) == ["UTC"]
    localtime.write_bytes(b"rome")
    assert "Europe/Rome" in list(names(localtime, timezone_file, zones))
    timezone_file.write_text("Europe/Berlin\n")
    assert next(iter(names(localtime, timezone_file, zones))) == "Europe/Berlin"
    localtime.unlink()
    localtime.symlink_to(zones / "Europe" / "Paris")
    assert next(iter(names(localtime, timezone_file, zones))) == "Europe/Paris"


def test_a_walk_parses_its_expression_once_per_zone() -> None:
    text = "7 3 * * 2"
    berlin, sydney = (zone(name) for name in ("Europe/Berlin", "Australia/Sydney"))
    assert shared_series(text, berlin) is shared_series(text, berlin)
    assert shared_series(text, berlin) is not shared_series(text, sydney)
    assert (
        shared_series(text, berlin).expression is shared_series(text, sydney).expression is parse_cron(text)
    )


def test_what_is_kept_of_expressions_is_bounded() -> None:
    long = "0 " + "9," * LONGEST_SHARED + "9 * * *"
    assert parse_cron(long) is not parse_cron(long)
    assert shared_series(long, zone("UTC")) is not shared_series(long, zone("UTC"))
    assert calculate_next_cron_trigger(long, NOON, "UTC").isoformat() == "2026-11-16T09:00:00+00:00"


def test_an_expression_that_is_refused_is_refused_each_time() -> None:
    wrong: list[Any] = ["0 25 * * *", "0 25 * * *", 7, None, ["0 9 * * *"]]
    for text in wrong:
        with pytest.raises(CronParseError):
            calculate_next_cron_trigger(text, NOON, "UTC")
        assert not is_valid_cron_expression(text)


def test_threads_that_share_an_expression_each_get_their_own_slots() -> None:
    """A series remembers the span and the year that it has last looked at; another thread may replace both."""
    starts = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=61 * number) for number in range(6)]
    text, where = "30 2 * * *", "Europe/Berlin"

    def walk(start: datetime) -> list[datetime]:
        found, at = [], start
        for _ in range(300):
            at = calculate_next_cron_trigger(text, at, where)
            found.append(at)
        return found

    alone = [walk(start) for start in starts]
    with ThreadPoolExecutor(len(starts)) as pool:
        assert list(pool.map(walk, starts)) == alone
