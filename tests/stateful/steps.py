"""Everything that can happen to a world, one step each. The state machine and the long walks share them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from everwhen.model.cost import Cost
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import IfRunning
from tests.stateful.definitions import Luck, a_definition, some_policies, some_quiet_hours
from tests.stateful.world import World

Step = Callable[[World, Luck], None]

OUTCOMES = (
    SUCCEEDED,
    Outcome("succeeded", cost=Cost(1_700_000, "USD")),
    Outcome("failed", error="no", cost=Cost(300_000, "USD")),
    Outcome("failed", error="never", is_final=True),
    Outcome("failed", error="later", retry_after=30 * SECOND),
    Outcome("timed_out"),
    Outcome("cancelled"),
)
OVERLAPS: tuple[IfRunning, ...] = ("queue", "skip", "cancel", "allow")
NODES = ("n1", "n2")
MOST_SCHEDULES = 6


# -- time --


def wait_a_little(world: World, luck: Luck) -> None:
    world.move(luck.randint(0, 90 * SECOND))
    world.tick()


def wait_within_a_second(world: World, luck: Luck) -> None:
    """Move less than a second, which may be the one in which a one-shot lies."""
    world.move(luck.randint(0, SECOND - 1))
    if luck.choice([True, False]):
        world.tick()


def stall(world: World, luck: Luck) -> None:
    world.move(luck.randint(MINUTE, 2 * HOUR))
    world.tick(limit=luck.randint(1, 5))


def be_down_for_long(world: World, luck: Luck) -> None:
    world.move(luck.randint(2 * HOUR, 3 * DAY))
    world.restart()
    world.tick()


def pass_without_an_evaluation(world: World, luck: Luck) -> None:
    world.move(luck.randint(1, 2 * HOUR))


def put_the_clock_back(world: World, luck: Luck) -> None:
    world.move(-luck.randint(1, 2 * HOUR))


def reach_a_whole_second(world: World, luck: Luck) -> None:
    world.move(luck.randint(1, 120) * SECOND - world.now % SECOND)


def tick(world: World, luck: Luck) -> None:
    world.tick()


def restart(world: World, luck: Luck) -> None:
    world.restart()


# -- schedules --


def create(world: World, luck: Luck) -> None:
    if len(world.names) < MOST_SCHEDULES:
        world.create(
            f"s{world.created + 1}", a_definition(luck, world.now), is_enabled=luck.randint(0, 9) < 9
        )


def pause(world: World, luck: Luck) -> None:
    if world.names:
        world.pause(luck.choice(world.names))


def resume(world: World, luck: Luck) -> None:
    if world.names:
        world.resume(luck.choice(world.names))


def revive(world: World, luck: Luck) -> None:
    if world.names:
        world.revive(luck.choice(world.names))


def invalidate(world: World, luck: Luck) -> None:
    if world.names:
        world.invalidate(luck.choice(world.names))


def restore(world: World, luck: Luck) -> None:
    if world.names:
        world.restore(luck.choice(world.names))


def restore_a_backup(world: World, luck: Luck) -> None:
    world.restore_backup(luck.choice([1, SECOND, HOUR, 2 * DAY]), catch_up=luck.choice([False, False, True]))


def give_new_times(world: World, luck: Luck) -> None:
    if world.names:
        world.edit(luck.choice(world.names), a_definition(luck, world.now))


def give_new_policies(world: World, luck: Luck) -> None:
    if world.names:
        name = luck.choice(world.names)
        schedule = world.catalogue.get(name)
        assert schedule is not None
        world.edit(name, replace(schedule.definition, **some_policies(luck)))


def delete(world: World, luck: Luck) -> None:
    if world.names:
        world.delete(luck.choice(world.names), cancel_running=luck.choice([False, True]))


def put_quiet_hours(world: World, luck: Luck) -> None:
    world.put_policy(some_quiet_hours(luck))


def pause_the_system(world: World, luck: Luck) -> None:
    world.pause_system(True)


def resume_the_system(world: World, luck: Luck) -> None:
    world.pause_system(False)


# -- by hand --


def trigger(world: World, luck: Luck) -> None:
    if world.names:
        world.trigger(luck.choice(world.names), if_running=luck.choice(OVERLAPS))


def request(world: World, luck: Luck) -> None:
    if world.names:
        world.request(luck.choice(world.names))


def fill_in(world: World, luck: Luck) -> None:
    if world.names:
        span = luck.randint(MINUTE, 2 * HOUR)
        world.backfill(luck.choice(world.names), span, if_running=luck.choice(OVERLAPS))


def cancel_a_job(world: World, luck: Luck) -> None:
    if jobs := world.outstanding():
        world.cancel(luck.choice(jobs))


# -- jobs --


def claim(world: World, luck: Luck) -> None:
    node = luck.choice(NODES)
    world.slots.heartbeat(world.now, node=node, version="0", is_scheduler=False, is_worker=True)
    world.claim(node, luck.randint(1, 5))


def settle_one(world: World, luck: Luck) -> None:
    if world.running:
        world.settle([(luck.choice(world.running), luck.choice(OUTCOMES))])


def settle_all(world: World, luck: Luck) -> None:
    world.settle([(job, luck.choice(OUTCOMES)) for job in world.running])


def run_everything(world: World, luck: Luck) -> None:
    outcome = luck.choice(OUTCOMES)
    while claimed := world.claim("n1", 5):
        world.settle([(job, outcome) for job in claimed])


def lose_a_node(world: World, luck: Luck) -> None:
    """Expire the lease of a node; what its workers report later is ignored."""
    world.slots.sign_off_node(world.now, node=luck.choice(NODES))
    world.slots.rescue(world.now, node="other", lease=30 * SECOND)


def act_after_a_wait(world: World, luck: Luck) -> None:
    """Move the clock while a caller waits for its transaction."""
    step = luck.choice(WAITING)
    with world.having_waited(luck.randint(1, 10 * MINUTE)):
        step(world, luck)


# What can wait behind an evaluation: mostly ends of jobs.
WAITING: tuple[Step, ...] = (
    settle_all,
    settle_all,
    settle_all,
    run_everything,
    run_everything,
    settle_one,
    pause,
    resume,
    invalidate,
    give_new_times,
    give_new_policies,
    delete,
    cancel_a_job,
    trigger,
    request,
    claim,
    lose_a_node,
    pause_the_system,
    put_quiet_hours,
)
STEPS: tuple[Step, ...] = (
    wait_a_little,
    wait_within_a_second,
    stall,
    be_down_for_long,
    pass_without_an_evaluation,
    put_the_clock_back,
    reach_a_whole_second,
    tick,
    restart,
    create,
    pause,
    resume,
    revive,
    invalidate,
    restore,
    restore_a_backup,
    give_new_times,
    give_new_policies,
    delete,
    put_quiet_hours,
    pause_the_system,
    resume_the_system,
    trigger,
    request,
    fill_in,
    cancel_a_job,
    claim,
    settle_one,
    settle_all,
    run_everything,
    lose_a_node,
    act_after_a_wait,
)
# How often each step is taken in a random walk: frequent events, and occasional actions of people.
WEIGHTS = dict.fromkeys(STEPS, 2) | {
    wait_a_little: 12,
    wait_within_a_second: 6,
    stall: 4,
    create: 8,
    claim: 8,
    settle_one: 8,
    settle_all: 4,
    run_everything: 6,
    act_after_a_wait: 6,
    restart: 1,
    delete: 1,
    put_the_clock_back: 1,
    pause_the_system: 1,
    be_down_for_long: 1,
    restore_a_backup: 1,
}
