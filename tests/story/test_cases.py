"""The cases that the semantics decide, in their own words and with their own numbers."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.instants import to_datetime
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window

FAILED = Outcome("failed", error="no luck")


def scheduler(start: str) -> ManualScheduler:
    return manual_scheduler(f"2026-01-05T{start}Z")


def put_quiet_hours(s: ManualScheduler, between: str, action: Any = "skip") -> None:
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window(between)),))
    store_of(s.runtime).catalogue.add_policy(
        s.clock.now(), QuietHoursPolicy("nights", "nights", hours, action)
    )


def fired(s: ManualScheduler, schedule_id: str) -> list[str]:
    """Slot and time of firing of each job."""
    return [f"{job.slot:%H:%M} at {to_datetime(job.created_at):%H:%M}" for job in s.jobs(schedule_id)]


@pytest.mark.parametrize("restarts", [False, True])
def test_case_1_at_capacity_for_ten_minutes_the_slot_is_held_and_fires_then(restarts: bool) -> None:
    s = scheduler("08:30:00")
    agent: dict[str, Any] = {"group": "reviewer", "max_concurrent": 1}
    s.add("reviewer.long", every="24h", **agent)
    s.add("reviewer.report", cron="0 9,10 * * *", **agent)
    s.tick()
    (running,) = s.claim()
    s.run_until("2026-01-05T09:05:00Z", work=False)
    if restarts:
        s.restart()
    s.run_until("2026-01-05T09:10:00Z", work=False)
    assert s.state("reviewer.report").held_reason == "at_capacity"
    s.settle(running)
    s.step()
    assert fired(s, "reviewer.report") == ["09:00 at 09:10"]
    assert s.check().is_clean


def test_case_2_a_stall_that_ends_four_seconds_after_the_last_slot_fires_it_six_seconds_after_misses_it() -> (
    None
):
    for seconds, jobs, missed in ((4, 1, 2), (6, 0, 3)):
        s = scheduler("08:00:00")
        s.add("a", every="10s", first_run="after_interval")
        s.sleep(30 + seconds)
        s.beat()
        s.step()
        assert len(s.jobs("a")) == jobs
        assert [event.reason for event in s.events("a", "schedule.missed")] == ["late"] * missed
        assert s.check().is_clean


def test_case_3_with_jitter_due_four_minutes_after_the_slot_is_not_late() -> None:
    s = scheduler("08:00:00")
    s.add("jittered", every="1h", jitter="5m")
    state = s.state("jittered")
    assert state.next_run_at is not None and state.next_slot_at is not None
    s.run_until(state.next_run_at)
    (job,) = s.jobs("jittered")
    assert (job.origin, job.slot_at) == ("schedule", state.next_slot_at)
    assert job.due_at > job.slot_at
    assert s.events("jittered", "schedule.missed") == []


def test_case_4_down_over_nine_run_once_gives_one_job_with_the_slot_of_nine() -> None:
    s = scheduler("07:59:00")
    s.add("a", cron="0 9 * * *", catch_up="run_once")
    s.sleep("6h1m")
    s.restart()
    s.step()
    assert fired(s, "a") == ["09:00 at 14:00"]
    assert s.jobs("a")[0].origin == "catch_up"
    soon = scheduler("07:59:00")
    soon.add("a", cron="0 9 * * *", catch_up="run_once")
    soon.sleep("1h1m10s")
    soon.restart()
    soon.step()
    assert [job.origin for job in soon.jobs("a")] == ["schedule"]


def test_case_5_down_into_quiet_hours_gives_one_job_that_waits_for_the_opening() -> None:
    s = scheduler("19:30:00")
    put_quiet_hours(s, "22:00-07:00")
    s.add("a", cron="0 * * * *", catch_up="run_once", quiet_hours="nights")
    s.sleep("7h30m")
    s.restart()
    s.step()
    (job,) = s.jobs("a")
    assert (f"{job.slot:%H:%M}", job.origin, job.status) == ("21:00", "catch_up", "queued")
    assert job.not_before - s.clock.now() == 4 * 3_600_000_000
    (caught_up,) = s.events("a", "schedule.caught_up")
    assert caught_up.slot_count == 2
    s.advance("4h")
    skipped = [event.reason for event in s.events("a", "schedule.skipped")]
    # 22:00 to 06:00 were quiet; the slot of 07:00 finds the job that has waited for this very moment.
    assert skipped == ["quiet_hours"] * 9 + ["retrying"]
    assert s.jobs("a")[0].started_at == s.jobs("a")[0].not_before
    assert s.check().is_clean


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 * * * *", ["21:30 at 21:30", "06:30 at 07:00", "07:30 at 07:30"]),
        ("0 * * * *", ["07:00 at 07:00"]),
    ],
)
def test_case_6_deferred_slots_fire_once_at_the_opening(cron: str, expected: list[str]) -> None:
    s = scheduler("21:10:00")
    put_quiet_hours(s, "22:00-07:00", "defer")
    s.add("a", cron=cron, quiet_hours="nights")
    s.advance("10h30m")
    assert fired(s, "a") == expected
    assert {event.reason for event in s.events("a", "schedule.skipped")} == {"superseded"}
    assert s.check().is_clean


def test_case_7_a_retry_that_waits_a_day_holds_nobody_back() -> None:
    s = scheduler("08:00:00")
    shared: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 1}
    s.add("withings.one", every="7d", max_retries=3, retry_delay="24h", **shared)
    s.add("withings.two", every="10m", first_run="after_interval", **shared)
    s.outcome = lambda claimed: FAILED if claimed.job.schedule_id == "withings.one" else Outcome("succeeded")
    s.advance("1h")
    assert len(s.jobs("withings.two")) == 6
    assert s.events("withings.two", "schedule.skipped") == []


def test_case_8_deleted_and_added_again_within_a_minute_its_first_slot_fires_and_ids_differ() -> None:
    s = scheduler("08:00:00")
    s.add("withings.hourly", every="1h")
    s.step()
    s.delete("withings.hourly")
    s.advance("30s")
    s.add("withings.hourly", every="1h")
    s.step()
    first, second = s.jobs("withings.hourly")
    assert first.job_id != second.job_id
    assert (first.status, second.status) == ("succeeded", "succeeded")
    assert s.check().is_clean


def test_case_10_a_pause_over_a_thousand_slots_is_one_span_and_resume_fires_none_of_them() -> None:
    s = scheduler("08:00:00")
    s.add("a", every="1m", first_run="after_interval")
    s.pause("a")
    s.advance("1000m")
    s.resume("a")
    s.advance("1m")
    assert len(s.jobs("a")) == 1
    assert [event.type for event in s.events("a")] == [
        "schedule.created",
        "schedule.paused",
        "schedule.resumed",
    ]
    assert s.check().is_clean


def test_case_11_at_the_repeat_limit_what_is_queued_is_cancelled() -> None:
    s = scheduler("08:00:00")
    s.add("a", every="1m", if_running="queue", total_repeats=5)
    s.advance("3m")
    assert s.state("a").current_repeat == 4
    s.advance("3m", work=False)
    assert len([job for job in s.jobs("a") if job.status == "queued"]) == 3
    s.step()
    assert [job.status for job in s.jobs("a")[4:]] == ["succeeded", "cancelled", "cancelled"]
    assert [job.reason for job in s.jobs("a")[5:]] == ["done", "done"]
    assert s.check().is_clean


def test_case_12_a_manual_job_that_fails_four_times_leaves_the_schedule_active() -> None:
    s = scheduler("08:00:00")
    s.add("a", every="1h", first_run="after_interval", max_retries=3)
    s.outcome = lambda claimed: FAILED
    for _ in range(4):
        s.trigger("a")
        s.step()
    state = s.state("a")
    assert (state.status, state.error_count, state.current_retry) == ("active", 0, 0)
    assert [job.status for job in s.jobs("a")] == ["failed"] * 4


def test_case_13_the_clock_jumps_an_hour_while_five_jobs_run_none_is_rescued_and_the_hour_is_missed() -> None:
    s = scheduler("08:00:00")
    for number in range(5):
        s.add(f"long-{number}", every="24h")
    s.add("minutely", every="1m", first_run="after_interval")
    s.tick()
    running = s.claim()
    s.clock.step("1h")
    s.beat()  # its own lease is its own
    assert store_of(s.runtime).slots.rescue(s.clock.now(), node=s.node, lease=30_000_000) == 0
    s.step()
    assert len(running) == 5
    assert sum(event.slot_count for event in s.events("minutely", "schedule.missed")) == 59
    for claimed in running:
        assert s.settle(claimed) == 1
    assert s.check().is_clean


def test_case_14_killed_four_times_it_keeps_its_id_and_is_lost_at_last() -> None:
    s = scheduler("08:00:00")
    s.add("a", every="24h")
    s.tick()
    attempts = []
    for _ in range(4):
        (claimed,) = s.claim()
        attempts.append((claimed.job.job_id, claimed.job.attempt))
        s.sleep("1m")
        s.restart()
        store_of(s.runtime).slots.rescue(s.clock.now(), node=s.node, lease=30_000_000)
    uid = s.state("a").uid
    assert attempts == [(f"sched-{uid}-n1-rc0", number) for number in (1, 2, 3, 4)]
    assert [job.status for job in s.jobs("a")] == ["lost"]
    assert s.state("a").error_count == 1
    assert s.check().is_clean


def test_case_15_a_chain_whose_slot_lies_in_quiet_hours_goes_on_from_its_due_time() -> None:
    s = scheduler("21:55:00")
    put_quiet_hours(s, "22:00-23:00")
    s.add("a", every="30m", interval_from="completion", quiet_hours="nights")
    s.advance("2h")
    assert fired(s, "a") == ["21:55 at 21:55", "23:25 at 23:25", "23:55 at 23:55"]
    skipped = s.events("a", "schedule.skipped")
    assert [event.reason for event in skipped] == ["quiet_hours"] * 2  # 22:25 and 22:55
    assert s.check().is_clean
