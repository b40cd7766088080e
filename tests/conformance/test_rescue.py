"""Leases: whose jobs are rescued, when, and how often (R8, case 14)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.stores.flows.rescue import give_jobs_back, put_strays_back, rescue_found
from everwhen.stores.lanes import Lane
from everwhen.stores.slots import StoredSlots
from tests.conformance.tenant import FAILED, LEASE, Tenant, at


def test_a_job_is_rescued_when_the_lease_of_its_node_has_expired(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (claimed,) = house.claim()
    house.wait("30s")
    other = house.neighbour()
    assert other.rescue() == 0
    house.wait("1s")
    assert other.rescue() == 1
    job = house.job(claimed.job.job_id)
    assert (job.status, job.node, job.rescues, job.attempt) == ("queued", None, 1, 1)
    assert (house.state("a").running_jobs, house.state("a").outstanding) == (0, 1)
    kinds = [event.type for event in house.events("a", "job.lost", "job.rescued")]
    assert kinds == ["job.lost", "job.rescued"]
    assert {event.job_id for event in house.events("a", "job.lost", "job.rescued")} == {job.job_id}
    assert other.rescue() == 0


def test_a_heartbeat_keeps_the_jobs_of_a_node(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    house.claim()
    other = house.neighbour()
    for _ in range(10):
        house.wait("20s")
        house.beat()
        assert other.rescue() == 0
    assert house.statuses("a") == ["running"]


def test_a_node_never_rescues_what_it_runs_itself(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (claimed,) = house.claim()
    house.wait("1d")
    assert house.rescue() == 0
    assert house.settle(claimed) == 1


def test_a_node_puts_back_what_it_claimed_and_does_not_hold_and_nothing_else(house: Tenant) -> None:
    house.add_many(["a", "b", "c"], every="24h", on_lost="fail")
    house.step()
    held, stray, over = sorted(house.claim(), key=lambda one: one.job.schedule_id)
    house.cancel(over.job.job_id)
    mine = {(held.job.job_id, held.job.fence), (stray.job.job_id, stray.job.fence - 1)}
    slots = house.house.slots
    assert slots.put_strays_back(house.now, node="another", held=()) == 0
    assert slots.put_strays_back(house.now, node=house.node, held=mine) == 2
    assert slots.put_strays_back(house.now, node=house.node, held=mine) == 0
    assert [house.jobs(name)[0].status for name in "abc"] == ["running", "queued", "cancelled"]
    assert [house.state(name).running_jobs for name in "abc"] == [1, 0, 0]
    assert house.settle(stray) == 0
    (again,) = house.claim()
    assert (again.job.job_id, again.job.attempt, again.job.rescues) == (stray.job.job_id, 2, 0)
    assert house.settle(again) == house.settle(held) == 1


def test_a_node_gives_back_what_it_interrupts_and_that_is_no_rescue(house: Tenant) -> None:
    house.add_many(["a", "b", "c"], every="24h")
    house.add("once", every="24h", on_lost="fail", max_retries=1)
    house.step()
    claimed = {one.job.schedule_id: one for one in house.claim()}
    house.cancel(claimed["c"].job.job_id)
    held = {(one.job.job_id, one.job.fence) for name, one in claimed.items() if name != "b"}
    slots = house.house.slots
    assert slots.give_back(house.now, node="another", held=held) == 0
    assert slots.give_back(house.now, node=house.node, held=held) == 3
    assert slots.give_back(house.now, node=house.node, held=held) == 0
    statuses = {name: house.jobs(name)[0].status for name in claimed}
    assert statuses == {"a": "queued", "b": "running", "c": "cancelled", "once": "lost"}
    assert [house.state(name).running_jobs for name in statuses] == [
        1 if name == "b" else 0 for name in statuses
    ]
    assert house.settle(claimed["a"]) == house.settle(claimed["once"]) == 0
    (rescued,) = house.events("a", "job.lost", "job.rescued")
    assert (rescued.type, rescued.detail) == ("job.rescued", {"interrupted": True})
    assert [event.type for event in house.events("once", "job.lost", "job.rescued")] == ["job.lost"]
    assert (house.state("once").error_count, house.jobs("once")[-1].origin) == (1, "retry")
    (again,) = house.claim()
    assert (again.job.job_id, again.job.attempt, again.job.rescues) == (claimed["a"].job.job_id, 2, 0)
    assert house.settle(again) == 1


def settled(house: Tenant, found: ClaimedJob) -> None:
    house.settle(found)


def rescued_by_another(house: Tenant, found: ClaimedJob) -> None:
    house.wait("31s")
    assert house.neighbour().rescue() == 1


def claimed_by_another(house: Tenant, found: ClaimedJob) -> None:
    other = house.neighbour()
    house.house.slots.give_back(house.now, node=house.node, held={(found.job.job_id, found.job.fence)})
    assert len(other.claim()) == 1


def claimed_again(house: Tenant, found: ClaimedJob) -> None:
    house.house.slots.give_back(house.now, node=house.node, held={(found.job.job_id, found.job.fence)})
    assert len(house.claim()) == 1


def handed_over(house: Tenant, found: ClaimedJob) -> None:
    house.settle(found, outcome=Outcome("succeeded", awaits="0" * 64))


@pytest.mark.parametrize(
    "meanwhile", [settled, handed_over, rescued_by_another, claimed_by_another, claimed_again]
)
def test_what_happened_to_a_job_after_it_was_found_counts(
    house: Tenant, meanwhile: Callable[[Tenant, ClaimedJob], None]
) -> None:
    """Between the look for lost jobs and the transaction that takes them, everybody may act."""
    house.add("a", every="24h")
    house.step()
    (claimed,) = house.claim()
    found = [house.job(claimed.job.job_id)]
    meanwhile(house, claimed)
    slots, before = house.house.slots, house.everything()
    assert isinstance(slots, StoredSlots)
    for flow in (rescue_found, put_strays_back, give_jobs_back):
        take = partial(flow, plans=house.stack.plans, found=found, now=house.now)
        assert slots._store.write(Lane.SETTLE, take) == 0, flow
    assert house.everything() == before


def test_a_clean_farewell_gives_the_lease_up_at_once(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    house.claim()
    other = house.neighbour()
    house.house.slots.farewell(house.now, node=house.node)
    assert other.rescue() == 1
    assert house.statuses("a") == ["queued"]


def test_after_three_rescues_the_job_is_lost_and_that_is_a_failure(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    attempts = []
    for number in range(4):
        node = house.neighbour(f"doomed-{number}")
        (claimed,) = node.claim()
        attempts.append((claimed.job.job_id, claimed.job.attempt))
        house.wait("31s")
        house.rescue()
    assert [attempt for _, attempt in attempts] == [1, 2, 3, 4]
    assert len({job_id for job_id, _ in attempts}) == 1
    (job,) = house.jobs("a")
    assert (job.status, job.rescues, job.attempt) == ("lost", 3, 4)
    state = house.state("a")
    assert (state.error_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert [event.type for event in house.events("a", "job.lost")] == ["job.lost"] * 4
    assert len(house.events("a", "job.rescued")) == 3


def test_a_job_that_must_not_run_twice_is_lost_at_once(house: Tenant) -> None:
    house.add("a", every="24h", on_lost="fail", max_retries=1)
    house.step()
    (claimed,) = house.claim()
    house.wait("31s")
    assert house.neighbour().rescue() == 1
    assert house.job(claimed.job.job_id).status == "lost"
    assert house.events("a", "job.rescued") == []
    assert house.jobs("a")[-1].origin == "retry"  # a failure like any other
    assert house.state("a").error_count == 1


def test_a_rescued_job_keeps_its_place_in_guard_and_capacity_but_runs_nowhere(house: Tenant) -> None:
    house.add("g.a", every="24h", group="g", max_concurrent=1, max_outstanding=1)
    house.step()
    house.claim()
    house.wait("31s")
    other = house.neighbour()
    other.rescue()
    house.add("g.b", every="24h", group="g", max_concurrent=1, max_outstanding=1)
    house.step()
    assert house.state("g.b").held_reason is not None
    (again,) = other.claim()
    assert again.job.schedule_id == "g.a"


def test_the_place_of_a_lost_job_is_given_to_the_slot_that_waits_for_it(house: Tenant) -> None:
    house.add("g.a", every="24h", group="g", max_concurrent=1, on_lost="fail")
    house.step()
    house.claim()
    house.add("g.b", every="24h", group="g", max_concurrent=1)
    house.step()
    house.wait("31s")
    house.neighbour().rescue()
    house.step()
    assert house.statuses("g.b") == ["queued"]


def test_jobs_behind_a_rescued_one_stay_behind_it(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    house.step()
    house.claim()
    house.wait_and_step("1m")
    house.wait("31s")
    other = house.neighbour()
    other.rescue()
    first, second = house.jobs("a")
    (again,) = other.claim()
    assert again.job.job_id == first.job_id
    other.settle(again)
    assert [one.job.job_id for one in other.claim()] == [second.job_id]


def test_a_job_cancelled_while_it_ran_on_a_node_that_died_is_let_go_of_and_not_run_again(
    house: Tenant,
) -> None:
    house.add("a", every="1m", if_running="cancel", group="g", max_concurrent=1)
    house.step()
    (killed,) = house.claim()
    house.wait_and_step("1m")
    house.wait("31s")
    other = house.neighbour()
    assert other.claim() == []
    assert other.rescue() == 1
    job = house.job(killed.job.job_id)
    assert (job.status, job.released_at, job.rescues) == ("cancelled", house.now, 0)
    assert house.events("a", "job.lost", "job.rescued") == []
    assert [one.job.number for one in other.claim()] == [2]
    assert house.settle(killed) == 0


def test_the_job_of_a_deleted_schedule_is_rescued_too(house: Tenant) -> None:
    house.add("a", every="24h", group="g", max_concurrent=1)
    house.step()
    house.claim()
    house.delete("a")
    house.wait("31s")
    other = house.neighbour()
    assert other.rescue() == 1
    (again,) = other.claim()
    assert other.settle(again, outcome=SUCCEEDED) == 1
    assert [job.status for job in house.jobs()] == ["succeeded"]


def test_a_rescued_retry_waits_for_nothing_any_more(house: Tenant) -> None:
    house.add("a", every="24h", max_retries=3, retry_delay="1m")
    house.step()
    house.run(FAILED)
    house.wait("1m")
    house.claim()
    house.wait("31s")
    other = house.neighbour()
    other.rescue()
    assert (house.state("a").waiting, house.state("a").retries_waiting) == (0, 0)
    (again,) = other.claim()
    assert (again.job.origin, again.job.attempt) == ("retry", 3)
    assert (house.state("a").waiting, house.state("a").retries_waiting) == (0, 0)


def test_a_rescued_retry_that_a_pause_cancels_is_counted_once(house: Tenant) -> None:
    house.add("a", every="24h", max_retries=3, retry_delay="1m")
    house.step()
    house.run(FAILED)
    house.wait("1m")
    house.claim()
    house.wait("31s")
    house.neighbour().rescue()
    house.pause("a")
    state = house.state("a")
    assert (state.outstanding, state.waiting, state.retries_waiting) == (0, 0, 0)


def test_the_last_heartbeat_is_that_of_any_scheduler(house: Tenant) -> None:
    slots = house.house.slots
    assert slots.last_heartbeat_at() == at("08:00:00")
    house.wait("10s")
    house.neighbour()
    house.wait("10s")
    slots.heartbeat(house.now, node="worker", version="test", is_scheduler=False)
    assert slots.last_heartbeat_at() == at("08:00:10")
    house.house.slots.farewell(house.now, node=house.node)
    assert slots.last_heartbeat_at() == at("08:00:20")


@pytest.mark.parametrize("jobs", [1, 50])
def test_all_jobs_of_a_dead_node_are_rescued_in_one_go(house: Tenant, jobs: int) -> None:
    house.add_many([f"s{number}" for number in range(jobs)], every="24h")
    house.step()
    house.claim()
    house.wait("31s")
    other = house.neighbour()
    assert other.house.slots.rescue(house.now, node=other.node, lease=LEASE) == jobs
    assert len(other.claim()) == jobs


def test_a_passing_node_leaves_no_row_unless_something_is_still_its_own(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    house.claim()
    idle = house.neighbour("idle")
    for node in (house, idle):
        node.house.slots.farewell(house.now, node=node.node, is_passing=True)
    assert [(n.node, n.stopped_at) for n in house.house.upkeep.nodes()] == [(house.node, house.now)]
    assert house.neighbour().rescue() == 1
