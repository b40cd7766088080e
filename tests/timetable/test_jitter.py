"""Jitter: stable, bounded, never reordering."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.interval import IntervalSeries
from everwhen.timetable.jitter import jitter_offset_ms, parse_jitter_ms
from everwhen.timetable.occurrences import Occurrences
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger


def test_the_offset_is_drawn_from_blake2b_of_id_and_slot() -> None:
    digest = blake2b(b"withings.hourly|2026-11-15T09:00:00Z").digest()
    expected = int.from_bytes(digest[:8], "big") % 30_000
    assert jitter_offset_ms("withings.hourly", 1_794_733_200, 30_000) == expected


def test_a_window_of_nothing_is_no_jitter() -> None:
    assert jitter_offset_ms("a", 0, 0) == 0


@given(
    key=st.text(max_size=20),
    interval=st.integers(1, 100_000),
    jitter=st.integers(0, 10**9),
    k=st.integers(0, 10**5),
)
def test_jitter_never_reorders_slots(key: str, interval: int, jitter: int, k: int) -> None:
    slots = Occurrences(IntervalSeries(0, interval), jitter_ms=jitter, jitter_key=key)
    slot_at = k * interval
    due = slots.due_ms(slot_at)
    assert slot_at * 1_000 <= due < min(slot_at * 1_000 + max(jitter, 1), (slot_at + interval) * 1_000)
    assert due < slots.due_ms(slot_at + interval) or due == slot_at * 1_000
    assert due == slots.due_ms(slot_at)


def test_jitter_of_cron_is_bounded_by_the_gap_to_the_following_slot() -> None:
    series = CronSeries(parse_cron("0,1 9 * * *"), zone("UTC"))
    slots = Occurrences(series, jitter_ms=3_600_000, jitter_key="report")
    for slot_at in slots.between(0, 100 * 86_400, 200)[::2]:
        assert slots.due_ms(slot_at) < (slot_at + 60) * 1_000


def test_the_last_slot_has_the_whole_window() -> None:
    slots = Occurrences(IntervalSeries(0, 60), end_at=61, jitter_ms=59_000, jitter_key="x")
    assert slots.next_after(60) is None
    assert 60_000 <= slots.due_ms(60) < 119_000


HOUR = Every(3_600, "1h")
CRON = Cron(parse_cron("0 9 * * *"))


@pytest.mark.parametrize(
    ("text", "trigger", "milliseconds"),
    [
        ("30s", HOUR, 30_000),
        ("5%", HOUR, 180_000),
        ("0 %", HOUR, 0),
        ("2m", CRON, 120_000),
        ("1d", EveryMonth(), 86_400_000),
    ],
)
def test_jitter_is_a_duration_or_a_share_of_the_interval(
    text: str, trigger: Trigger, milliseconds: int
) -> None:
    assert parse_jitter_ms(text, trigger) == milliseconds


def test_the_most_that_a_section_allows_is_allowed() -> None:
    assert parse_jitter_ms("10%", HOUR, most_percent=10) == 360_000


@pytest.mark.parametrize(
    ("text", "trigger", "most", "message"),
    [
        ("1h", HOUR, 99, 'jitter "1h" must be smaller than the interval'),
        ("5%", CRON, 99, "a percentage needs a plain interval"),
        ("11%", HOUR, 10, "must be 0% to 10% here"),
        ("100%", HOUR, 99, "must be 0% to 99% here"),
        ("5.5%", HOUR, 99, "a percentage is a whole number, such as 5%"),
        ("-5%", HOUR, 99, "a percentage is a whole number, such as 5%"),
        ("٥%", HOUR, 99, "a percentage is a whole number, such as 5%"),
        ("5x", HOUR, 99, 'jitter "5x": Invalid time unit "x"'),
        ("", HOUR, 99, "Interval cannot be empty"),
        (None, HOUR, 99, "Invalid interval"),
        ("5s", Once(0, "at", ""), 99, "jitter is for every and cron"),
        ("5s", OnRequest("chat"), 99, "jitter is for every and cron"),
    ],
)
def test_jitter_that_cannot_be_is_refused(text: str, trigger: Trigger, most: int, message: str) -> None:
    with pytest.raises(TimetableError, match=message) as caught:
        parse_jitter_ms(text, trigger, most_percent=most)
    assert caught.value.key == "jitter"
