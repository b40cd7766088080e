"""How a node tries again after its host let a job not begin: growing pauses, a real small process, a slow start."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from everwhen.engine.fitness import LONGEST_PAUSE, SLOW_START, WELL_AFTER, Fitness, Trial
from everwhen.model.host_fault import HostFault
from everwhen.testing.manual import ManualClock


class Refused(Trial):
    """A trial that the host refuses so often; then its process has ended when the clock of the test goes on."""

    def __init__(self, times: int = 0) -> None:
        super().__init__()
        self.times = times
        self.begun_at: list[float] = []

    def begin(self, now: float) -> HostFault | None:
        self.begun_at.append(now)
        self.times -= 1
        if self.times >= 0:
            return "memory"
        fault = super().begin(now)
        assert self._process is not None
        self._process.wait(60)
        return fault


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05T08:00:00Z")


def wait_until_fit(fitness: Fitness, clock: ManualClock) -> None:
    """Step as a worker does, until a trial has succeeded."""
    while fitness.unfit is not None:
        clock.advance(timedelta(seconds=fitness.seconds_to_next(1.0)))
        fitness.step(0)


def test_trials_come_after_growing_pauses_up_to_the_longest(clock: ManualClock) -> None:
    trial = Refused(9)
    fitness = Fitness(clock, trial, jitter=lambda: 0.0)
    begun = clock.monotonic()
    fitness.note("descriptors")
    assert fitness.count_claimable(8, 0) == 0
    wait_until_fit(fitness, clock)
    times = [begun, *trial.begun_at]
    pauses = [round(after - before) for before, after in pairwise(times)]
    assert pauses == [1, 2, 4, 8, 16, 32, 48, 48, 48, 48]
    fitness.close()


def test_no_pause_is_longer_than_the_longest_whatever_its_jitter(clock: ManualClock) -> None:
    trial = Refused(9)
    fitness = Fitness(clock, trial, jitter=lambda: 1.0)
    fitness.note("descriptors")
    wait_until_fit(fitness, clock)
    pauses = [after - before for before, after in pairwise(trial.begun_at)]
    assert max(pauses) <= LONGEST_PAUSE + 1
    fitness.close()


def test_the_last_fault_is_shown_and_since_when_the_node_is_unfit(clock: ManualClock) -> None:
    fitness = Fitness(clock, Refused(1), jitter=lambda: 0.0)
    fitness.note("descriptors")
    since = clock.now()
    clock.advance(2)
    fitness.step(0)
    assert fitness.unfit is not None and tuple(fitness.unfit) == ("memory", since)
    assert "no memory is free" in str(fitness.unfit)


def test_a_node_that_can_begin_jobs_again_begins_with_one_and_soon_with_all(clock: ManualClock) -> None:
    fitness = Fitness(clock, Refused())
    assert fitness.count_claimable(8, 0) == 8
    fitness.note("descriptors")
    wait_until_fit(fitness, clock)
    assert [fitness.count_claimable(8, 0), fitness.count_claimable(7, 1)] == [1, 0]
    clock.advance(timedelta(seconds=2.5))
    assert fitness.count_claimable(8, 0) == 4
    clock.advance(timedelta(seconds=SLOW_START))
    assert fitness.count_claimable(1_000, 0) == 1_000
    fitness.close()


def test_a_node_that_falls_ill_again_soon_goes_on_with_the_longer_pauses(clock: ManualClock) -> None:
    fitness = Fitness(clock, Refused(), jitter=lambda: 0.0)
    waits = []
    for healthy_for in (0, 5, int(WELL_AFTER) + 1):
        clock.advance(healthy_for)
        fitness.note("descriptors")
        waits.append(round(fitness.seconds_to_next(60.0)))
        wait_until_fit(fitness, clock)
    assert waits == [1, 2, 1]
    fitness.close()
