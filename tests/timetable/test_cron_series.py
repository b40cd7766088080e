"""The slots of cron expressions: gaps, folds, overrides, bounds, and properties that hold for all of them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.timetable.civil_time import DAY, FIXED, LATEST, WILD, DstRule, epoch_seconds, zone, zone_of
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.cron_series import CronSeries
from tests.timetable.expressions import random_expression
from tests.timetable.test_against_cronsim import ZONES, walk_backwards, walk_forwards


def slots_on(text: str, name: str, day: str, *, days: int = 1, rule: DstRule | None = None) -> list[str]:
    """The slots of a day as the clock on the wall shows them, with their offsets."""
    where = zone(name)
    first = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(name))
    start = epoch_seconds(first)
    end = epoch_seconds((first.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=ZoneInfo(name)))
    found = CronSeries(parse_cron(text), where, rule).between(start, end, 10_000)
    return [f"{where.datetime(slot):%H:%M%z}" for slot in found]


SPRING = ("Europe/Berlin", "2026-03-29")  # 02:00 → 03:00
AUTUMN = ("Europe/Berlin", "2026-10-25")  # 03:00 → 02:00


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 2 * * *", ["03:00+0200"]),
        ("0 3 * * *", ["03:00+0200"]),
        ("0,15,30 2 * * *", ["03:00+0200"]),
        ("0 2,3 * * *", ["03:00+0200"]),
        ("0-59/30 2-3 * * *", ["03:00+0200", "03:30+0200"]),
        ("*/30 2 * * *", []),
        ("*/30 1-3 * * *", ["01:00+0100", "01:30+0100", "03:00+0200", "03:30+0200"]),
        ("30 2 30 * *", []),
    ],
)
def test_readings_that_a_gap_swallows_become_one_slot_behind_it_for_fixed_entries(
    text: str, expected: list[str]
) -> None:
    assert slots_on(text, *SPRING) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 2 * * *", ["02:30+0200"]),
        ("0 2 * * *", ["02:00+0200"]),
        ("0 3 * * *", ["03:00+0100"]),
        ("*/30 2 * * *", ["02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100"]),
    ],
)
def test_of_two_readings_in_a_fold_the_first_counts_for_fixed_entries_and_both_for_wild_ones(
    text: str, expected: list[str]
) -> None:
    assert slots_on(text, *AUTUMN) == expected


@pytest.mark.parametrize(
    ("rule", "spring", "autumn"),
    [
        (DstRule("skip", "first"), [], ["02:30+0200"]),
        (DstRule("shift", "second"), ["03:00+0200"], ["02:30+0100"]),
        (DstRule("skip", "both"), [], ["02:30+0200", "02:30+0100"]),
    ],
)
def test_a_schedule_may_override_what_becomes_of_gaps_and_folds(
    rule: DstRule, spring: list[str], autumn: list[str]
) -> None:
    assert slots_on("30 2 * * *", *SPRING, rule=rule) == spring
    assert slots_on("30 2 * * *", *AUTUMN, rule=rule) == autumn


def test_a_wild_entry_may_be_asked_to_shift() -> None:
    assert slots_on("*/30 2 * * *", *SPRING, rule=DstRule("shift", "both")) == ["03:00+0200"]


def test_half_an_hour_of_daylight_saving_is_a_gap_like_any_other() -> None:
    assert slots_on("15 2 * * *", "Australia/Lord_Howe", "2026-10-04") == ["02:30+1100"]
    assert slots_on("*/15 2 * * *", "Australia/Lord_Howe", "2026-10-04") == ["02:30+1100", "02:45+1100"]
    assert slots_on("45 1 * * *", "Australia/Lord_Howe", "2026-04-05") == ["01:45+1100"]


def test_a_whole_day_that_never_was_becomes_one_slot() -> None:
    assert slots_on("0 9 * * *", "Pacific/Apia", "2011-12-29", days=3) == [
        "09:00-1000",
        "00:00+1400",
        "09:00+1400",
    ]
    assert slots_on("0 * 30 12 *", "Pacific/Apia", "2011-12-29", days=3) == []


def test_a_series_that_is_asked_again_inside_a_fold_gives_the_first_readings_then_the_second() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    series = CronSeries(parse_cron("*/30 2 * * *"), zone("Europe/Berlin"))
    moment = datetime(2026, 11, 20, tzinfo=berlin)
    assert series.next_datetime(moment) is not None  # it remembers winter now
    found = series.next_datetime(datetime(2026, 10, 25, 2, 10, tzinfo=berlin))
    assert found is not None and found.utcoffset() == timedelta(hours=2)
    later = series.next_datetime(datetime(2026, 10, 25, 2, 10, tzinfo=berlin, fold=1))
    assert later is not None and later.utcoffset() == timedelta(hours=1)


def test_next_is_strictly_after() -> None:
    series = CronSeries(parse_cron("0 9 * * *"), zone("UTC"))
    nine = epoch_seconds(datetime(2025, 1, 15, 9, tzinfo=ZoneInfo("UTC")))
    assert series.next_after(nine - 1) == nine
    assert series.next_after(nine) == nine + DAY
    assert series.previous_before(nine) == nine - DAY
    assert series.previous_before(nine + 1) == nine


def test_a_leap_day_that_must_be_a_certain_weekday_is_found_decades_ahead() -> None:
    series = CronSeries(parse_cron("0 0 29 2 */7"), zone("Europe/Berlin"))  # 29 February on a Sunday
    found = series.next_datetime(datetime(2072, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")))
    assert found is not None
    assert (found.month, found.day, found.isoweekday()) == (2, 29, 7)
    assert found.year - 2072 > 12


@pytest.mark.parametrize("name", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"])
def test_the_ends_of_the_calendar_answer_none_and_raise_nothing(name: str) -> None:
    series = CronSeries(parse_cron("0 0 29 2 *"), zone(name))
    assert series.next_after(LATEST) is None
    assert series.previous_before(-62_130_000_000) is None
    assert series.between(LATEST - DAY, 2 * LATEST, 10) == []
    assert series.next_datetime(datetime.max.replace(tzinfo=ZoneInfo("UTC"))) is None


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("rule", [FIXED, WILD, DstRule("skip", "second"), DstRule("shift", "both")])
def test_forwards_backwards_and_in_bulk_are_the_same_under_every_rule(name: str, rule: DstRule) -> None:
    draw = random.Random(f"{name}{rule}")
    for _ in range(12):
        series = CronSeries(parse_cron(random_expression(draw)), zone(name), rule)
        start = draw.randrange(1_104_537_600, 2_082_758_400)
        end = start + draw.choice([2 * DAY, 20 * DAY, 200 * DAY])
        forwards = walk_forwards(series, start, end)[:5_000]
        assert series.between(start + 1, end, 5_000) == forwards
        assert forwards == sorted(set(forwards))
        if len(forwards) < 5_000:
            assert walk_backwards(series, start, end) == forwards


@given(seed=st.integers(0, 10**6), instant=st.integers(0, 4 * 10**9), name=st.sampled_from(ZONES))
def test_next_and_previous_round_trip(seed: int, instant: int, name: str) -> None:
    series = CronSeries(parse_cron(random_expression(random.Random(seed))), zone(name))
    slot_at = series.next_after(instant)
    if slot_at is None:
        return
    assert slot_at > instant
    assert series.previous_before(slot_at + 1) == slot_at
    before = series.previous_before(slot_at)
    assert before is None or before <= instant
    assert before is None or series.next_after(before) == slot_at


class ChangesOnce(tzinfo):
    """A zone that another library brings: its offset changes at one instant."""

    def __init__(self, at: int, before: int, after: int) -> None:
        self._at, self._before, self._after = at, timedelta(hours=before), timedelta(hours=after)

    def fromutc(self, moment: datetime) -> datetime:
        return moment + self._of(epoch_seconds(moment.replace(tzinfo=UTC)))

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        return self._of(epoch_seconds(moment.replace(tzinfo=UTC) - self._before))

    def dst(self, moment: datetime | None) -> timedelta | None:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return "ONCE"

    def _of(self, instant: int) -> timedelta:
        return self._before if instant < self._at else self._after


def test_a_last_slot_that_a_gap_skips_has_no_successor() -> None:
    gap_at = epoch_seconds(datetime(9999, 12, 28, 2, tzinfo=UTC))
    where = zone_of(ChangesOnce(gap_at, 0, 1))
    series = CronSeries(parse_cron("30 2 28 12 *"), where, DstRule("skip", "first"))
    assert series.next_after(gap_at - DAY) is None


def test_after_a_repeated_hour_the_slot_inside_it_is_the_next_days() -> None:
    series = CronSeries(parse_cron("30 2 * * *"), zone("Europe/Berlin"))
    again = epoch_seconds(datetime(2026, 10, 25, 1, 10, tzinfo=UTC))  # 02:10 for the second time
    assert series.next_after(again) == epoch_seconds(datetime(2026, 10, 26, 1, 30, tzinfo=UTC))


@pytest.mark.parametrize("text", ["0 12 * * *", "15 3 1 1 *", "30 2 * * *"])
def test_the_next_datetime_in_the_zone_of_the_series_is_that_of_the_next_instant(text: str) -> None:
    where = zone("Europe/Berlin")
    series = CronSeries(parse_cron(text), where)
    for hours in range(0, 9_000, 25):  # more distances than it caches
        moment = where.datetime(1_767_225_600 + hours * 3_600 + hours)
        slot_at = series.next_after(epoch_seconds(moment))
        assert slot_at is not None
        assert series.next_datetime(moment) == series.next_datetime(moment) == where.datetime(slot_at)
