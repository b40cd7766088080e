"""What people, webhooks and chats ask for beside the calendar: triggers, requests, backfills, cancelled jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everwhen.errors import RequestError
from everwhen.model.outcome import Outcome
from everwhen.operations.jobs import backfill, cancel_job, fire_schedule, get_job, trigger_schedule
from everwhen.operations.schedules import pause_system, resume_system
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler

FAILED = Outcome("failed", error="no luck")


def scheduler(start: str = "2026-01-05T08:00:00Z") -> ManualScheduler:
    return manual_scheduler(start)


def with_a_missed_morning(**fields: Any) -> ManualScheduler:
    """Hourly slots from nine to eleven that were missed; it is 11:30."""
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval", **fields)
    s.sleep("3h30m")
    s.step()
    return s


def fill(s: ManualScheduler, **keys: Any) -> Any:
    return backfill(s.runtime, "a", s.clock.moment.replace(hour=8, minute=0), s.clock.moment, **keys)


# -- triggers --


def test_a_trigger_tells_its_job() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    firing = s.trigger("a")
    assert (firing.job_id, firing.skip_reason, firing.is_skipped) == (s.jobs("a")[0].job_id, None, False)


@pytest.mark.parametrize(
    ("if_running", "queue_limit", "reason"),
    [("skip", 1_000, "already_running"), ("queue", 1, "queue_full")],
)
def test_a_trigger_that_is_skipped_tells_why(if_running: Any, queue_limit: int, reason: str) -> None:
    s = scheduler()
    s.add("a", every="1h", queue_limit=queue_limit)
    s.tick()
    s.claim()
    s.trigger("a")  # queued behind the one that runs
    firing = s.trigger("a", if_running=if_running)
    assert (firing.job_id, firing.skip_reason, firing.is_skipped) == (None, reason, True)
    assert len(s.jobs("a")) == 2


def test_a_trigger_that_may_overlap_runs_beside_the_run() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.tick()
    s.claim()
    s.trigger("a", if_running="allow")
    assert [claimed.job.origin for claimed in s.claim()] == ["manual"]
    assert s.check().is_clean


def test_a_slot_queues_behind_a_trigger_that_runs_beside() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval", if_running="queue")
    s.trigger("a", if_running="allow")
    (manual,) = s.claim()
    s.sleep("1h")
    s.tick()
    assert s.claim() == []
    s.settle(manual)
    assert [claimed.job.origin for claimed in s.claim()] == ["schedule"]


def test_a_trigger_of_a_schedule_whose_jobs_may_overlap_never_waits() -> None:
    s = scheduler()
    s.add("a", every="1h", if_running="allow")
    s.tick()
    s.claim()
    s.trigger("a")
    assert len(s.claim()) == 1


# -- backfills --


def test_a_running_backfill_does_not_hold_the_schedules_own_jobs_back() -> None:
    s = with_a_missed_morning()
    fill(s)
    (running,) = s.claim()
    s.sleep("30m")
    s.tick()
    assert [claimed.job.origin for claimed in s.claim()] == ["schedule"]
    assert s.state("a").running_jobs == 1
    assert s.check().is_clean
    s.settle(running)
    assert [claimed.job.origin for claimed in s.claim()] == ["backfill"]
    assert s.check().is_clean


def test_a_running_backfill_takes_no_place_in_the_queue_count() -> None:
    s = with_a_missed_morning(if_running="queue", queue_limit=1)
    fill(s)
    s.claim()
    s.trigger("a")
    assert s.trigger("a").skip_reason == "queue_full"


def test_a_cancelled_run_that_has_not_let_go_takes_no_place_from_the_queue_count() -> None:
    """And lets nobody in who would be one too many."""
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h", if_running="queue", queue_limit=1)
    s.tick()
    (running,) = s.claim()
    cancel_job(s.runtime, running.job.job_id)
    s.advance("1h", work=False)
    s.advance("1h", work=False)
    assert [job.status for job in s.jobs("a")] == ["cancelled", "queued"]
    assert [event.reason for event in s.events("a", "schedule.skipped")] == ["queue_full"]
    assert trigger_schedule(s.runtime, "a").skip_reason == "queue_full"
    s.settle(running)
    assert s.check().is_clean


def test_a_backfill_that_is_to_skip_fills_nothing_while_a_job_is_outstanding() -> None:
    s = with_a_missed_morning()
    s.trigger("a")
    found = fill(s, if_running="skip")
    assert (found.slots, found.skip_reason) == ((), "already_running")
    s.work()
    assert len(fill(s, if_running="skip").slots) == 3


def test_a_backfill_that_is_to_cancel_ends_the_schedules_own_jobs() -> None:
    s = with_a_missed_morning()
    s.sleep("30m")
    s.tick()
    (own,) = s.claim()
    assert len(fill(s, if_running="cancel").slots) == 3
    assert get_job(s.runtime, own.job.job_id).reason == "overlap"
    s.settle(own)
    assert s.check().is_clean


def test_backfills_that_may_overlap_run_side_by_side() -> None:
    s = with_a_missed_morning()
    fill(s, if_running="allow")
    assert len(s.claim()) == 3


def test_a_cancelled_backfill_calls_nobody_while_another_of_its_line_runs() -> None:
    s = with_a_missed_morning()
    fill(s)
    (first,) = s.claim()
    cancel_job(s.runtime, s.jobs("a")[1].job_id)  # the second, still queued
    assert s.claim() == []
    cancel_job(s.runtime, first.job.job_id)  # killed, and its worker has not let go yet
    assert s.claim() == []
    s.settle(first)
    (last,) = s.claim()
    s.settle(last)
    assert [job.status for job in s.jobs("a")] == ["cancelled", "cancelled", "succeeded"]
    assert s.check().is_clean


def test_a_second_backfill_stands_behind_the_first() -> None:
    s = with_a_missed_morning()
    backfill(s.runtime, "a", s.clock.moment.replace(hour=8, minute=0), s.clock.moment.replace(hour=9))
    (running,) = s.claim()
    assert len(fill(s).slots) == 2
    assert s.claim() == []
    s.settle(running)
    s.advance(0)
    assert {job.status for job in s.jobs("a")} == {"succeeded"}


# -- jobs of schedules that are gone --


def test_a_running_job_of_a_deleted_schedule_is_cancelled_by_its_id() -> None:
    s = scheduler()
    s.add("g.a", group="g", every="1h", max_outstanding=1, max_concurrent=1)
    s.add("g.b", group="g", every="1h", max_outstanding=1, max_concurrent=1)
    s.tick()
    (running,) = s.claim()
    s.delete(running.job.schedule_id)
    cancelled = cancel_job(s.runtime, running.job.job_id)
    assert (cancelled.status, cancelled.reason) == ("cancelled", "person")
    assert store_of(s.runtime).slots.cancel_requests(s.node) == [running.job.job_id]
    s.settle(running)
    s.advance(0)  # the place is free again
    assert [job.status for job in s.jobs()] == ["cancelled", "succeeded"]
    (event,) = [e for e in s.events(None, "job.cancelled") if e.job_id == running.job.job_id]
    assert event.reason == "person"
    assert s.check().is_clean


def test_the_probe_of_a_deleted_schedule_gives_its_breaker_back_when_it_is_cancelled() -> None:
    s = scheduler()
    breaker = {"threshold": 1, "reset_after": "10m"}
    for name in ("g.a", "g.b"):
        s.add(name, group="g", command="poll", every="1h", circuit_breaker=breaker)
    s.outcome = lambda claimed: FAILED
    s.step()
    s.sleep("1h")
    s.tick()
    (probe,) = s.claim()
    s.delete(probe.job.schedule_id)
    cancel_job(s.runtime, probe.job.job_id)
    (key,) = {job.breaker_key for job in s.jobs()}
    assert store_of(s.runtime).ledger.breaker(key).state == "open"


def test_a_job_of_a_deleted_schedule_that_has_ended_stays_as_it_is() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.step()
    job_id = s.jobs("a")[0].job_id
    s.delete("a")
    assert cancel_job(s.runtime, job_id).status == "succeeded"


# -- webhooks and chats --


@pytest.mark.parametrize("kind", ["webhook", "chat"])
def test_a_request_fires_an_own_job(kind: str) -> None:
    s = scheduler()
    s.add("hook", type=kind, payload={"a": 1, "b": 1}, total_repeats=2)
    firing = fire_schedule(s.runtime, "hook", payload={"b": 2})
    (claimed,) = s.claim()
    assert (claimed.job.job_id, claimed.job.origin) == (firing.job_id, kind)
    assert json.loads(claimed.job.payload or "") == {"a": 1, "b": 2}
    s.settle(claimed)
    state = s.state("hook")
    assert (state.run_count, state.current_repeat, state.last_fired_at) == (1, 1, s.clock.now())
    fire_schedule(s.runtime, "hook")
    s.work()
    assert s.state("hook").status == "done"
    assert s.check().is_clean


def test_a_request_moves_errors_retries_and_the_breaker() -> None:
    s = scheduler()
    breaker = {"threshold": 2, "reset_after": "10m"}
    rules: dict[str, Any] = {"max_retries": 1, "retry_delay": "1m", "on_exhausted": "stop"}
    s.add("hook", type="webhook", circuit_breaker=breaker, **rules)
    s.outcome = lambda claimed: FAILED
    fire_schedule(s.runtime, "hook")
    s.advance("20m")
    state = s.state("hook")
    assert (state.status, state.error_count) == ("dead", 2)
    assert [job.origin for job in s.jobs()] == ["webhook", "retry"]
    assert store_of(s.runtime).ledger.breaker(s.jobs()[0].breaker_key).state == "open"
    assert s.check().is_clean


@pytest.mark.parametrize(
    "fields",
    [
        {"max_outstanding": 1},
        {"budgets": {"g": {"fires_per_day": 1}}},
        {"circuit_breaker": {"threshold": 1, "reset_after": "10h"}},
    ],
    ids=["guard", "budget", "breaker"],
)
def test_guard_budget_and_breaker_never_refuse_a_request(fields: dict[str, Any]) -> None:
    s = scheduler()
    s.add("g.hook", group="g", type="webhook", if_running="allow", **fields)
    fire_schedule(s.runtime, "g.hook")
    (claimed,) = s.claim()
    s.settle(claimed, FAILED)
    for _ in range(2):
        assert not fire_schedule(s.runtime, "g.hook").is_skipped
    assert len(s.claim()) == 2
    assert s.check().is_clean


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"if_running": "skip"}, "already_running"),
        ({"if_running": "queue", "queue_limit": 1}, "queue_full"),
    ],
)
def test_overlap_skips_a_request_and_records_it(fields: dict[str, Any], reason: str) -> None:
    s = scheduler()
    s.add("hook", type="webhook", **fields)
    fire_schedule(s.runtime, "hook")
    s.claim()
    if reason == "queue_full":
        fire_schedule(s.runtime, "hook")
    firing = fire_schedule(s.runtime, "hook")
    assert (firing.job_id, firing.skip_reason) == (None, reason)
    (event,) = s.events("hook", "schedule.skipped")
    assert (event.reason, event.slot_at, event.detail) == (reason, s.clock.now(), {"origin": "webhook"})
    assert s.check().is_clean


def test_a_waiting_retry_is_a_run_to_a_request() -> None:
    s = scheduler()
    s.add("hook", type="webhook", max_retries=1)
    fire_schedule(s.runtime, "hook")
    (claimed,) = s.claim()
    s.settle(claimed, FAILED)
    assert fire_schedule(s.runtime, "hook").skip_reason == "already_running"


def test_a_paused_schedule_skips_its_requests() -> None:
    s = scheduler()
    s.add("hook", type="webhook")
    s.pause("hook")
    assert fire_schedule(s.runtime, "hook").skip_reason == "paused"
    s.resume("hook")
    assert not fire_schedule(s.runtime, "hook").is_skipped
    assert s.check().is_clean


def test_a_paused_system_skips_requests() -> None:
    s = scheduler()
    s.add("hook", type="webhook")
    pause_system(s.runtime)
    assert fire_schedule(s.runtime, "hook").skip_reason == "paused"
    resume_system(s.runtime)
    assert not fire_schedule(s.runtime, "hook").is_skipped
    assert s.check().is_clean


def test_a_schedule_of_the_clock_takes_no_request() -> None:
    s = scheduler()
    s.add("a", every="1h")
    with pytest.raises(RequestError, match="not a webhook or chat schedule; trigger it instead"):
        fire_schedule(s.runtime, "a")
    assert len(s.jobs("a")) == 0
