"""The rarer branches of what is decided by hand, asked, claimed and left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everwhen.model.outcome import Outcome
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.operations.jobs import backfill
from everwhen.operations.schedules import list_schedules, pause_system, resume_system
from everwhen.operations.why import why
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window

FAILED = Outcome("failed", error="no luck")


def scheduler(start: str = "2026-01-05T08:00:00Z") -> ManualScheduler:
    return manual_scheduler(start)


def test_a_trigger_that_finds_a_run_may_be_asked_to_skip() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.tick()
    s.trigger("a", if_running="skip")
    assert len(s.jobs("a")) == 1


def test_the_payload_of_a_trigger_is_merged_over_the_schedules() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval", payload={"a": 1, "b": 1})
    s.trigger("a", {"b": 2})
    (claimed,) = s.claim()
    assert json.loads(claimed.job.payload or "{}") == {"a": 1, "b": 2}


def test_backfilled_jobs_take_the_groups_capacity() -> None:
    s = scheduler()
    s.add("g.a", group="g", max_concurrent=1, every="1h", first_run="after_interval")
    start = s.clock.moment
    s.sleep("3h30m")
    s.step()
    backfill(s.runtime, "g.a", start, s.clock.moment)
    assert len(s.claim()) == 1
    assert s.check().is_clean


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"only_between": "10:00-11:00"}, "outside_window"),
        ({"owner": "a", "budgets": {"a": {"fires_per_day": 1}}}, "budget"),
        ({"max_outstanding": 1}, "outstanding_limit"),
        ({"circuit_breaker": {"threshold": 1, "reset_after": "10h"}}, "circuit_open"),
    ],
)
def test_the_check_names_the_rules_after_the_first_five(fields: dict[str, Any], reason: str) -> None:
    s = scheduler()
    s.outcome = lambda claimed: FAILED
    s.add("a", every="1h", if_running="allow", **fields)
    s.step(work=reason != "outstanding_limit")
    s.sleep("1h")
    assert s.check_schedule("a").skip_reason == reason


def test_a_second_retry_waits_while_the_probe_is_out() -> None:
    s = scheduler()
    breaker = {"threshold": 1, "reset_after": "30m"}
    shared: dict[str, Any] = {
        "group": "g",
        "command": "poll",
        "max_retries": 3,
        "retry_delay": "1m",
        "circuit_breaker": breaker,
    }
    for name in ("g.a", "g.b"):
        s.add(name, every="24h", **shared)
    s.tick()
    for claimed in s.claim():
        s.settle(claimed, FAILED)
    s.sleep("31m")
    (probe,) = s.claim()  # the first to come; the other waits for what becomes of it
    assert s.claim() == []
    s.settle(probe)
    assert len(s.claim()) == 1
    assert s.check().is_clean


def test_a_held_slot_of_a_schedule_without_a_next_one_survives_a_system_pause() -> None:
    s = scheduler("2026-01-05T21:59:00Z")
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("22:00-07:00")),))
    store_of(s.runtime).catalogue.add_policy(
        s.clock.now(), QuietHoursPolicy("nights", "nights", hours, "defer")
    )
    s.add("once", at="2026-01-05T22:30:00Z", quiet_hours="nights")
    s.add("late", at="2026-01-05T22:45:00Z")
    s.advance("35m")
    pause_system(s.runtime)
    s.advance("1h")
    resume_system(s.runtime)
    assert s.state("late").status == "done"
    s.advance("9h")
    assert [job.schedule_id for job in s.jobs()] == ["once"]
    assert s.check().is_clean


def test_why_knows_what_it_does_not_know() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *")
    before = s.clock.now() - 3 * 3_600_000_000
    assert why(s.runtime, "a", before).fate in ("unknown", "span")


def test_schedules_are_listed() -> None:
    s = scheduler()
    for name in ("b", "a"):
        s.add(name, every="1h")
    assert [state.schedule_id for state in list_schedules(s.runtime)] == ["a", "b"]
    assert list_schedules(s.runtime, status="paused") == []


def test_a_retry_that_comes_due_while_its_breaker_is_open_waits_until_it_may_be_the_probe() -> None:
    s = scheduler()
    breaker = {"threshold": 1, "reset_after": "30m"}
    s.add("a", every="24h", max_retries=3, retry_delay="1m", circuit_breaker=breaker)
    s.tick()
    (claimed,) = s.claim()
    s.settle(claimed, FAILED)
    s.sleep("1m")
    assert s.claim() == []
    assert store_of(s.runtime).slots.next_ready_at() == s.clock.now() + 29 * 60_000_000
    s.sleep("29m")
    (probe,) = s.claim()
    assert probe.job.is_probe
    assert s.check().is_clean


def test_a_run_of_a_deleted_schedule_that_was_lost_is_taken_up_again() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.tick()
    s.claim()
    s.delete("a")
    s.restart()
    s.sleep("31s")
    s.beat()
    assert s.rescue() == 1
    (again,) = s.claim()
    s.settle(again)
    assert [job.status for job in s.jobs()] == ["succeeded"]
    assert s.check().is_clean
