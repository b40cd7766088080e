"""Jobs stand in lines: a store readies the next of a line when, and only when, the one before it is gone."""

from __future__ import annotations

from typing import Any

from everwhen.operations.firing import fire_schedule
from everwhen.operations.jobs import backfill
from tests.conformance.tenant import FAILED, Tenant


def a_missed_morning(house: Tenant, **words: Any) -> None:
    """Hourly slots from nine to eleven are missed; it is 11:30."""
    house.add("a", every="1h", first_run="after_interval", **words)
    house.wait("3h30m")
    house.step()


def fill(house: Tenant, **keys: Any) -> int:
    now = house.clock.moment
    return len(backfill(house.house, "a", now.replace(hour=8, minute=0), now, **keys).slots)


def slots_of(claimed: Any) -> list[int]:
    return [one.job.slot_at // 3_600_000_000 % 24 for one in claimed]


def test_backfills_run_one_after_another_beside_own_jobs(house: Tenant) -> None:
    a_missed_morning(house)
    assert fill(house) == 3
    (nine,) = house.claim()
    house.wait("30m")
    house.step()
    (own,) = house.claim()
    assert (nine.job.origin, own.job.origin) == ("backfill", "schedule")
    assert house.state("a").running_jobs == 1
    house.settle(nine, own)
    assert slots_of(house.claim()) == [10]


def test_a_cancelled_backfill_calls_nobody_while_another_has_a_worker(house: Tenant) -> None:
    a_missed_morning(house)
    fill(house)
    (nine,) = house.claim()
    ten, eleven = (job for job in house.jobs("a") if job.status == "queued")
    house.cancel(ten.job_id)
    assert house.claim() == []
    house.cancel(nine.job.job_id)  # killed, and its worker has not let go
    assert house.claim() == []
    house.settle(nine)
    assert [one.job.job_id for one in house.claim()] == [eleven.job_id]


def test_a_lost_backfill_comes_back_before_the_next(house: Tenant) -> None:
    a_missed_morning(house)
    fill(house)
    (nine,) = house.claim()
    other = house.neighbour()
    house.wait("1m")
    assert other.rescue() == 1
    (again,) = other.claim()
    assert again.job.job_id == nine.job.job_id
    other.settle(again)
    assert slots_of(other.claim()) == [10]


def test_catch_up_runs_one_after_another_where_jobs_may_overlap(house: Tenant) -> None:
    a_missed_morning(house, if_running="allow", catch_up="run_all")
    seen: list[int] = []
    while claimed := house.claim():
        assert len(claimed) == 1
        seen += slots_of(claimed)
        house.settle(*claimed)
    assert seen == [9, 10, 11]


def test_the_earlier_slot_goes_first_across_the_edge_of_a_claim(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="1m10s")
    house.tick()
    house.settle(*house.claim(), outcome=FAILED)  # its retry comes at 08:01:10
    house.wait("1m")
    house.tick()
    for number in range(30):
        house.add(f"x{number}", every="1h")  # ready before the retry
    house.tick()
    house.wait("10s")
    (first,) = house.claim(1)
    assert (first.job.schedule_id, first.job.origin) == ("a", "retry")


def test_a_running_job_of_a_deleted_schedule_is_cancelled(house: Tenant) -> None:
    house.add("g.a", group="g", every="1h", max_outstanding=1, max_concurrent=1)
    house.tick()
    (running,) = house.claim()
    house.delete("g.a")
    assert house.cancel(running.job.job_id).status == "cancelled"
    house.settle(running)
    house.add("g.b", group="g", every="1h", max_outstanding=1, max_concurrent=1)
    house.tick()
    assert len(house.claim()) == 1  # the places are free


def test_a_request_is_fired_or_skipped_on_record(house: Tenant) -> None:
    house.add("hook", type="webhook")
    assert not fire_schedule(house.house, "hook").is_skipped
    house.claim()
    assert fire_schedule(house.house, "hook").skip_reason == "already_running"
    house.pause_system()
    assert fire_schedule(house.house, "hook").skip_reason == "paused"
    house.resume_system()
