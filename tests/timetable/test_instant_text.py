"""Instants as people read and type them: what is shown can be typed back, whatever the zone of the reader."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import zone
from everwhen.timetable.instant_text import format_datetime, read_instant

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Dubai",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Chatham",
)
# Of each zone with clock changes, 2026 and 2027 have the folds that an offset must tell apart.
INSTANTS = st.integers(1_767_225_600, 1_830_297_600)


def shown(instant: int, name: str) -> str:
    return format_datetime(zone(name).datetime(instant))


@given(INSTANTS, st.sampled_from(ZONES), st.sampled_from(ZONES))
def test_what_is_shown_can_be_typed_back_in_any_zone(instant: int, shown_in: str, read_in: str) -> None:
    assert read_instant(shown(instant, shown_in), zone(read_in), NOW) == instant


@given(INSTANTS, st.sampled_from(ZONES))
def test_without_the_offset_it_means_the_same_in_its_own_zone(instant: int, name: str) -> None:
    text, _, offset = shown(instant, name).rpartition(" ")
    assert read_instant(text if offset[0] in "+-" else shown(instant, name), zone(name), NOW) in (
        instant,
        *(other for other in range(instant - 7_200, instant, 1_800) if shown(other, name)[:23] == text[:23]),
    )


def test_the_abbreviation_tells_the_two_readings_of_a_fold_apart() -> None:
    where, first = zone("America/New_York"), 1_793_511_000  # 2026-11-01 01:30 EDT
    assert shown(first, where.name) == "Sun 2026-11-01 01:30:00 EDT -04:00"
    assert shown(first + 3_600, where.name) == "Sun 2026-11-01 01:30:00 EST -05:00"
    for text in (
        "2026-11-01 01:30 EDT",
        "Sun 2026-11-01 01:30:00 edt",
        "2026-11-01T01:30",
        "2026-11-01 05:30 UTC",
    ):
        assert read_instant(text, where, NOW) == first
    assert read_instant("2026-11-01 01:30:00 EST", where, NOW) == first + 3_600


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-16", "2026-11-15T18:30:00+00:00"),
        ("09:00", "2026-11-16T03:30:00+00:00"),
        ("09:00:05 IST", "2026-11-16T03:30:05+00:00"),
        ("20:00", "2026-11-16T14:30:00+00:00"),
        ("20:00 UTC", "2026-11-16T20:00:00+00:00"),
        ("02:00 +14:00", "2026-11-16T12:00:00+00:00"),  # where it is the 17th
        ("2026-11-16T09:00:00.5", "2026-11-16T03:30:01+00:00"),
        ("2026-11-16t09:00z", "2026-11-16T09:00:00+00:00"),
    ],
)
def test_what_people_type_is_read_in_the_zone_and_on_its_day(text: str, expected: str) -> None:
    instant = read_instant(f" {text} ", zone("Asia/Kolkata"), NOW)
    assert datetime.fromtimestamp(instant, UTC).isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "Mon", "now", "9:00", "2026-11-16 9", "16 Nov", "2026-13-01", "09:00 +5", "UTC"]
)
def test_what_is_no_instant_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(TimetableError, match=r"2026-12-24T18:00"):
        read_instant(text, zone("UTC"), NOW)


def test_an_abbreviation_that_the_clocks_do_not_show_is_refused_with_the_offset_they_have() -> None:
    with pytest.raises(
        TimetableError, match=r'"CEST" is not what clocks in Europe/Berlin show at .*, such as \+01:00'
    ):
        read_instant("2026-11-16 09:00 CEST", zone("Europe/Berlin"), NOW)
