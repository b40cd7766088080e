"""Closed times and their openings."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import DAY, epoch_seconds, zone
from everwhen.timetable.windows import (
    ClosedTimes,
    NotOn,
    OnlyBetween,
    QuietHours,
    QuietWindow,
    parse_dates,
    parse_weekdays,
    parse_window,
)

BERLIN = zone("Europe/Berlin")


def instant(text: str, name: str = "Europe/Berlin") -> int:
    return epoch_seconds(datetime.fromisoformat(text).replace(tzinfo=zone(name).tzinfo))


def wall(moment: int | None, name: str = "Europe/Berlin") -> str | None:
    return None if moment is None else f"{zone(name).datetime(moment):%Y-%m-%d %H:%M}"


def only_between(text: str) -> ClosedTimes:
    return ClosedTimes(only_between=OnlyBetween(BERLIN, parse_window(text)))


@pytest.mark.parametrize(
    ("window", "at", "is_open"),
    [
        ("08:00-18:00", "07:59", False),
        ("08:00-18:00", "08:00", True),
        ("08:00-18:00", "17:59", True),
        ("08:00-18:00", "18:00", False),
        ("22:00-06:00", "21:59", False),
        ("22:00-06:00", "23:00", True),
        ("22:00-06:00", "05:59", True),
        ("22:00-06:00", "06:00", False),
        ("20:00-24:00", "23:59", True),
        ("20:00-24:00", "00:00", False),
        ("00:00-24:00", "12:00", True),
    ],
)
def test_a_window_is_half_open_and_may_wrap_midnight(window: str, at: str, is_open: bool) -> None:
    reason = only_between(window).reason_at(instant(f"2026-11-16 {at}"))
    assert reason == (None if is_open else "outside_window")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "08:00",
        "08:00-08:00",
        "24:00-08:00",
        "08:60-09:00",
        "08:00-24:01",
        "8-18",
        "٠٨:00-18:00",
        "x" * 10_000,
        None,
        5,
    ],
)
def test_what_is_no_window_is_refused(text: Any) -> None:
    with pytest.raises(TimetableError) as caught:
        parse_window(text)
    assert caught.value.key == "only_between"
    assert len(str(caught.value)) < 220


@pytest.mark.parametrize(
    ("days", "mask"),
    [
        (["saturday", "sunday"], 0b1000001),
        (["Sat", "sun"], 0b1000001),
        ([0, 7], 0b0000001),
        ([1, "2", "wed"], 0b0001110),
        ("monday", 0b0000010),
        (6, 0b1000000),
        ([], 0),
    ],
)
def test_weekdays_are_names_or_numbers(days: Any, mask: int) -> None:
    assert parse_weekdays(days) == mask


@pytest.mark.parametrize("days", [["someday"], [8], [-1], [True], [1.5], [None], None, 3.5, ["tuesdays"]])
def test_what_is_no_weekday_is_refused(days: Any) -> None:
    with pytest.raises(TimetableError, match="is not a weekday"):
        parse_weekdays(days)


def test_an_excluded_day_is_the_local_day_of_the_instant() -> None:
    closed = ClosedTimes(not_on=NotOn(zone("Australia/Sydney"), parse_weekdays(["sunday"])))
    assert closed.reason_at(instant("2026-11-15 00:00", "Australia/Sydney")) == "excluded_day"
    assert closed.reason_at(instant("2026-11-15 23:59", "Australia/Sydney")) == "excluded_day"
    assert closed.reason_at(instant("2026-11-16 00:00", "Australia/Sydney")) is None


def nights(days: list[str] | None = None, **dates: Any) -> QuietHours:
    weekdays = parse_weekdays(days) if days else 0x7F
    return QuietHours(BERLIN, (QuietWindow(parse_window("22:00-07:00"), weekdays),), **dates)


def test_the_days_of_a_quiet_window_that_wraps_are_those_on_which_it_starts() -> None:
    closed = ClosedTimes(quiet_hours=nights(["friday"]))
    assert closed.reason_at(instant("2026-11-20 23:00")) == "quiet_hours"  # a Friday
    assert closed.reason_at(instant("2026-11-21 06:00")) == "quiet_hours"  # still Friday's
    assert closed.reason_at(instant("2026-11-20 06:00")) is None  # would be Thursday's
    assert closed.reason_at(instant("2026-11-21 23:00")) is None


def test_quiet_dates_are_whole_local_days_with_both_ends() -> None:
    dates = parse_dates([date(2026, 12, 25), {"from": "2026-12-31", "to": "2027-01-01"}])
    closed = ClosedTimes(quiet_hours=QuietHours(BERLIN, dates=dates))
    shut = ["2026-12-25 00:00", "2026-12-25 23:59", "2026-12-31 12:00", "2027-01-01 23:59"]
    assert {closed.reason_at(instant(text)) for text in shut} == {"quiet_hours"}
    assert {closed.reason_at(instant(t)) for t in ["2026-12-24 23:59", "2027-01-02 00:00"]} == {None}


@pytest.mark.parametrize(
    "entry",
    [
        "soon",
        "20261225",
        "2026-W52-5",
        {"from": "2026-12-31"},
        {"from": "2027-01-01", "to": "2026-01-01"},
        5,
        None,
    ],
)
def test_what_is_no_date_is_refused(entry: Any) -> None:
    with pytest.raises(TimetableError) as caught:
        parse_dates([entry])
    assert caught.value.key == "dates"


def test_the_reasons_are_named_in_their_order() -> None:
    closed = ClosedTimes(
        not_on=NotOn(BERLIN, parse_weekdays(["sunday"])),
        only_between=OnlyBetween(BERLIN, parse_window("08:00-18:00")),
        quiet_hours=nights(),
    )
    assert closed.reason_at(instant("2026-11-15 23:00")) == "excluded_day"
    assert closed.reason_at(instant("2026-11-16 23:00")) == "outside_window"
    assert ClosedTimes().reason_at(0) is None


@pytest.mark.parametrize(
    ("closed", "at", "opening"),
    [
        (only_between("08:00-18:00"), "2026-11-16 12:00", "2026-11-16 12:00"),
        (only_between("08:00-18:00"), "2026-11-16 18:00", "2026-11-17 08:00"),
        (only_between("22:00-06:00"), "2026-11-16 06:00", "2026-11-16 22:00"),
        (ClosedTimes(quiet_hours=nights()), "2026-11-16 23:00", "2026-11-17 07:00"),
        (ClosedTimes(not_on=NotOn(BERLIN, 0b1000001)), "2026-11-14 10:00", "2026-11-16 00:00"),
        # The opening of one may lie in the closed time of another.
        (
            ClosedTimes(NotOn(BERLIN, 0b1000001), OnlyBetween(BERLIN, parse_window("08:00-18:00")), nights()),
            "2026-11-13 18:00",
            "2026-11-16 08:00",
        ),
        # 02:30 does not exist on this day: the window opens behind the gap.
        (only_between("02:30-04:00"), "2026-03-29 01:00", "2026-03-29 03:00"),
    ],
)
def test_the_opening_is_the_first_instant_at_which_nothing_closes(
    closed: ClosedTimes, at: str, opening: str
) -> None:
    assert wall(closed.opening_from(instant(at))) == opening


def test_the_second_reading_of_a_fold_can_open_again() -> None:
    closed = only_between("02:00-02:30")
    first_end = epoch_seconds(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    opening = closed.opening_from(first_end)
    assert opening == epoch_seconds(datetime(2026, 10, 25, 1, 0, tzinfo=UTC))


def test_a_single_date_or_nothing_at_all_is_a_list_of_one() -> None:
    assert parse_dates("2026-12-25") == parse_dates(["2026-12-25"])
    for entries in (None, 5):
        with pytest.raises(TimetableError, match="is not a date"):
            parse_dates(entries)  # type: ignore[arg-type]


def test_quiet_dates_without_windows_open_at_midnight() -> None:
    closed = ClosedTimes(quiet_hours=QuietHours(BERLIN, dates=parse_dates([date(2026, 12, 25)])))
    assert wall(closed.opening_from(instant("2026-12-25 12:00"))) == "2026-12-26 00:00"


@pytest.mark.parametrize(("days", "opens"), [(399, True), (400, True), (401, False)])
def test_an_opening_is_looked_for_through_400_days(days: int, opens: bool) -> None:
    begin = instant("2026-01-01 00:00", "UTC")
    last = (datetime(2026, 1, 1) + timedelta(days=days - 1)).date()
    dates = parse_dates([{"from": date(2026, 1, 1), "to": last}])
    opening = ClosedTimes(quiet_hours=QuietHours(zone("UTC"), dates=dates)).opening_from(begin)
    assert opening == (begin + days * DAY if opens else None)


def test_the_answer_is_steady_until_the_next_edge() -> None:
    closed = ClosedTimes(only_between=OnlyBetween(BERLIN, parse_window("08:00-18:00")), quiet_hours=nights())
    assert wall(closed.steady_until(instant("2026-11-16 08:00"))) == "2026-11-16 18:00"
    assert wall(closed.steady_until(instant("2026-11-16 22:30"))) == "2026-11-17 00:00"
    assert ClosedTimes().steady_until(0) == 400 * DAY


def test_without_an_opening_in_400_days_there_is_none() -> None:
    assert ClosedTimes(not_on=NotOn(BERLIN, 0x7F)).opening_from(instant("2026-11-16 12:00")) is None
    never = ClosedTimes(
        only_between=OnlyBetween(BERLIN, parse_window("08:00-18:00")),
        quiet_hours=QuietHours(BERLIN, (QuietWindow(parse_window("08:00-18:00")),)),
    )
    assert never.opening_from(instant("2026-11-16 12:00")) is None


minutes = st.integers(0, 1_439)


@settings(max_examples=60)
@given(
    start=minutes,
    end=minutes,
    quiet_start=minutes,
    quiet_end=minutes,
    weekdays=st.integers(0, 0x7F),
    excluded=st.integers(0, 0x7F),
    around=st.sampled_from(["2026-03-28 12:00", "2026-10-24 12:00", "2026-07-01 00:00", "2011-12-28 12:00"]),
    minute=st.integers(0, 3 * 1_440),
    name=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "UTC"]),
    other=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]),
)
def test_the_opening_is_what_a_walk_from_minute_to_minute_finds(
    start: int,
    end: int,
    quiet_start: int,
    quiet_end: int,
    weekdays: int,
    excluded: int,
    around: str,
    minute: int,
    name: str,
    other: str,
) -> None:
    if start == end or quiet_start == quiet_end:
        return
    closed = ClosedTimes(
        NotOn(zone(other), excluded),
        OnlyBetween(zone(other), parse_window(f"{clock(start)}-{clock(end)}")),
        QuietHours(
            zone(name), (QuietWindow(parse_window(f"{clock(quiet_start)}-{clock(quiet_end)}"), weekdays),)
        ),
    )
    begin = instant(around) + minute * 60
    walked = next((t for t in range(begin, begin + 9 * DAY, 60) if closed.reason_at(t) is None), None)
    opening = closed.opening_from(begin)
    assert opening == walked or (walked is None and (opening is None or opening >= begin + 9 * DAY))


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
