"""The database dies under a working node, and comes back: the loops go on, nothing is lost or doubled (E7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from everwhen.engine.service import Service, ServiceOptions
from everwhen.errors import StoreError
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.conformance.firing import Nothing
from tests.conformance.tenant import submission
from tests.servers.postgres import PostgresServer
from tests.submissions import create_schedules

DEADLINE = 60.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(18, durable=True) as running:
        yield running


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition; the deadline is for a broken build only."""
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def test_a_database_that_is_killed_and_started_again_costs_no_slot_its_entry(server: PostgresServer) -> None:
    stack = open_stack(server.fresh_database())
    create_schedules(
        stack.runtime, [submission(f"s{n:02}", every="1s", if_running="allow") for n in range(20)]
    )
    service = Service(stack.runtime, {"command": Nothing()}, ServiceOptions(check_interval=0.2))
    service.start()
    until(lambda: service.ticker.counts.fired >= 20)
    server.kill()
    with pytest.raises(StoreError):
        store_of(stack.runtime).slots.last_heartbeat_at()
    before = service.ticker.counts.fired
    server.start()
    until(lambda: service.ticker.counts.fired >= before + 20)
    service.stop()
    with store_of(stack.runtime).ledger.history() as history:
        report = check_ledger(history, stack.runtime.clock.now())
    stack.close()
    assert report.is_clean, report
