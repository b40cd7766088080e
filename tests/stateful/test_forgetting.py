"""Whatever rows retention has deleted, the checker finds nothing wrong with the rest, at any moment of a pass."""

from __future__ import annotations

import pytest

from everwhen.model.instants import DAY, HOUR, SECOND
from everwhen.model.retention import PASS_START, Cutoffs, RetentionPosition
from tests.stateful.definitions import Luck, seeded
from tests.stateful.steps import WEIGHTS
from tests.stateful.test_state_machine import FRACTIONS, START, prove
from tests.stateful.world import World

AGES = (0, 1, 10 * SECOND, HOUR, 6 * HOUR, DAY)


def forget_some(world: World, luck: Luck) -> None:
    """Run part of a retention pass, with ages that are independent of each other."""
    ages = [luck.choice(AGES) for _ in Cutoffs._fields]
    if luck.randint(0, 3) == 0:
        ages = [ages[0]] * len(ages)
    before = Cutoffs(*(world.now - age for age in ages))
    place: RetentionPosition | None = PASS_START
    for _ in range(luck.choice([3, 30, 300])):
        if place is None:
            return
        place = world.upkeep.forget(before, place, limit=luck.choice([1, 5, 50])).next
        prove(world)


def walk(seed: int, length: int) -> World:
    luck = seeded(seed)
    steps = [step for step, weight in WEIGHTS.items() for _ in range(weight)]
    world = World(START + luck.choice(FRACTIONS))
    for number in range(length):
        own = seeded(f"{seed}.{number}")
        if number % 7 == 6:
            forget_some(world, own)
        luck.choice(steps)(world, own)
        prove(world)
    return world


@pytest.mark.parametrize(
    "seed", [*range(8), 5_013]
)  # 5,013: an edit of the jitter after the clock was set back
def test_the_ledger_stays_provable_whatever_is_forgotten(seed: int) -> None:
    walk(seed, length=100).close()


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(10))
def test_the_ledger_stays_provable_on_a_thousand_ways(hundred: int) -> None:
    for seed in range(1_000 + hundred * 100, 1_100 + hundred * 100):
        walk(seed, length=150).close()
