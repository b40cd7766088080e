"""At least once: what becomes of a job whose worker died (R8)."""

from __future__ import annotations

import pytest

from everwhen.decide.settle import rescue
from tests.decide.builders import a_guard, a_job, a_schedule, at
from tests.decide.world import World


@pytest.mark.parametrize("rescues", [0, 1, 2])
def test_up_to_three_times_a_job_goes_back_to_the_queue(rescues: int) -> None:
    assert rescue(a_job(a_schedule(), rescues=rescues), "rerun") is None


def test_after_three_rescues_it_is_lost() -> None:
    lost = rescue(a_job(a_schedule(), rescues=3), "rerun")
    assert lost is not None and lost.status == "lost" and lost.is_failure
    assert "4 times" in (lost.error or "")


def test_one_that_must_not_run_twice_is_lost_at_once() -> None:
    lost = rescue(a_job(a_schedule()), "fail")
    assert lost is not None and lost.status == "lost"
    assert "must not run twice" in (lost.error or "")


def test_four_dead_workers_are_four_attempts_under_one_id_and_one_error() -> None:
    """Case 14, as far as it is decided without leases."""
    world = World(at("08:00"))
    world.add(a_schedule(every="1d", guard=a_guard(1)))
    world.tick()
    attempts = []
    for _ in range(4):
        job = world.start()
        attempts.append((job.job_id, job.attempt))
        world.kill_worker(job)
    assert attempts == [("sched-a1b2c3d4e5f6-n1-rc0", attempt) for attempt in (1, 2, 3, 4)]
    assert world.jobs["sched-a1b2c3d4e5f6-n1-rc0"].status == "lost"
    state = world.state()
    assert (state.error_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert world.limits["guard:withings:poll"].outstanding == 0
