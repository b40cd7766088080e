"""A chain with a run in flight is changed, the clock is put back to before the change, and the run ends (T3, E9).

The next slot counts from that end, so it may lie before the change; it is later than every decided slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from everwhen.model.instants import MINUTE
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.schedule import Definition, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import Every
from tests.stateful.test_state_machine import START, prove
from tests.stateful.world import World

CHAIN = Definition(Every(60, "1m"), zone("UTC"), Target("command"), interval_from="completion")
NAME = "s1"


def edit(world: World) -> None:
    world.edit(NAME, replace(CHAIN, trigger=Every(30, "30s")))


def pause_and_resume(world: World) -> None:
    world.pause(NAME)
    world.move(MINUTE)
    assert world.resume(NAME)


def invalidate_and_restore(world: World) -> None:
    world.invalidate(NAME)
    world.move(MINUTE)
    assert world.restore(NAME)


def pause_the_system(world: World) -> None:
    world.pause_system(True)
    world.move(MINUTE)
    world.pause_system(False)


def delete(world: World) -> None:
    world.delete(NAME, cancel_running=False)


CHANGES = (edit, pause_and_resume, invalidate_and_restore, pause_the_system, delete)
ENDS = (SUCCEEDED, Outcome("cancelled"))


@pytest.fixture
def world() -> World:
    return World(START)


def take_up(world: World, definition: Definition = CHAIN) -> None:
    """Create a chain whose first run is in flight."""
    world.create(NAME, definition)
    world.tick()
    assert len(world.claim("n1", 5)) == 1
    prove(world)


def go_on_for_a_while(world: World) -> None:
    prove(world)
    for _ in range(8):
        world.move(MINUTE)
        world.tick()
        prove(world)
        for job in world.claim("n1", 5):
            world.settle([(job, SUCCEEDED)])
            prove(world)


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: outcome.status)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("back", [5 * MINUTE, 15 * MINUTE])
def test_a_chain_changed_in_flight_goes_on_after_the_clock_was_put_back_before_the_change(
    world: World, change: Callable[[World], None], outcome: Outcome, back: int
) -> None:
    take_up(world)
    world.move(10 * MINUTE)
    change(world)
    prove(world)
    world.move(-back)
    prove(world)
    world.settle([(world.running[0], outcome)])
    go_on_for_a_while(world)
    if change is not delete:
        assert world.states()[0].run_count >= 2
    world.close()


def test_a_chain_revived_in_flight_goes_on_after_the_clock_was_put_back_before_the_revival(
    world: World,
) -> None:
    """Only a grid edited into a chain has a second run, which is still in flight when the first ends the schedule."""
    take_up(world, replace(CHAIN, interval_from="slot", if_running="allow"))
    world.move(MINUTE)
    world.tick()
    assert len(world.claim("n1", 5)) == 1
    world.edit(NAME, replace(CHAIN, total_repeats=1))
    world.settle([(world.running[0], SUCCEEDED)])
    assert world.states()[0].status == "done"
    world.move(10 * MINUTE)
    assert world.revive(NAME)
    world.move(-5 * MINUTE)
    world.settle([(world.running[0], Outcome("failed", error="no"))])
    assert world.states()[0].next_slot_at == world.now + MINUTE
    go_on_for_a_while(world)
    world.close()


@pytest.mark.parametrize("change", [edit, pause_and_resume, invalidate_and_restore])
def test_a_slot_made_before_the_change_is_not_made_again(
    world: World, change: Callable[[World], None]
) -> None:
    take_up(world)
    world.move(10 * MINUTE)
    change(world)
    world.move(-8 * MINUTE)
    world.settle([(world.running[0], SUCCEEDED)])
    fired = [job.slot_at for job in _run(world, 3)]
    world.move(-2 * MINUTE)
    fired += [job.slot_at for job in _run(world, 6)]
    assert fired == sorted(set(fired)) and len(fired) >= 4
    prove(world)
    world.close()


def test_a_chain_whose_start_was_put_off_in_flight_waits_for_it(world: World) -> None:
    take_up(world)
    start_at = world.now // 1_000_000 + 3_600
    world.edit(NAME, replace(CHAIN, start_at=start_at))
    world.settle([(world.running[0], SUCCEEDED)])
    assert world.states()[0].next_slot_at == start_at * 1_000_000
    prove(world)
    world.move(60 * MINUTE)
    assert world.tick() == 1
    go_on_for_a_while(world)
    world.close()


def _run(world: World, minutes: int) -> list[Job]:
    jobs: list[Job] = []
    for _ in range(minutes):
        world.move(MINUTE)
        world.tick()
        for job in world.claim("n1", 5):
            jobs.append(job)
            world.settle([(job, SUCCEEDED)])
        prove(world)
    return jobs
