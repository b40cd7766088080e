"""Rows P: Pipelit's recurring jobs, as far as deciding and storing go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen import recover_scheduled_jobs
from everwhen.errors import StatusError, UnknownScheduleError
from everwhen.model.outcome import Outcome
from everwhen.operations.schedules import get_schedule
from everwhen.testing import ManualScheduler, manual_scheduler

FAILED = Outcome("failed", error="no luck")
UUID = "a1b2c3d4-0000-4000-8000-000000000001"


def a_job(**fields: Any) -> ManualScheduler:
    """A recurring job as Pipelit's body makes it: after an interval, three retries an interval apart, then dead."""
    s = manual_scheduler("2026-01-05T08:00:00Z")
    body = {"every": "60s", "first_run": "after_interval", "max_retries": 3, "retry_delay": "60s"}
    s.add("job", uid=UUID, **{**body, "on_exhausted": "stop", **fields})
    return s


def failing(s: ManualScheduler) -> ManualScheduler:
    s.outcome = lambda claimed: FAILED
    return s


def test_p2_it_ends_when_paused_when_repeats_are_exhausted_and_after_too_many_failures() -> None:
    paused = a_job()
    paused.pause("job")
    exhausted = a_job(total_repeats=2)
    broken = failing(a_job())
    for s in (paused, exhausted, broken):
        s.advance("1h")
    assert [s.state("job").status for s in (paused, exhausted, broken)] == ["paused", "done", "dead"]
    assert [s.state("job").next_run_at for s in (paused, exhausted, broken)] == [None] * 3
    assert [len(s.jobs()) for s in (paused, exhausted, broken)] == [0, 2, 4]


def test_p3_the_columns_of_a_scheduled_job_are_kept() -> None:
    s = a_job(name="Daily report", owner="7", payload={"report_type": "daily"}, total_repeats=0)
    s.advance("1m")
    schedule = get_schedule(s.runtime, "job")
    state, definition = schedule.state, schedule.definition
    assert (state.uid, definition.name, definition.owner) == (UUID, "Daily report", "7")
    assert definition.payload == '{"report_type": "daily"}'
    assert (definition.total_repeats, definition.max_retries) == (0, 3)
    assert (state.current_repeat, state.current_retry, state.run_count, state.error_count) == (1, 0, 1, 0)
    assert state.last_run_at == s.jobs()[0].started_at
    assert state.last_error is None


def test_p4_the_states_and_their_changes() -> None:
    s = a_job(total_repeats=3)
    assert s.state("job").status == "active"
    assert s.pause("job").status == "paused"
    assert s.resume("job").status == "active"
    s.advance("1h")
    assert s.state("job").status == "done"
    assert [event.type for event in s.events("job")] == [
        "schedule.created",
        "schedule.paused",
        "schedule.resumed",
        "schedule.done",
    ]


def test_p5_an_active_job_has_a_next_run_and_a_paused_one_has_none() -> None:
    s = a_job()
    assert s.state("job").next_run_at == s.clock.now() + 60_000_000
    assert s.pause("job").next_run_at is None


def test_p7_a_run_still_going_skips_the_slot_and_the_next_comes_at_the_normal_interval() -> None:
    s = a_job()
    s.advance("60s", work=False)
    (running,) = s.claim()
    s.advance("60s", work=False)
    assert [event.reason for event in s.events("job", "schedule.skipped")] == ["already_running"]
    assert s.state("job").next_run_at == s.clock.now() + 60_000_000
    s.settle(running)
    s.advance("60s")
    assert [job.status for job in s.jobs()] == ["succeeded", "succeeded"]


def test_p8_success_counts_resets_retries_and_ends_at_the_repeat_limit() -> None:
    s = failing(a_job(total_repeats=2))
    s.advance("60s")
    assert s.state("job").current_retry == 1
    s.outcome = lambda claimed: Outcome("succeeded")
    s.advance("60s")
    state = s.state("job")
    assert (state.run_count, state.current_repeat, state.current_retry, state.status) == (1, 1, 0, "active")
    s.advance("60s")
    assert (s.state("job").current_repeat, s.state("job").status) == (2, "done")


def test_p9_failure_counts_backs_off_and_dies_when_retries_are_exceeded() -> None:
    s = failing(a_job())
    s.advance("60s")
    state = s.state("job")
    assert (state.error_count, state.current_retry, state.status) == (1, 1, "active")
    assert s.jobs()[-1].not_before == s.clock.now() + 60_000_000
    s.advance("2h")
    state = s.state("job")
    assert (state.error_count, state.current_retry, state.status) == (4, 4, "dead")
    assert s.check().is_clean


def test_p11_job_ids_are_made_of_uid_firing_and_retry() -> None:
    s = failing(a_job())
    s.advance("5m")
    ids = [job.job_id for job in s.jobs()]
    assert ids[:2] == [f"sched-{UUID}-n1-rc0", f"sched-{UUID}-n1-rc1"]


@pytest.mark.parametrize(
    ("interval", "pauses"),
    [("60s", [60, 120, 240, 480, 600, 600]), ("300s", [300, 600, 1_200, 2_400, 3_000, 3_000])],
)
def test_p13_the_pause_doubles_up_to_ten_intervals(interval: str, pauses: list[int]) -> None:
    s = failing(a_job(every=interval, retry_delay=interval, max_retries=6))
    s.advance("10h")
    retries = [job for job in s.jobs() if job.origin == "retry"]
    ends = [job.ended_at for job in s.jobs()]
    assert [(job.not_before - end) // 1_000_000 for job, end in zip(retries, ends, strict=False)] == pauses


def test_p18_only_active_jobs_pause_and_only_paused_ones_resume() -> None:
    s = a_job(total_repeats=1)
    with pytest.raises(StatusError, match=r"^Cannot resume job with status 'active'\.$"):
        s.resume("job")
    s.advance("5m")
    with pytest.raises(StatusError, match=r"^Cannot pause job with status 'done'\.$"):
        s.pause("job")


def test_p19_pause_keeps_the_counters_and_delete_is_for_good() -> None:
    s = a_job()
    s.advance("3m")
    before = s.state("job")
    after = s.pause("job")
    assert (after.run_count, after.current_repeat, after.fire_count) == (
        before.run_count,
        before.current_repeat,
        before.fire_count,
    )
    s.delete("job")
    with pytest.raises(UnknownScheduleError, match="Scheduled job not found"):
        s.state("job")
    assert len(s.jobs("job")) == 3  # the record stays


def test_p14_recovery_enqueues_what_active_jobs_are_behind_with_and_counts_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    s = manual_scheduler("2026-01-05T08:00:00Z", database=url)
    for name in ("behind", "paused", "over", "ahead"):
        s.add(name, every="60s", max_retries=3, catch_up="run_once", first_run="after_interval")
    s.pause("paused")
    s.edit("over", every="60s", catch_up="run_once", end_at="2026-01-05T08:00:30Z", may_be_past=True)
    s.edit("ahead", cron="0 0 1 1 *", start_at="2999-01-01T00:00:00Z")
    s.close()
    assert recover_scheduled_jobs(url) == 1
    assert recover_scheduled_jobs(url) == 0  # a slot is decided once
    s = manual_scheduler("2026-01-05T08:00:00Z", database=url)
    assert [(job.schedule_id, job.status) for job in s.jobs()] == [("behind", "queued")]
    s.close()
