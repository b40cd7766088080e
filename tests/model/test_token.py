"""How often a schedule may fire by the limits of the token that makes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from everwhen.errors import LimitError
from everwhen.model.instants import instant_of
from everwhen.model.token import TokenLimits, refuse_beyond
from everwhen.timetable.civil_time import zone
from tests.decide.builders import a_plan

HOUR = 3_600


def is_refused(limits: TokenLimits, now: datetime, **keys: Any) -> bool:
    try:
        refuse_beyond(limits, a_plan(**keys), instant_of(now), instant_of(now))
    except LimitError:
        return True
    return False


@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_once_a_day_is_not_too_often_for_a_day_where_the_clocks_change(name: str, month: int) -> None:
    now = datetime(2026, month, 1, tzinfo=UTC)
    where = zone(name)
    assert not is_refused(TokenLimits(min_interval=24 * HOUR), now, cron="0 9 * * *", zone=where)
    assert is_refused(TokenLimits(min_interval=24 * HOUR + 1), now, cron="0 9 * * *", zone=where)
    assert is_refused(TokenLimits(min_interval=HOUR), now, cron="*/59 * * * *", zone=where)


@pytest.mark.parametrize(
    ("every", "most", "expected"),
    [("12h", 2, False), ("12h", 1, True), ("7h", 3, True), ("7h", 4, False), ("25h", 0, True)],
)
def test_the_days_with_the_most_slots_count(every: str, most: int, expected: bool) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert is_refused(TokenLimits(fires_per_day=most), now, every=every) is expected


def test_days_that_are_adjacent_later_in_the_month_are_seen() -> None:
    now = datetime(2026, 11, 17, 12, tzinfo=UTC)
    hours = "0,59 0,2,4,6,8,10,12,14,16,18,20,23"
    limits = TokenLimits(min_interval=600)
    assert is_refused(limits, now, cron=f"{hours} 1,3,5,7,9,11,13,15,16 * *")
    assert not is_refused(limits, now, cron=f"{hours} 1,3,5,7,9,11,13,15,17 * *")
    # 31 December and 1 January; and a day of the week beside a day of the month, some day.
    assert is_refused(limits, now, cron=f"{hours} 1,31 1,12 *")
    assert is_refused(limits, now, cron=f"{hours} 13 * 4")


def test_the_end_of_a_day_with_very_many_times_is_seen_however_late_in_the_year_it_is() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    hours = "0,10,20,30,40,50,59 0,2,4,6,8,10,12,14,16,18,20,21"
    assert is_refused(TokenLimits(min_interval=540), now, cron=f"{hours} 1 1 *")


def test_what_never_comes_close_before_its_end_is_not_refused() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    limits, cron = TokenLimits(min_interval=2 * HOUR), "0 9,10 * * *"
    for end, expected in ((10, False), (11, True)):
        end_at = instant_of(datetime(2026, 3, 1, end, tzinfo=UTC))
        assert is_refused(limits, now, cron=cron, end_at=end_at) is expected
    assert not is_refused(limits, now, cron=cron, end_at=instant_of(now))


def test_a_month_has_28_days_for_a_limit() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for days, expected in ((28, False), (29, True)):
        limits = TokenLimits(min_interval=days * 24 * HOUR)
        assert is_refused(limits, now, every="monthly") is expected


def test_jitter_counts_for_what_is_rare_as_for_what_is_not() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert not is_refused(TokenLimits(min_interval=60), now, cron="0 9 * * *", jitter_ms=300_000)
    assert is_refused(TokenLimits(min_interval=24 * HOUR), now, cron="0 9 * * *", jitter_ms=1)
    assert not is_refused(TokenLimits(min_interval=60), now, cron="* * * * *")


@pytest.mark.parametrize("month", [3, 10])
def test_a_time_that_the_clocks_skip_or_repeat_is_once_a_day(month: int) -> None:
    now = datetime(2026, month, 22, tzinfo=UTC)
    limits = TokenLimits(min_interval=24 * HOUR)
    assert not is_refused(limits, now, cron="30 2 * * *", zone=zone("Europe/Berlin"))
