"""Counts of one key: places, and firings of the hour and the day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from everwhen.decide.budgets import refusal
from everwhen.model.instants import DAY, HOUR, MINUTE
from everwhen.model.limits import Limit, Shared
from everwhen.model.policy import Budget
from tests.decide.builders import a_budget, at

NINE = at("09:00")


def is_spent(limit: Limit, budget: Budget, now: int) -> bool:
    budget = budget._replace(key=limit.key)
    return refusal(Shared({limit.key: limit}), "uid", [budget], now) is not None


def test_places_move_both_ways() -> None:
    limit = Limit("key").moved(outstanding=2, running=1)
    assert (limit.outstanding, limit.running) == (2, 1)
    assert limit.moved(-2, -1) == Limit("key")


def test_firings_of_one_hour_add_up_and_those_of_the_next_begin_anew() -> None:
    limit = Limit("key").fired(NINE).fired(NINE + 59 * MINUTE)
    assert (limit.hour, limit.hour_fires, limit.day_fires) == (NINE, 2, 2)
    limit = limit.fired(NINE + HOUR)
    assert (limit.hour, limit.hour_fires, limit.day_fires) == (NINE + HOUR, 1, 3)


def test_firings_of_one_day_begin_anew_at_midnight() -> None:
    limit = Limit("key").fired(at("23:59")).fired(at("00:00", day=1))
    assert (limit.day, limit.day_fires) == (at("00:00", day=1), 1)


def test_a_budget_of_the_hour_is_spent_until_the_hour_is_over() -> None:
    limit = Limit("key").fired(NINE + 59 * MINUTE)
    assert is_spent(limit, a_budget(per_hour=1), NINE + HOUR - 1)
    assert not is_spent(limit, a_budget(per_hour=1), NINE + HOUR)
    assert not is_spent(limit, a_budget(per_hour=2), NINE + HOUR - 1)


def test_a_budget_of_the_day_is_spent_until_the_day_is_over() -> None:
    limit = Limit("key").fired(NINE)
    assert is_spent(limit, a_budget(per_day=1), at("23:59"))
    assert not is_spent(limit, a_budget(per_day=1), at("00:00", day=1))


def test_a_budget_without_bounds_is_never_spent() -> None:
    assert not is_spent(Limit("key").fired(NINE), Budget("key"), NINE)


def test_a_transaction_from_just_before_a_window_does_not_clear_the_count_of_the_window() -> None:
    limit = Limit("key").fired(NINE + HOUR).fired(NINE + HOUR - 1)
    assert (limit.hour, limit.hour_fires, limit.day_fires) == (NINE + HOUR, 2, 2)


@given(
    fires=st.lists(st.integers(NINE, NINE + 3 * DAY), max_size=50).map(sorted),
    per_hour=st.integers(1, 5),
    per_day=st.integers(1, 20),
)
def test_firing_only_while_it_is_not_spent_keeps_every_hour_and_day_within_the_budget(
    fires: list[int], per_hour: int, per_day: int
) -> None:
    budget = Budget("key", per_hour, per_day)
    limit = Limit("key")
    fired: list[int] = []
    for now in fires:
        if not is_spent(limit, budget, now):
            limit = limit.fired(now)
            fired.append(now)
    for now in fired:
        assert sum(now - now % HOUR <= other < now - now % HOUR + HOUR for other in fired) <= per_hour
        assert sum(now - now % DAY <= other < now - now % DAY + DAY for other in fired) <= per_day
