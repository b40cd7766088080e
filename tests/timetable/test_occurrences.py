"""A trigger in its zone, from its anchor, within its bounds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import (
    DAY,
    EARLIEST,
    FIXED,
    LATEST,
    WILD,
    DstRule,
    epoch_seconds,
    zone,
)
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.occurrences import (
    FewSeries,
    FirstRun,
    Occurrences,
    anchor_of,
    dst_rule,
    is_first_slot_at_anchor,
    series_of,
)
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger
from tests.timetable.expressions import random_expression
from tests.timetable.test_against_cronsim import ZONES, clock_changes

BERLIN = zone("Europe/Berlin")
NOON = epoch_seconds(datetime(2026, 11, 15, 12, tzinfo=UTC))


def a_trigger(draw: random.Random) -> Trigger:
    kind = draw.randrange(5)
    if kind == 0:
        return Every(draw.randint(1, 10**6), "")
    if kind == 1:
        return EveryMonth()
    if kind == 2:
        return Once(NOON + draw.randint(-DAY, DAY), "at", "")
    return Cron(parse_cron(random_expression(draw)))


@given(seed=st.integers(0, 10**6), instant=st.integers(NOON - 400 * DAY, NOON + 400 * DAY))
def test_next_previous_and_between_agree_within_bounds_for_every_kind(seed: int, instant: int) -> None:
    draw = random.Random(seed)
    series = series_of(a_trigger(draw), zone=BERLIN, anchor_at=NOON - draw.randint(0, 500 * DAY))
    bounds = sorted((NOON + draw.randint(-300 * DAY, 300 * DAY), NOON + draw.randint(-300 * DAY, 300 * DAY)))
    slots = Occurrences(series, start_at=bounds[0], end_at=bounds[1])
    slot_at = slots.next_after(instant)
    if slot_at is None:
        assert slots.between(instant + 1, NOON + 10**9, 1) == []
        return
    assert bounds[0] <= slot_at < bounds[1] and slot_at > instant
    assert slots.previous_before(slot_at + 1) == slot_at
    assert slots.between(instant + 1, bounds[1] + 1, 1) == [slot_at]
    assert slots.between(instant + 1, slot_at, 10) == []


RULES = (None, *(DstRule(gap, fold) for gap in ("shift", "skip") for fold in ("first", "second", "both")))


@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(ZONES),
    rule=st.sampled_from(RULES),
    span=st.one_of(st.integers(-DAY, 3 * DAY), st.integers(0, 500 * DAY)),
)
def test_the_number_of_slots_is_that_of_the_slots_themselves(
    seed: int, name: str, rule: DstRule | None, span: int
) -> None:
    """Both ends lie near changes of the clock as often as elsewhere."""
    draw, where = random.Random(seed), zone(name)
    changes = clock_changes(where) or [NOON]
    start = draw.choice((draw.choice(changes) + draw.randint(-2 * DAY, DAY), draw.choice(changes), NOON))
    trigger = a_trigger(draw)
    if isinstance(trigger, Every) and trigger.seconds < 60:
        span = min(span, DAY)  # a million slots are too many to look at
    series = series_of(trigger, zone=where, anchor_at=start - draw.randint(-DAY, 500 * DAY), dst=rule)
    bounds = (start + draw.randint(-9 * DAY, DAY), start + draw.randint(0, 600 * DAY))
    for slots in (series, Occurrences(series, start_at=bounds[0], end_at=bounds[1])):
        assert slots.count_between(start, start + span) == len(slots.between(start, start + span, 10**7))


@pytest.mark.parametrize(
    ("text", "day", "expected"),
    [
        ("0 * * * *", (2026, 3, 29), 23),
        ("0 * * * *", (2026, 10, 25), 25),
        ("0 2 * * *", (2026, 3, 29), 1),  # at 03:00
        ("0 2,3 * * *", (2026, 3, 29), 1),  # the same slot for both
        ("30 2 * * *", (2026, 10, 25), 1),
        ("0 0 * * *", (9_998, 12, 31), 1),
    ],
)
def test_the_slots_of_a_day_are_counted_through_a_change_of_the_clock(
    text: str, day: tuple[int, int, int], expected: int
) -> None:
    slots = Occurrences(series_of(Cron(parse_cron(text)), zone=BERLIN))
    start, end = (
        epoch_seconds(datetime(*day, tzinfo=BERLIN.tzinfo) + timedelta(days=days)) for days in (0, 1)
    )
    assert slots.count_between(start, end) == expected and slots.count_between(end, start) == 0


def test_slots_are_counted_to_the_ends_of_the_calendar() -> None:
    slots = Occurrences(series_of(Cron(parse_cron("0 0 1 1 *")), zone=BERLIN))
    assert slots.count_between(2 * EARLIEST, 2 * LATEST) == len(slots.between(EARLIEST, LATEST, 10**6))


def test_an_end_before_the_start_has_no_slots() -> None:
    slots = Occurrences(FewSeries((NOON,)), start_at=NOON + 1, end_at=NOON)
    assert slots.next_after(0) is None
    assert slots.previous_before(NOON * 2) is None
    assert slots.between(0, NOON * 2, 10) == []


def test_a_limit_of_nothing_gives_nothing() -> None:
    assert Occurrences(FewSeries((NOON,))).between(0, NOON + 1, 0) == []


def test_what_is_fired_by_request_has_no_slots() -> None:
    series = series_of(OnRequest("webhook"), zone=BERLIN)
    assert (series.next_after(0), series.previous_before(NOON), series.between(0, NOON, 9)) == (
        None,
        None,
        [],
    )


def test_the_rule_for_gaps_and_folds_is_that_of_the_trigger_unless_overridden() -> None:
    assert dst_rule(Cron(parse_cron("*/5 * * * *"))) == WILD
    assert dst_rule(Cron(parse_cron("5 2 * * *"))) == FIXED
    assert dst_rule(EveryMonth()) == FIXED
    assert dst_rule(Cron(parse_cron("5 2 * * *")), fold="both") == DstRule("shift", "both")
    assert dst_rule(Cron(parse_cron("* 2 * * *")), gap="shift") == DstRule("shift", "both")


@pytest.mark.parametrize(
    ("trigger", "first_run", "expected"),
    [
        (Every(300, "5m"), "immediately", NOON),
        (Every(300, "5m"), None, NOON),
        (Every(300, "5m"), "after_interval", NOON + 301),
        (EveryMonth(), "immediately", NOON),
        (EveryMonth(), "after_interval", NOON + 1),
    ],
)
def test_the_first_slot_is_now_cut_to_the_second_or_an_interval_ahead_rounded_up(
    trigger: Trigger, first_run: FirstRun | None, expected: int
) -> None:
    assert anchor_of(trigger, created_at=NOON + 0.25, first_run=first_run) == expected


def test_start_at_is_the_anchor_and_a_past_one_goes_on_with_its_grid() -> None:
    start = NOON - 1_000
    anchor = anchor_of(Every(300, "5m"), created_at=NOON, start_at=start)
    slots = Occurrences(series_of(Every(300, "5m"), zone=BERLIN, anchor_at=anchor), start_at=start)
    assert anchor == start
    assert slots.next_after(NOON) == start + 1_200


def test_first_run_beside_start_at_is_refused() -> None:
    with pytest.raises(TimetableError, match="first_run beside start_at"):
        anchor_of(Every(300, "5m"), created_at=NOON, start_at=NOON, first_run="immediately")


def test_a_month_from_now_keeps_the_day_that_a_short_month_clips() -> None:
    created = epoch_seconds(datetime(2026, 1, 31, 10, tzinfo=BERLIN.tzinfo))
    anchor = anchor_of(EveryMonth(), created_at=created, first_run="after_interval")
    series = series_of(EveryMonth(), zone=BERLIN, anchor_at=anchor)
    assert not is_first_slot_at_anchor(EveryMonth(), "after_interval")
    found = series.between(anchor + 1, created + 100 * DAY, 3)
    assert [f"{BERLIN.datetime(slot):%m-%d}" for slot in found] == ["02-28", "03-31", "04-30"]


def test_end_at_itself_is_outside_and_start_at_inside() -> None:
    slots = Occurrences(series_of(Every(60, "1m"), zone=BERLIN, anchor_at=0), start_at=120, end_at=240)
    assert slots.next_after(0) == 120
    assert slots.next_after(180) is None
    assert slots.previous_before(1_000) == 180
    assert slots.previous_before(120) is None
    assert slots.between(0, 1_000, 10) == [120, 180]


@pytest.mark.parametrize("instant", [-(10**15), -(10**12), EARLIEST, LATEST, 10**12, 10**15])
def test_no_instant_is_too_far_for_any_kind(instant: int) -> None:
    for trigger in (Every(60, "1m"), EveryMonth(), Cron(parse_cron("0 9 29 2 *")), Once(NOON, "at", "")):
        slots = Occurrences(series_of(trigger, zone=BERLIN, anchor_at=0))
        for found in (slots.next_after(instant), slots.previous_before(instant)):
            assert found is None or EARLIEST <= found < LATEST
        assert len(slots.between(instant, instant + 10**7, 5)) <= 5


def test_a_schedules_override_reaches_the_months() -> None:
    anchor = epoch_seconds(datetime(2026, 1, 29, 2, 30, tzinfo=BERLIN.tzinfo))
    series = series_of(EveryMonth(), zone=BERLIN, anchor_at=anchor, dst=DstRule("skip", "first"))
    found = series.between(anchor, anchor + 100 * DAY, 9)
    assert [f"{BERLIN.datetime(slot):%m-%d}" for slot in found] == ["01-29", "02-28", "04-29"]


def test_a_million_slots_of_a_year_and_more_come_in_bulk() -> None:
    slots = Occurrences(series_of(Cron(parse_cron("* * * * *")), zone=BERLIN))
    found = slots.between(NOON, NOON + 800 * DAY, 1_000_000)
    assert len(found) == 1_000_000
    assert found[0] == NOON and found[-1] == NOON + 60 * 999_999
