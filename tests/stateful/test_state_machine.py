"""Whatever happens in whatever order, every slot has exactly one entry and every count agrees (L1).

Hypothesis drives the real store through creations, ticks, runs, pauses, edits, restarts and clock steps, and the
ledger checker, which shares no code with the decisions, checks the record after every step. Seeded walks do the same
with other probabilities: hypothesis prefers short and strange sequences, a walk is long and ordinary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from everwhen.model.instants import SECOND
from tests.conformance.stores import Site, on_postgres, sqlite_in_memory
from tests.servers.everwhen_database import PostgresDatabase
from tests.stateful.definitions import HypothesisLuck, Luck, seeded
from tests.stateful.steps import STEPS, WEIGHTS, Step
from tests.stateful.world import World

START = 1_774_735_200 * SECOND  # three hours before Europe's clocks go forward in 2026
FRACTIONS = (0, 1, 500_000)


class Machine(RuleBasedStateMachine):
    """One world, and every step that can happen to it."""

    world: World

    @initialize(fraction=st.sampled_from(FRACTIONS))
    def begin(self, fraction: int) -> None:
        self.world = World(START + fraction, self.lay_out())

    def lay_out(self) -> Site:
        return sqlite_in_memory()

    @invariant()
    def the_ledger_is_clean(self) -> None:
        if hasattr(self, "world"):
            prove(self.world)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


def as_rule(step: Step) -> Callable[..., None]:
    def take(self: Machine, data: st.DataObject) -> None:
        step(self.world, HypothesisLuck(data))

    take.__name__ = step.__name__
    taken: Any = rule(data=st.data())(take)
    return taken  # type: ignore[no-any-return]


for _step in STEPS:
    setattr(Machine, _step.__name__, as_rule(_step))


def prove(world: World) -> None:
    report = world.check()
    assert report.is_clean, "\n".join([str(report), *world.audit()])
    assert world.plans_not_on_record() == []


def walk(seed: int, length: int, site: Site | None = None) -> None:
    """Take a random walk; a failure names its seed, and the same seed fails again."""
    luck: Luck = seeded(seed)
    steps = [step for step, weight in WEIGHTS.items() for _ in range(weight)]
    world = World(START + luck.choice(FRACTIONS), site)
    try:
        for number in range(length):
            step = luck.choice(steps)
            step(world, seeded(f"{seed}.{number}"))
            prove(world)
    finally:
        world.close()


QUICK = settings(
    max_examples=60,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_every_slot_has_one_entry_whatever_happens() -> None:
    run_state_machine_as_test(Machine, settings=QUICK)


@pytest.mark.parametrize("seed", range(16))
def test_every_slot_has_one_entry_on_a_long_way(seed: int) -> None:
    walk(seed, length=120)


def machine_on(database: PostgresDatabase) -> type[Machine]:
    class OnPostgres(Machine):
        def lay_out(self) -> Site:
            return on_postgres(database)

    return OnPostgres


def test_every_slot_has_one_entry_whatever_happens_on_postgresql(everwhen_on_18: PostgresDatabase) -> None:
    few = settings(QUICK, max_examples=4, stateful_step_count=30)
    run_state_machine_as_test(machine_on(everwhen_on_18), settings=few)


@pytest.mark.parametrize("seed", range(2))
def test_every_slot_has_one_entry_on_a_long_way_on_postgresql(
    everwhen_on_18: PostgresDatabase, seed: int
) -> None:
    walk(seed, length=80, site=on_postgres(everwhen_on_18))


@pytest.mark.long
@pytest.mark.parametrize("version", ["everwhen_on_18", "everwhen_on_16"])
def test_every_slot_has_one_entry_on_postgresql_for_long(
    request: pytest.FixtureRequest, version: str
) -> None:
    database: PostgresDatabase = request.getfixturevalue(version)
    thorough = settings(QUICK, max_examples=100, stateful_step_count=60, derandomize=False)
    run_state_machine_as_test(machine_on(database), settings=thorough)
    for seed in range(2_000, 2_100):
        walk(seed, length=150, site=on_postgres(database))


@pytest.mark.long
def test_every_slot_has_one_entry_whatever_happens_for_long() -> None:
    thorough = settings(QUICK, max_examples=1_000, stateful_step_count=60, derandomize=False)
    run_state_machine_as_test(Machine, settings=thorough)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(10))
def test_every_slot_has_one_entry_on_a_thousand_long_ways(hundred: int) -> None:
    for seed in range(1_000 + hundred * 100, 1_100 + hundred * 100):
        walk(seed, length=200)
