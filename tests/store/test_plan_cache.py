"""The cached plans of a process: bounded in number and in size, whatever is written."""

from __future__ import annotations

import pytest

from everwhen.model.fast_values import LARGE
from everwhen.model.schedule import Plan
from everwhen.store import load
from everwhen.store.load import PlanCache
from tests.decide.builders import a_plan


def a_plan_of_size(size: int) -> Plan:
    return a_plan(payload="x" * size)


def test_large_plans_displace_each_other_and_no_small_ones() -> None:
    """Each edit of a large schedule was another plan that stayed: 200,000 of them, of any size."""
    cache = PlanCache()
    small = {("small", number): a_plan_of_size(10) for number in range(100)}
    cache.remember(small)
    for revision in range(3 * load.MOST_OF_LARGE // (250 << 10)):
        cache.remember({("large", revision): a_plan_of_size(250 << 10)})
        kept = cache.remembered()
        assert sum(plan.definition.size for plan in kept.values()) < load.MOST_OF_LARGE + (1 << 20)
    assert small.keys() <= kept.keys() and ("large", revision) in kept


def test_the_size_of_all_others_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MOST_OF_OTHERS", 10 * LARGE)
    cache = PlanCache()
    sizes = []
    for number in range(100):
        cache.remember({("uid", number): a_plan_of_size(LARGE // 2)})
        sizes.append(cache.size)
    assert 10 < max(sizes) <= 20


def test_a_plan_that_is_cached_twice_counts_once() -> None:
    cache = PlanCache()
    for _ in range(3 * load.MOST_OF_LARGE // (250 << 10)):
        cache.remember({("other", 1): a_plan_of_size(250 << 10)})
        cache.remember({("large", 1): a_plan_of_size(250 << 10)})
    assert cache.size == 2
