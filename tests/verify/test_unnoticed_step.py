"""The clock is set, and before the schedulers notice it a schedule is created, changed or stopped (E9).

Every kind of event, before the step, between the step and its record, and after it, in either direction.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.verify.cached_clocks import Cluster, actions

KINDS: dict[str, dict[str, Any]] = {
    "every second": {"every": "1s", "if_running": "allow"},
    "every two seconds": {"every": "2s", "if_running": "allow", "catch_up": "run_all"},
    "with jitter": {"every": "3s", "jitter": "1s", "if_running": "allow", "catch_up": "run_once"},
    "a chain": {"every": "1s", "interval_from": "completion"},
    "three times": {"every": "2s", "total_repeats": 3},
}
# What has to happen first, so that the event is possible.
BEFORE: dict[str, tuple[str, ...]] = {
    "create": (),
    "edit": ("create",),
    "pause": ("create",),
    "invalidate": ("create",),
    "delete": ("create",),
    "request approval": ("create",),
    "resume": ("create", "pause"),
    "restore": ("create", "invalidate"),
    "approve": ("create", "request approval"),
    "pause the system": ("create",),
    "resume the system": ("create", "pause the system"),
}
STEPS = (-5, -3, 3, 8)


def fire_and_work(cluster: Cluster, milliseconds: int) -> None:
    cluster.wait(milliseconds)
    for node in cluster.nodes:
        node.loop()
    cluster.nodes[0].work()


@pytest.mark.parametrize("kind", ["every second", "every two seconds", "a chain"])
@pytest.mark.parametrize("event", BEFORE)
@pytest.mark.parametrize("seconds", [-3, 3])
def test_an_event_around_a_step_that_nobody_has_noticed_leaves_every_slot_with_one_entry(
    seconds: int, event: str, kind: str
) -> None:
    """The event comes right after the step or later, from a node or a new process; a node may fire by the old time."""
    for later, is_command, fires in product((0, 400), (False, True), (False, True)):
        cluster = Cluster()
        do = actions("a", **KINDS[kind])
        for first in BEFORE[event]:
            assert cluster.nodes[0].do(do[first])
            fire_and_work(cluster, 900)
            fire_and_work(cluster, 900)
        cluster.step(seconds)
        cluster.wait(later)
        assert cluster.command(do[event]) if is_command else cluster.nodes[0].do(do[event])
        if fires:
            cluster.nodes[1].loop()
        cluster.wait(100)
        for then in ("pause", "edit", "pause the system"):
            cluster.command(do[then])
        cluster.come_to_rest()
        assert cluster.check().faults == (), (later, is_command, fires)
        cluster.close()


MOVES = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 950)),
    st.tuples(st.just("step"), st.sampled_from(STEPS)),
    st.tuples(st.just("loop"), st.integers(0, 1)),
    st.tuples(st.just("work"), st.integers(0, 1)),
    st.tuples(st.sampled_from(sorted(actions("a", every="1s"))), st.integers(0, 2)),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@example("a chain", [("step", 8), ("edit", 0)])  # its next slot is at the instant of the edit
@example("a chain", [("step", 8), ("edit", 2)])
@example(
    "every second", [("step", -5), ("loop", 0), ("delete", 2), ("step", -5)]
)  # two steps are noticed as one
@given(st.sampled_from(sorted(KINDS)), st.lists(MOVES, max_size=40))
def test_whatever_two_nodes_do_while_the_clock_is_set_every_slot_has_one_entry(
    kind: str, moves: list[tuple[str, int]]
) -> None:
    cluster = Cluster()
    do = actions("a", **KINDS[kind])
    cluster.nodes[0].do(do["create"])
    last_step = 0
    for what, number in moves:
        if what == "wait":
            cluster.wait(number)
        elif what == "step":
            if last_step * number < 0:
                cluster.wait(1_000)  # back and forth within one look leaves no trace of how far back it was
            cluster.step(number)
            last_step = number
        elif what in ("loop", "work"):
            getattr(cluster.nodes[number], what)()
        elif number < len(cluster.nodes):
            cluster.nodes[number].do(do[what])
        else:
            cluster.command(do[what])
    cluster.come_to_rest()
    assert cluster.check().faults == ()
    cluster.close()
