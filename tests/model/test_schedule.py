"""What a definition says about itself, and slots in microseconds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.model.instants import HOUR, SECOND, instant_of, to_datetime
from tests.decide.builders import MONDAY, a_definition, a_plan, at, quiet_hours

NINE = at("09:00")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"every": "1h"}, "interval"),
        ({"every": "monthly"}, "interval"),
        ({"cron": "0 9 * * *"}, "cron"),
        ({"at_instant": NINE}, "one_shot"),
        ({"on": "webhook"}, "webhook"),
        ({"on": "chat"}, "chat"),
    ],
)
def test_the_type_of_a_schedule_is_that_of_its_trigger(fields: dict[str, Any], kind: str) -> None:
    assert a_definition(**fields).type == kind


def test_the_dedupe_key_names_group_command_and_local_id() -> None:
    plugin = a_definition(every="1h", group="withings", command="poll")
    assert plugin.dedupe_key("withings.hourly") == "withings:poll:hourly"
    assert a_definition(every="1h").dedupe_key("hourly") == "-:command:hourly"


def test_the_dedupe_key_of_a_catch_up_job_ends_in_its_slot() -> None:
    key = a_definition(every="1h").dedupe_key("x", "catch_up", NINE)
    assert key.endswith(f":x:catchup:{NINE // SECOND}")


def test_an_instant_is_microseconds_and_comes_back_as_the_same_moment() -> None:
    assert to_datetime(instant_of(MONDAY)) == MONDAY


def test_the_next_slot_is_strictly_after_the_instant() -> None:
    calendar = a_plan(every="1h").calendar(NINE)
    assert calendar.next_after(NINE - 1) == NINE
    assert calendar.next_after(NINE) == NINE + HOUR


def test_the_first_slot_from_an_instant_may_be_that_instant() -> None:
    calendar = a_plan(every="1h").calendar(NINE)
    assert (calendar.first_from(NINE), calendar.first_from(NINE + 1)) == (NINE, NINE + HOUR)


def test_a_calendar_is_kept_while_its_anchor_stays() -> None:
    plan = a_plan(every="1h")
    assert plan.calendar(NINE) is plan.calendar(NINE)
    assert plan.calendar(NINE + HOUR) is not plan.calendar(NINE)


@given(
    every=st.sampled_from(["7m", "1h", "5h", "26h"]),
    jitter_ms=st.sampled_from([0, 1_000, 400_000]),
    count=st.integers(0, 300),
)
def test_stretches_of_slots_are_judged_as_each_slot_would_be(every: str, jitter_ms: int, count: int) -> None:
    plan = a_plan(
        every=every,
        jitter_ms=jitter_ms,
        only_between="06:00-23:30",
        not_on=0b1000001,
        quiet=quiet_hours("22:00-07:00", "12:00-13:00"),
    )
    calendar = plan.calendar(NINE)
    slots = calendar.reached_slots(NINE, NINE + count * HOUR)
    judged = [(slot_at, reason) for reason, run in calendar.runs(slots) for slot_at in run]
    assert judged == [(slot_at, calendar.closed_reason(calendar.due_at(slot_at))) for slot_at in slots]


def test_slots_that_are_due_are_those_whose_jitter_has_passed() -> None:
    calendar = a_plan(every="1h", jitter_ms=1_800_000).calendar(NINE)
    due_at = calendar.due_at(NINE + HOUR)
    assert list(calendar.due_slots(NINE, due_at - 1)) == [NINE]
    assert list(calendar.due_slots(NINE, due_at)) == [NINE, NINE + HOUR]
