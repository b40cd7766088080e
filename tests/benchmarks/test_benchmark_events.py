"""The events of B23: when they are due, and how their lags are sorted into cases."""

from itertools import pairwise

import pytest

from benchmarks.workers.events import APART_SECONDS, events_of, lags_by_case
from benchmarks.workers.sizes import Size

NOW = 1_767_571_200.25


def test_two_hundred_events_lie_apart_and_none_of_them_on_a_whole_second() -> None:
    alone = sorted(at for name, at in events_of(NOW, Size()).items() if name.startswith("alone"))
    assert len(alone) == 200
    assert {round(later - at, 6) for at, later in pairwise(alone)} == {APART_SECONDS}
    assert not any(at.is_integer() for at in alone)


def test_groups_of_twenty_are_due_at_whole_seconds_after_the_events_alone() -> None:
    events = events_of(NOW, Size())
    groups = [at for name, at in events.items() if name.startswith("group")]
    assert [groups.count(at) for at in sorted(set(groups))] == [20] * 10
    assert all(at.is_integer() for at in groups)
    assert min(groups) > max(at for name, at in events.items() if name.startswith("alone"))


def test_each_case_has_the_lags_of_its_own_events() -> None:
    events = {"alone-0": 1.0, "alone-1": 2.0, "group-0-0": 3.0}
    found = lags_by_case(events, {"alone-0": 1.5, "alone-1": 2.25, "group-0-0": 3.125})
    assert found == {
        "one at a time, median": (0.375, 1),
        "one at a time, p99": (0.5, 1),
        "20 at once, median": (0.125, 1),
        "20 at once, p99": (0.125, 1),
    }


def test_a_function_that_was_never_called_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="1 of 2 functions were not called"):
        lags_by_case({"alone-0": 1.0, "group-0-0": 2.0}, {"alone-0": 1.0})
