"""Calendar months from an anchor."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from everwhen.timetable.civil_time import DAY, LATEST, DstRule, epoch_seconds, zone
from everwhen.timetable.monthly import MonthlySeries


def months(anchor: str, name: str, count: int, rule: DstRule | None = None) -> list[str]:
    start = epoch_seconds(datetime.fromisoformat(anchor).replace(tzinfo=ZoneInfo(name)))
    series = MonthlySeries(start, zone(name)) if rule is None else MonthlySeries(start, zone(name), rule)
    return [
        f"{zone(name).datetime(t):%m-%d %H:%M%z}" for t in series.between(start, start + 800 * DAY, count)
    ]


def test_the_31st_clips_to_a_shorter_month_and_returns() -> None:
    found = months("2026-01-31T09:00", "UTC", 5)
    assert [slot[:5] for slot in found] == ["01-31", "02-28", "03-31", "04-30", "05-31"]


def test_the_wall_clock_time_is_kept_across_daylight_saving() -> None:
    assert months("2026-02-15T09:00", "Europe/Berlin", 3) == [
        "02-15 09:00+0100",
        "03-15 09:00+0100",
        "04-15 09:00+0200",
    ]


def test_a_swallowed_reading_is_shifted_like_a_fixed_cron_entry() -> None:
    assert months("2026-02-28T02:30", "Europe/Berlin", 1) == ["02-28 02:30+0100"]
    assert months("2026-01-29T02:30", "Europe/Berlin", 3)[2] == "03-29 03:00+0200"


def test_a_gap_may_be_skipped_and_a_fold_doubled_where_the_schedule_says_so() -> None:
    assert months("2026-01-29T02:30", "Europe/Berlin", 3, DstRule("skip", "both"))[2] == "04-29 02:30+0200"
    assert months("2026-09-25T02:30", "Europe/Berlin", 3, DstRule("skip", "both"))[1:] == [
        "10-25 02:30+0200",
        "10-25 02:30+0100",
    ]


def test_an_anchor_in_the_second_half_of_a_fold_is_its_own_first_slot() -> None:
    anchor = epoch_seconds(datetime(2026, 10, 25, 1, 30, tzinfo=UTC))  # 02:30 for the second time in Berlin
    series = MonthlySeries(anchor, zone("Europe/Berlin"))
    assert series.next_after(anchor - 1) == anchor
    assert series.previous_before(anchor) is None


def test_the_end_of_the_calendar_answers_none() -> None:
    assert MonthlySeries(0, zone("UTC")).next_after(LATEST) is None


@given(
    anchor=st.integers(0, 3 * 10**9),
    instant=st.integers(0, 4 * 10**9),
    name=st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe"]),
)
def test_next_previous_and_between_agree(anchor: int, instant: int, name: str) -> None:
    series = MonthlySeries(anchor, zone(name))
    slot_at = series.next_after(instant)
    assert slot_at is not None and slot_at > instant
    assert slot_at - max(instant, anchor) <= 32 * DAY
    assert series.previous_before(slot_at + 1) == slot_at
    assert series.between(instant + 1, slot_at + 1, 10) == [slot_at]
