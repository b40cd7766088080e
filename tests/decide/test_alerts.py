"""Which events and rows open and close alerts: the clauses that say what does not."""

from __future__ import annotations

import json

import pytest

from everwhen.decide.alerts import (
    PAUSED,
    ScheduleFacts,
    closed_by_row,
    closings_of,
    is_another_fact,
    opening_after_pause,
    opening_of,
)
from everwhen.model.alerts import FACT_SPAN, Alert
from everwhen.model.events import Event
from everwhen.model.history import Recorded
from everwhen.model.instants import MINUTE

NOW = 1_767_600_000_000_000


def facts(**columns: object) -> ScheduleFacts:
    row: dict[str, object] = {
        "uid": "u",
        "schedule_id": "s",
        "revision": 1,
        "name": "s",
        "group_": None,
        "status": "active",
        "paused_by": None,
        "failed_slots": 2,
        "next_slot_at": NOW,
        "next_run_at": NOW,
        "held_slot_at": None,
        "last_success_at": None,
        "expect_met_at": None,
        "last_error": None,
        "timezone": "UTC",
    }
    return ScheduleFacts(**{**row, **columns})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("detail", "closed"), [({}, ["config.rejected configuration"]), ({"source": "program"}, [])]
)
def test_what_a_program_declares_ends_no_alert_about_the_file(
    detail: dict[str, object], closed: list[str]
) -> None:
    assert [one.key for one in closings_of(Event("config.reloaded", NOW, detail=detail))] == closed


@pytest.mark.parametrize(
    ("status", "failed_slots", "is_open"),
    [("active", 2, True), ("paused", 2, False), ("done", 2, False), ("active", 0, False)],
)
def test_failures_before_a_pause_open_an_alert_again_only_where_the_schedule_fires_and_fails(
    status: str, failed_slots: int, is_open: bool
) -> None:
    last = Alert.about("schedule.failing", "u", NOW, uid="u", evidence=json.dumps({"how": PAUSED}))
    failed = Recorded(1, Event("job.lost", NOW + MINUTE, "s", "u"))
    opened = opening_after_pause(failed, last, facts(status=status, failed_slots=failed_slots))
    assert (opened is not None) == is_open


def test_a_run_is_slow_until_it_ends_and_a_later_attempt_of_its_job_is_another_run() -> None:
    alert = Alert.about("schedule.slow", "u", NOW, uid="u", evidence=json.dumps({"job_ids": ["j"]}))
    for running, is_over in (({"j": NOW - MINUTE}, False), ({"j": NOW + 1}, True), ({}, True)):
        assert (closed_by_row(alert, facts(), NOW + MINUTE, running) is not None) == is_over


@pytest.mark.parametrize(
    ("key", "group"), [("budget:agent", "agent"), ("budget:token:tok_1", None), ("budget:owner:ada", None)]
)
def test_the_budget_of_an_owner_or_a_token_is_that_of_no_group(key: str, group: str | None) -> None:
    event = Event("budget.reached", NOW, detail={"key": key, "limit": "cost_per_day"})
    alert = opening_of(Recorded(1, event), {"budget.reached"})
    assert alert is not None and alert.group_ == group


@pytest.mark.parametrize(
    ("class_", "minutes", "is_another"),
    [
        ("schedule.missed", FACT_SPAN // MINUTE, True),
        ("schedule.missed", FACT_SPAN // MINUTE - 1, False),
        ("breaker.opened", 10 * FACT_SPAN // MINUTE, False),
    ],
)
def test_only_facts_end_by_themselves_and_are_others_later(
    class_: str, minutes: int, is_another: bool
) -> None:
    first, second = (Alert.about(class_, "x", NOW + after * MINUTE) for after in (0, minutes))
    assert is_another_fact(first, second) == is_another


@pytest.mark.parametrize(("met_at", "is_over"), [(None, False), (NOW, False), (NOW + 1, True)])
def test_a_silence_ends_with_a_success_after_it(met_at: int | None, is_over: bool) -> None:
    alert = Alert.about("schedule.silent", "u", NOW, uid="u")
    for column in ("last_success_at", "expect_met_at"):
        closing = closed_by_row(alert, facts(**{column: met_at}), NOW + MINUTE)
        assert (closing is not None) == is_over
