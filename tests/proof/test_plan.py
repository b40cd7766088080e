"""The same seed gives the same faults, and no plan takes away everything at once."""

from __future__ import annotations

from itertools import combinations

from tests.proof.plan import HOWS, Kind, Strike, draw_plan

KINDS: list[Kind] = [kind for kind in HOWS if kind != "fill the disk"]


def a_plan(seed: int = 1, seconds: float = 600.0) -> list[Strike]:
    return draw_plan(seed, KINDS, seconds=seconds, machines=3, every=3.0)


def test_a_seed_draws_the_same_plan_again_and_another_seed_another() -> None:
    assert a_plan(1) == a_plan(1)
    assert a_plan(1) != a_plan(2)


def test_ten_minutes_hold_a_hundred_faults_of_every_kind() -> None:
    for seed in range(50):
        plan = a_plan(seed)
        assert len(plan) >= 100
        assert {strike.kind for strike in plan} == set(KINDS)
        assert all(strike.at + strike.lasts <= 600 for strike in plan)


def test_nothing_is_struck_twice_at_once_and_two_faults_last_at_a_time_at_most() -> None:
    for seed in range(50):
        plan = a_plan(seed, 200.0)
        for one, other in combinations(plan, 2):
            if one.at + one.lasts > other.at:
                assert not _taken(one) & _taken(other), (one, other)
        for strike in plan:
            assert sum(one.at <= strike.at < one.at + one.lasts for one in plan) <= 2


def _taken(strike: Strike) -> set[str]:
    return {name.format(strike.machine) for name in HOWS[strike.kind].takes}
