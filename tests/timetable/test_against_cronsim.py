"""The engine against cronsim, an oracle that follows Debian, around every kind of clock change.

Where the two disagree the pair must belong to a class named in docs/decisions/cron-disagreements.md, and the
plain walk of `reference` must side with the engine.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError

from everwhen.errors import CronParseError
from everwhen.timetable.civil_time import DAY, Zone, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.cron_series import CronSeries
from tests.timetable import reference
from tests.timetable.expressions import any_expression

ZONES = (
    "Australia/Lord_Howe",  # half an hour of daylight saving
    "Pacific/Apia",  # lost a whole day in 2011
    "Africa/Casablanca",  # goes back for Ramadan, forward after it
    "America/Sao_Paulo",  # its gaps swallowed midnight
    "Europe/Berlin",
    "America/New_York",
    "Australia/Sydney",
    "UTC",
)
FIRST, LAST = 1_104_537_600, 2_082_758_400  # 2005 to 2035


@pytest.mark.parametrize("name", ZONES)
def test_the_engine_agrees_with_cronsim_around_clock_changes(name: str) -> None:
    compare(name, seed=2_026, expressions=150)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ZONES)
def test_the_engine_agrees_with_cronsim_on_thousands_of_expressions(name: str, seed: int) -> None:
    compare(name, seed=seed, expressions=600)


def compare(name: str, *, seed: int, expressions: int) -> None:
    draw = random.Random(f"{name}|{seed}")
    where = zone(name)
    changes = clock_changes(where)
    for _ in range(expressions):
        text = any_expression(draw)
        change = draw.choice(changes) if changes else draw.randrange(FIRST, LAST)
        compare_one(text, where, change)


def compare_one(text: str, where: Zone, change: int) -> None:
    start, end = change - 3 * DAY, change + 3 * DAY
    start -= start % 60
    try:
        series = CronSeries(parse_cron(text), where)
    except CronParseError as fault:
        assert "never matches" in str(fault), text
        assert cronsim_slots(text, where, start, end) == [], text
        return
    ours = series.between(start + 1, end, 1_000_000)
    assert walk_forwards(series, start, end) == ours, text
    assert walk_backwards(series, start, end) == ours, text
    if ours != cronsim_slots(text, where, start, end):
        assert is_named_disagreement(series, change), (
            f"{text} in {where.name} around {where.datetime(change)}"
        )
        assert ours == reference_slots(text, where, start, end), text


def is_named_disagreement(series: CronSeries, change: int) -> bool:
    """Two classes: wild entries around a shift of half an hour, and where a gap swallows midnight."""
    before, after = series.zone.offset_at(change - 1), series.zone.offset_at(change)
    is_half_hour = (after - before) % 3_600 != 0
    swallows_midnight = before < after and (change + before) // DAY != (change + after - 1) // DAY
    begins_at_midnight = before < after and (change + before) % DAY == 0
    return series.expression.is_wild and (is_half_hour or swallows_midnight or begins_at_midnight)


def cronsim_slots(text: str, where: Zone, start: int, end: int) -> list[int]:
    found: list[int] = []
    try:
        for moment in CronSim(text, where.datetime(start)):
            instant = int(moment.timestamp())
            if instant >= end:
                break
            found.append(instant)
    except (CronSimError, StopIteration, RuntimeError):
        pass  # no match within its fifty years
    return found


def reference_slots(text: str, where: Zone, start: int, end: int) -> list[int]:
    first, last = (datetime.fromtimestamp(t, UTC) for t in (start, end))
    margin = timedelta(days=1)  # the walk needs to have seen a fold's first readings
    found = reference.slots(text, ZoneInfo(where.name), first - margin, last)
    return [int(slot.timestamp()) for slot in found if first < slot]


def walk_forwards(series: CronSeries, start: int, end: int) -> list[int]:
    found: list[int] = []
    slot_at = series.next_after(start)
    while slot_at is not None and slot_at < end:
        found.append(slot_at)
        slot_at = series.next_after(slot_at)
    return found


def walk_backwards(series: CronSeries, start: int, end: int) -> list[int]:
    found: list[int] = []
    slot_at = series.previous_before(end)
    while slot_at is not None and slot_at > start:
        found.append(slot_at)
        slot_at = series.previous_before(slot_at)
    return found[::-1]


def clock_changes(where: Zone) -> list[int]:
    found: list[int] = []
    instant = FIRST
    while instant < LAST:
        span = where.span_at(instant)
        if where.offset_at(span.end) != span.offset:
            found.append(span.end)
        instant = span.end
    return found
