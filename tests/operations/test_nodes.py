"""Which nodes there are, and whose clock is off."""

from __future__ import annotations

from everwhen.clock import SystemClock
from everwhen.operations.system import is_alive, system_status
from everwhen.store.opened import store_of
from everwhen.testing import manual_scheduler
from everwhen.wiring import open_stack
from tests.conformance.tenant import LEASE


def test_nodes_that_live_are_listed_beside_those_that_are_gone() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    for node in ("leaving", "dying"):
        store_of(s.runtime).slots.heartbeat(s.clock.now(), node=node, version="1", is_scheduler=False)
    store_of(s.runtime).slots.sign_off_node(s.clock.now(), node="leaving")
    s.clock.advance("40s")
    s.beat()
    store_of(s.runtime).upkeep.note_lost(s.clock.now(), node=s.node, lease=LEASE)
    found = system_status(s.runtime).nodes
    assert [node.node for node in found if is_alive(node, s.clock.now())] == [s.node]
    assert {node.node for node in found} == {s.node, "leaving", "dying"}


def test_a_node_whose_clock_is_off_is_reported_with_how_far(postgres_url: str) -> None:
    """On PostgreSQL the clock is the database's, and every node says how far its own is from that."""
    stack = open_stack(postgres_url)
    try:
        beat = store_of(stack.runtime).slots.heartbeat
        beat(stack.runtime.clock.now(), node="right", version="1", is_scheduler=True)
        (right,) = system_status(stack.runtime).nodes
        assert abs(right.clock_skew) < 2_000_000
        assert abs(stack.runtime.clock_skew() - (SystemClock().now() - stack.runtime.clock.now())) < 1_000_000
        with stack.database.connection() as connection:
            connection.execute("UPDATE nodes SET clock_skew = -3600000000 WHERE node = 'right'")
        (wrong,) = system_status(stack.runtime).nodes
        assert (wrong.node, wrong.clock_skew) == ("right", -3_600_000_000)
    finally:
        stack.close()
