"""The database's clock is put forward, and the nodes hear of it one after another: what they say keeps its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.outcome import JobEnd, Outcome
from everwhen.operations.schedules import delete_schedule, get_schedule, pause_schedule, pause_system
from everwhen.runtime import Runtime
from everwhen.store.catalogue import Catalogue
from everwhen.store.opened import OpenStore, store_of
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.postgres.snapshot import ProcessState
from everwhen.store.postgres.transaction import PostgresStore
from everwhen.store.slots import Slots
from everwhen.testing import ManualClock
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.conformance.tenant import submission
from tests.submissions import create_schedule, update_schedule


@dataclass
class Cluster:
    """`ahead` goes by the database's clock as it is; `behind` has not asked since it was put forward by 20 s."""

    ahead: OpenStore
    behind: OpenStore

    def add(self, **fields: Any) -> None:
        keys = {"every": "5s", "if_running": "allow", "catch_up": "run_all", **fields}
        create_schedule(self.behind, submission("a", **keys))

    def fire(self) -> int:
        """By the new time."""
        return self.ahead.slots.tick(self.ahead.clock.now(), limit=10, behind=True).fired

    def faults(self) -> list[Any]:
        with self.ahead.ledger.history() as history:
            return list(check_ledger(history, self.ahead.clock.now()).faults)


@pytest.fixture
def cluster(postgres_url: str) -> Iterator[Cluster]:
    with closing(open_stack(postgres_url)) as stack, closing(PostgresDatabase(postgres_url)) as database:
        old_time = ManualClock(to_datetime(stack.runtime.clock.now() - 20 * SECOND))
        store = PostgresStore(database, ProcessState(has_time=True))
        behind = replace(
            store_of(stack.runtime),
            clock=old_time,
            slots=Slots(store),
            catalogue=Catalogue(store),
        )
        yield Cluster(store_of(stack.runtime), behind)


@pytest.mark.parametrize(
    "stop",
    [
        lambda runtime: pause_schedule(runtime, "a"),
        lambda runtime: update_schedule(runtime, submission("a", every="7s", if_running="allow")),
        lambda runtime: delete_schedule(runtime, "a"),
        pause_system,
    ],
    ids=["pause", "edit", "delete", "system pause"],
)
def test_what_stops_a_schedule_dates_from_behind_the_slots_that_it_has_fired(
    cluster: Cluster, stop: Callable[[Runtime], object]
) -> None:
    cluster.add()
    assert cluster.fire() >= 3
    stop(cluster.behind)
    assert cluster.faults() == []


def test_a_run_that_ends_its_schedule_ends_it_behind_the_slots_that_it_has_fired(cluster: Cluster) -> None:
    cluster.add(max_retries=0, on_exhausted="stop")
    assert cluster.fire() >= 3
    first, *_ = cluster.ahead.slots.claim_jobs(cluster.ahead.clock.now(), node="n", limit=1)
    end = JobEnd(first.job.job_id, first.job.fence, Outcome("failed", error="no"))
    cluster.behind.slots.settle(cluster.behind.clock.now(), [end])
    assert get_schedule(cluster.ahead, "a").state.status == "dead"
    assert cluster.faults() == []
