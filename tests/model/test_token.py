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
