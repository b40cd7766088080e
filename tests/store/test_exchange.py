"""Settling and claiming in one transaction, where transactions exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.store.slots import Exchange
from everwhen.testing.manual import ManualClock
from tests.conformance.stores import Capabilities, sqlite_in_memory
from tests.conformance.tenant import FAILED, START, Tenant, end_of, names


@pytest.fixture
def runtime() -> Iterator[Tenant]:
    site = sqlite_in_memory()
    tenant = Tenant(site, Capabilities(several_processes=False), ManualClock(START))
    yield tenant
    report = tenant.check()
    tenant.close()
    site.close()
    assert report.is_clean, report


def exchange(runtime: Tenant, *ended: ClaimedJob, limit: int = 10) -> Exchange:
    ends = [end_of(one) for one in ended]
    return runtime.runtime.slots.exchange(runtime.now, ends, node=runtime.node, limit=limit)


def test_a_job_that_ends_makes_space_for_the_one_behind_it(runtime: Tenant) -> None:
    runtime.add("a", every="10s", if_running="queue", group="g", max_concurrent=1)
    runtime.step()
    (first,) = runtime.claim()
    runtime.wait_and_step("10s")
    done = exchange(runtime, first)
    assert (done.settled, [one.job.number for one in done.claimed]) == (1, [2])
    assert runtime.statuses("a") == ["succeeded", "running"]
    assert (runtime.state("a").outstanding, runtime.state("a").running_jobs) == (1, 1)


def test_nothing_is_taken_where_no_worker_is_free(runtime: Tenant) -> None:
    runtime.add_many(["a", "b"], every="1h")
    runtime.step()
    (first,) = runtime.claim(1)
    assert exchange(runtime, first, limit=0).claimed == []
    assert names(exchange(runtime).claimed) == ["b"]


def test_an_end_that_came_too_late_counts_nothing_and_stops_no_claim(runtime: Tenant) -> None:
    runtime.add_many(["a", "b"], every="1h")
    runtime.step()
    (first,) = runtime.claim(1)
    runtime.settle(first, outcome=FAILED)
    done = exchange(runtime, first)
    assert (done.settled, names(done.claimed)) == (0, ["b"])
    assert runtime.state("a").error_count == 1


def test_a_held_slot_that_gets_its_place_and_a_chain_that_goes_on_wake_the_scheduler(runtime: Tenant) -> None:
    runtime.add_many(["p.a", "p.b"], every="1h", group="p", command="poll", max_outstanding=1)
    runtime.add("chain", every="1h", interval_from="completion")
    runtime.add("plain", every="1h")
    runtime.step()
    claimed = {one.job.schedule_id: one for one in runtime.claim()}
    assert not exchange(runtime, claimed.pop("plain")).is_sooner
    assert exchange(runtime, claimed.pop("chain")).is_sooner
    (polling,) = claimed.values()
    assert exchange(runtime, polling).is_sooner
    assert runtime.step() == 1
