"""Zones: spans, readings, names."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from importlib import resources
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import (
    DAY,
    FIXED,
    WILD,
    DstRule,
    Zone,
    epoch_seconds,
    epoch_seconds_up,
    known_zones,
    reading_of,
    wall_of,
    zone,
    zone_of,
)

SAMPLE = (
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "Asia/Gaza",
    "Asia/Pyongyang",
)


@given(name=st.sampled_from(SAMPLE), instant=st.integers(0, 4 * 10**9))
def test_offsets_are_those_of_zoneinfo(name: str, instant: int) -> None:
    where = zone(name)
    expected = datetime.fromtimestamp(instant, ZoneInfo(name)).utcoffset()
    span = where.span_at(instant)
    assert timedelta(seconds=span.offset) == expected
    assert span.start <= instant < span.end


@pytest.mark.parametrize("name", SAMPLE)
def test_spans_change_exactly_where_tzdata_says(name: str) -> None:
    where = zone(name)
    listed = [change for change, _ in transitions(name) if 0 < change < 2_000_000_000]
    for change in listed:
        assert where.offset_at(change) != where.offset_at(change - 1), where.datetime(change)
        assert where.span_at(change).start <= change
    found, instant = [], 1
    while instant < listed[-1] + 1:
        end = where.span_at(instant).end
        if where.offset_at(end) != where.offset_at(end - 1):
            found.append(end)
        instant = end
    assert found == listed


def test_no_offset_in_tzdata_is_shorter_than_a_probe_can_see() -> None:
    shortest = min(
        later - earlier
        for name in known_zones()
        for (earlier, _), (later, _) in zip(transitions(name), transitions(name)[1:], strict=False)
        if later > 0
    )
    assert shortest > 2 * Zone._PROBE


def transitions(name: str) -> list[tuple[int, int]]:
    """Instants and offsets as the TZif file of a zone lists them, changes of offset only."""
    data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    *_, leaps, times, types, letters = counts = header(data, 0)
    utc_marks, standard_marks = counts[0], counts[1]
    body = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard_marks + utc_marks
    *_, times, types, _ = header(data, body)
    start = body + 44
    instants = struct.unpack_from(f">{times}q", data, start)
    which = data[start + times * 8 : start + times * 9]
    offsets = [struct.unpack_from(">l", data, start + times * 9 + 6 * n)[0] for n in range(types)]
    found: list[tuple[int, int]] = []
    for instant, index in zip(instants, which, strict=True):
        if not found or found[-1][1] != offsets[index]:
            found.append((instant, offsets[index]))
    return found


def header(data: bytes, start: int) -> tuple[int, ...]:
    return struct.unpack_from(">6l", data, start + 20)


@pytest.mark.parametrize(
    ("wall", "rule", "expected"),
    [
        ("2026-03-29 02:30", FIXED, ["2026-03-29T01:00+00:00"]),
        ("2026-03-29 02:30", WILD, []),
        ("2026-10-25 02:30", FIXED, ["2026-10-25T00:30+00:00"]),
        ("2026-10-25 02:30", DstRule("skip", "second"), ["2026-10-25T01:30+00:00"]),
        ("2026-10-25 02:30", WILD, ["2026-10-25T00:30+00:00", "2026-10-25T01:30+00:00"]),
        ("2026-07-01 12:00", FIXED, ["2026-07-01T10:00+00:00"]),
    ],
)
def test_a_reading_happens_once_twice_or_never(wall: str, rule: DstRule, expected: list[str]) -> None:
    instants = zone("Europe/Berlin").instants_of(reading_of(datetime.fromisoformat(wall)), rule)
    assert [datetime.fromtimestamp(t, UTC).isoformat(timespec="minutes") for t in instants] == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "local",
        "localtime",
        "America",
        "Europe/Berln",
        "../etc/passwd",
        "UTC\x00",
        "x" * 10_000,
        None,
        5,
        ["UTC"],
        "posix/UTC",
    ],
)
def test_anything_but_an_iana_name_is_refused_with_its_value(name: object) -> None:
    with pytest.raises(TimetableError) as caught:
        zone(name)  # type: ignore[arg-type]
    assert caught.value.key == "timezone"
    assert caught.value.value is name
    assert len(str(caught.value)) < 220


def test_a_misspelled_zone_gets_the_nearest_name() -> None:
    with pytest.raises(TimetableError) as caught:
        zone("Europe/Berln")
    assert str(caught.value) == 'Unknown time zone "Europe/Berln", did you mean "Europe/Berlin"?'


def test_a_fixed_offset_is_one_span_for_ever() -> None:
    where = zone_of(timezone(timedelta(hours=5, minutes=30)))
    assert where.offset_at(-(10**10)) == where.offset_at(10**11) == 19_800


class Stepping(tzinfo):
    """A zone of somebody else's making: one hour ahead from 2026 on."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else timedelta(hours=int(moment.year >= 2026))

    def dst(self, moment: datetime | None) -> timedelta | None:
        return timedelta(0)

    def fromutc(self, moment: datetime) -> datetime:
        return moment + timedelta(hours=int(moment.year >= 2026))

    def tzname(self, moment: datetime | None) -> str:
        return "STEP"


def test_zones_of_other_libraries_are_probed_like_ours() -> None:
    where = zone_of(Stepping())
    new_year = epoch_seconds(datetime(2026, 1, 1, tzinfo=UTC))
    assert (where.offset_at(new_year - 1), where.offset_at(new_year)) == (0, 3_600)
    assert where.span_at(new_year).start == new_year


class Unhashable(Stepping):
    __hash__ = None  # type: ignore[assignment]  # as some libraries' zones are


def test_a_zone_that_cannot_be_hashed_works_all_the_same() -> None:
    assert zone_of(Unhashable()).offset_at(1_800_000_000) == 3_600


def test_seconds_are_cut_or_rounded_up() -> None:
    moment = datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)
    assert epoch_seconds_up(moment) == epoch_seconds(moment) + 1
    assert epoch_seconds_up(moment.replace(microsecond=0)) == epoch_seconds(moment)
    assert wall_of(reading_of(datetime(2026, 1, 1, 12))) == datetime(2026, 1, 1, 12)
    assert DAY == 86_400


class AtTheEdge(Stepping):
    """A zone that changes where one probed stretch of time ends and the next begins."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else self._of(epoch_seconds(moment.replace(tzinfo=UTC)))

    def fromutc(self, moment: datetime) -> datetime:
        return moment + self._of(epoch_seconds(moment.replace(tzinfo=UTC)))

    def _of(self, instant: int) -> timedelta:
        return timedelta(hours=int(instant >= 52 << 25))


def test_a_change_at_the_edge_of_a_probed_stretch_is_found_once() -> None:
    where, edge = zone_of(AtTheEdge()), 52 << 25
    assert where.span_at(edge - 1).end == edge == where.span_at(edge).start
    assert (where.offset_at(edge - 1), where.offset_at(edge)) == (0, 3_600)


def test_a_zone_shows_its_name() -> None:
    assert repr(zone("Europe/Berlin")) == "Zone('Europe/Berlin')"
