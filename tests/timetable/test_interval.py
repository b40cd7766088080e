"""Durations in words, and slots at a fixed distance."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.errors import IntervalParseError
from everwhen.timetable.interval import IntervalSeries, chain_slot, parse_interval

TOO_LONG = "Intervals longer than 3650d are not supported"
EXPECTED = 'Expected format: "{number}{unit}"'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h", 3_600),
        ("1d", 86_400),
        ("5M", 300),
        ("  5 m ", 300),
        ("1h30m", 5_400),
        ("1H 30m", 5_400),
        ("1d 2h 3m 4s", 93_784),
        ("3650d", 3_650 * 86_400),
        ("007s", 7),
    ],
)
def test_a_duration_is_a_number_and_a_unit_from_large_to_small(text: str, seconds: int) -> None:
    assert parse_interval(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Interval cannot be empty"),
        ("   ", "Interval cannot be empty"),
        ("-5m", "Negative intervals are not allowed"),
        ("-5.5x", "Negative intervals are not allowed"),
        ("1h-5m", "Negative intervals are not allowed"),
        ("5.5m", "Decimal values are not supported"),
        (".5x", "Decimal values are not supported"),
        ("5", f"Missing time unit. {EXPECTED}"),
        ("1h30", f"Missing time unit. {EXPECTED}"),
        ("5x", 'Invalid time unit "x". Valid units are: s, m, h, d'),
        ("5min", 'Invalid time unit "min". Valid units are: s, m, h, d'),
        ("0x", 'Invalid time unit "x". Valid units are: s, m, h, d'),
        ("0m", "Zero interval is not allowed"),
        ("1h0m", "Zero interval is not allowed"),
        ("30m1h", f'Invalid interval "30m1h". {EXPECTED}'),
        ("1h1h", f'Invalid interval "1h1h". {EXPECTED}'),
        ("3651d", TOO_LONG),
        ("3650d1s", TOO_LONG),
        ("3650d3650d", TOO_LONG),
        ("9" * 200 + "s", TOO_LONG),
        ("PT5M", f'Invalid interval "PT5M". {EXPECTED}'),
        ("hourly", f'Invalid interval "hourly". {EXPECTED}'),
        ("m", f'Invalid interval "m". {EXPECTED}'),
        ("٥m", f'Invalid interval "٥m". {EXPECTED}'),
        ("5\x00m", f'Invalid interval "5\\x00m". {EXPECTED}'),
        ("5\x1fm", f'Invalid interval "5\\x1fm". {EXPECTED}'),
        ("5\u2003m", f'Invalid interval "5\\u2003m". {EXPECTED}'),
        ("-" + "9" * 200 + "m", "Negative intervals are not allowed"),
        ("0" * 200 + "m", "Zero interval is not allowed"),
        ("1,5m", f'Invalid interval "1,5m". {EXPECTED}'),
    ],
)
def test_the_first_fault_of_a_duration_is_named(text: str, message: str) -> None:
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert str(caught.value) == message
    assert caught.value.interval == text


@pytest.mark.parametrize("value", [None, 5, 5.5, b"5m", ["5m"], timedelta(minutes=5), "9" * 10_000 + "m"])
def test_what_is_no_text_or_far_too_long_is_refused_with_a_short_message(value: object) -> None:
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(value)  # type: ignore[arg-type]
    assert caught.value.interval is value
    assert len(str(caught.value)) < 200


def test_an_error_crosses_processes_with_its_fields() -> None:
    with pytest.raises(IntervalParseError) as caught:
        parse_interval("5x")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), copy.interval) == (IntervalParseError, str(caught.value), "5x")


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_a_typed_error(text: str) -> None:
    try:
        assert parse_interval(text) >= timedelta(seconds=1)
    except IntervalParseError as error:
        assert error.interval == text


instants = st.integers(-(10**10), 10**11)


@given(anchor=instants, interval=st.integers(1, 10**8), instant=instants)
def test_slots_of_an_interval_stay_on_the_grid_and_round_trip(
    anchor: int, interval: int, instant: int
) -> None:
    series = IntervalSeries(anchor, interval)
    slot_at = series.next_after(instant)
    assert slot_at is not None and slot_at > instant and (slot_at - anchor) % interval == 0
    assert slot_at - max(instant, anchor - 1) <= interval
    before = series.previous_before(slot_at)
    assert before is None if slot_at == anchor else before == slot_at - interval
    assert series.previous_before(slot_at + 1) == slot_at


@given(anchor=instants, interval=st.integers(1, 1_000), start=instants, span=st.integers(0, 10_000))
def test_between_is_repeated_next_for_intervals(anchor: int, interval: int, start: int, span: int) -> None:
    series = IntervalSeries(anchor, interval)
    expected: list[int] = []
    slot_at = series.next_after(start - 1)
    while slot_at is not None and slot_at < start + span and len(expected) < 50:
        expected.append(slot_at)
        slot_at = series.next_after(slot_at)
    assert series.between(start, start + span, 50) == expected


def test_a_chain_counts_from_the_end_and_is_rounded_up() -> None:
    assert chain_slot(ended_at=1_000, interval=300, previous_slot_at=400) == 1_300
    assert chain_slot(ended_at=1_000.001, interval=300, previous_slot_at=400) == 1_301


def test_a_chain_never_goes_back_even_if_the_clock_did() -> None:
    assert chain_slot(ended_at=100, interval=300, previous_slot_at=5_000) == 5_001
