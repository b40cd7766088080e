"""Jobs wait in lines: a store makes the next job of a line ready when, and only when, the previous one is gone."""

from __future__ import annotations

from typing import Any

from everwhen.operations.jobs import backfill, fire_schedule
from tests.conformance.tenant import FAILED, Tenant


def a_missed_morning(runtime: Tenant, **fields: Any) -> None:
    """Miss hourly slots from nine to eleven; the time is 11:30 afterwards."""
    runtime.add("a", every="1h", first_run="after_interval", **fields)
    runtime.wait("3h30m")
    runtime.step()


def fill(runtime: Tenant, **keys: Any) -> int:
    now = runtime.clock.moment
    return len(backfill(runtime.runtime, "a", now.replace(hour=8, minute=0), now, **keys).slots)


def slots_of(claimed: Any) -> list[int]:
    return [one.job.slot_at // 3_600_000_000 % 24 for one in claimed]


def test_backfills_run_one_after_another_beside_own_jobs(runtime: Tenant) -> None:
    a_missed_morning(runtime)
    assert fill(runtime) == 3
    (nine,) = runtime.claim()
    runtime.wait("30m")
    runtime.step()
    (own,) = runtime.claim()
    assert (nine.job.origin, own.job.origin) == ("backfill", "schedule")
    assert runtime.state("a").running_jobs == 1
    runtime.settle(nine, own)
    assert slots_of(runtime.claim()) == [10]


def test_a_cancelled_backfill_calls_nobody_while_another_has_a_worker(runtime: Tenant) -> None:
    a_missed_morning(runtime)
    fill(runtime)
    (nine,) = runtime.claim()
    ten, eleven = (job for job in runtime.jobs("a") if job.status == "queued")
    runtime.cancel(ten.job_id)
    assert runtime.claim() == []
    runtime.cancel(nine.job.job_id)  # cancelled, and its worker has not released it
    assert runtime.claim() == []
    runtime.settle(nine)
    assert [one.job.job_id for one in runtime.claim()] == [eleven.job_id]


def test_a_lost_backfill_comes_back_before_the_next(runtime: Tenant) -> None:
    a_missed_morning(runtime)
    fill(runtime)
    (nine,) = runtime.claim()
    other = runtime.neighbour()
    runtime.wait("1m")
    assert other.rescue() == 1
    (again,) = other.claim()
    assert again.job.job_id == nine.job.job_id
    other.settle(again)
    assert slots_of(other.claim()) == [10]


def test_catch_up_runs_one_after_another_where_jobs_may_overlap(runtime: Tenant) -> None:
    a_missed_morning(runtime, if_running="allow", catch_up="run_all")
    seen: list[int] = []
    while claimed := runtime.claim():
        assert len(claimed) == 1
        seen += slots_of(claimed)
        runtime.settle(*claimed)
    assert seen == [9, 10, 11]


def test_the_earlier_slot_goes_first_across_the_edge_of_a_claim(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="1m10s")
    runtime.tick()
    runtime.settle(*runtime.claim(), outcome=FAILED)  # its retry comes at 08:01:10
    runtime.wait("1m")
    runtime.tick()
    for number in range(30):
        runtime.add(f"x{number}", every="1h")  # ready before the retry
    runtime.tick()
    runtime.wait("10s")
    (first,) = runtime.claim(1)
    assert (first.job.schedule_id, first.job.origin) == ("a", "retry")


def test_a_running_job_of_a_deleted_schedule_is_cancelled(runtime: Tenant) -> None:
    runtime.add("g.a", group="g", every="1h", max_outstanding=1, max_concurrent=1)
    runtime.tick()
    (running,) = runtime.claim()
    runtime.delete("g.a")
    assert runtime.cancel(running.job.job_id).status == "cancelled"
    runtime.settle(running)
    runtime.add("g.b", group="g", every="1h", max_outstanding=1, max_concurrent=1)
    runtime.tick()
    assert len(runtime.claim()) == 1  # the places are free


def test_a_request_is_fired_or_skipped_on_record(runtime: Tenant) -> None:
    runtime.add("hook", type="webhook")
    assert not fire_schedule(runtime.runtime, "hook").is_skipped
    runtime.claim()
    assert fire_schedule(runtime.runtime, "hook").skip_reason == "already_running"
    runtime.pause_system()
    assert fire_schedule(runtime.runtime, "hook").skip_reason == "paused"
    runtime.resume_system()
