"""Two runtimes on one database, each with connections and a memory of its own, as two processes have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Barrier, Thread
from typing import Any

import psycopg
import pytest

from everwhen.testing.manual import ManualClock
from everwhen.wiring import open_stack
from tests.conformance.stores import Capabilities, Site
from tests.conformance.tenant import START, Tenant
from tests.servers.everwhen_database import PostgresDatabase


@pytest.fixture
def runtime(everwhen_on_18: PostgresDatabase) -> Iterator[Tenant]:
    url = everwhen_on_18.empty()
    site = Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)
    tenant = Tenant(site, Capabilities(several_processes=True), ManualClock(START))
    yield tenant
    report, unrecorded = tenant.check(), tenant.plans_not_on_record()
    tenant.close()
    assert report.is_clean, report
    assert unrecorded == []


@pytest.fixture
def other(runtime: Tenant) -> Tenant:
    return runtime.neighbour()


_WAITING = """
SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"""


def until_waiting(runtime: Tenant, *actions: Future[Any]) -> None:
    """Until as many transactions as there are actions wait for a lock; none of the actions may end before."""
    with psycopg.connect(runtime.site.url, autocommit=True) as connection:
        while connection.execute(_WAITING).fetchall() != [(len(actions),)]:
            assert not any(action.done() for action in actions)


def together(*actions: Callable[[], Any]) -> list[Any]:
    """What they return, begun at the same moment; the first error of any is raised."""
    barrier = Barrier(len(actions))
    results: list[Any] = [None] * len(actions)
    failures: list[BaseException] = []

    def run(number: int, action: Callable[[], Any]) -> None:
        barrier.wait(30)
        try:
            results[number] = action()
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=run, args=one) for one in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failures:
        raise failures[0]
    return results
