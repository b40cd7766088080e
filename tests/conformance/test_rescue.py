"""Leases: which node's jobs are rescued, when, and how often (R8, case 14)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.store.lanes import Lane
from everwhen.store.opened import store_of
from everwhen.store.rescue import give_jobs_back, put_orphans_back, rescue_found
from everwhen.store.slots import Slots
from tests.conformance.tenant import FAILED, LEASE, Tenant, at


def test_a_job_is_rescued_when_the_lease_of_its_node_has_expired(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait("30s")
    other = runtime.neighbour()
    assert other.rescue() == 0
    runtime.wait("1s")
    assert other.rescue() == 1
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.node, job.rescues, job.attempt) == ("queued", None, 1, 1)
    assert (runtime.state("a").running_jobs, runtime.state("a").outstanding) == (0, 1)
    kinds = [event.type for event in runtime.events("a", "job.lost", "job.rescued")]
    assert kinds == ["job.lost", "job.rescued"]
    assert {event.job_id for event in runtime.events("a", "job.lost", "job.rescued")} == {job.job_id}
    assert other.rescue() == 0


def test_a_heartbeat_keeps_the_jobs_of_a_node(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    runtime.claim()
    other = runtime.neighbour()
    for _ in range(10):
        runtime.wait("20s")
        runtime.beat()
        assert other.rescue() == 0
    assert runtime.statuses("a") == ["running"]


def test_a_node_never_rescues_what_it_runs_itself(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait("1d")
    assert runtime.rescue() == 0
    assert runtime.settle(claimed) == 1


def give_unbegun_back(runtime: Tenant, *claimed: ClaimedJob) -> int:
    held = {(one.job.job_id, one.job.fence) for one in claimed}
    return runtime.runtime.slots.give_unbegun_back(runtime.now, node=runtime.node, held=held, fault="memory")


def test_a_job_that_its_host_could_not_begin_is_given_back_as_no_attempt(runtime: Tenant) -> None:
    """However often: it counts as no rescue, and no `on_lost` ends it."""
    runtime.add_many(
        ["g.a", "g.b"],
        group="g",
        max_concurrent=1,
        every="24h",
        if_running="queue",
        on_lost="fail",
        max_retries=2,
    )
    runtime.step()
    before = runtime.jobs("g.a")[0].job_id
    for _ in range(5):
        (claimed,) = runtime.claim()
        assert claimed.job.attempt == 1
        assert give_unbegun_back(runtime, claimed) == 1
        assert give_unbegun_back(runtime, claimed) == 0
        assert runtime.settle(claimed, outcome=FAILED) == 0
    jobs = [runtime.jobs(name)[0] for name in ("g.a", "g.b")]
    assert [(job.status, job.attempt, job.rescues, job.node) for job in jobs] == [("queued", 0, 0, None)] * 2
    assert [runtime.state(name).running_jobs for name in ("g.a", "g.b")] == [0, 0]
    assert runtime.events("g.a", "job.lost") == []
    assert {event.detail["fault"] for event in runtime.events(None, "job.rescued")} == {"memory"}
    ran = []
    while claimed_now := runtime.claim():
        ran += [one.job for one in claimed_now]
        runtime.settle(*claimed_now)
    assert sorted((job.job_id == before, job.attempt) for job in ran) == [(False, 1), (True, 1)]
    assert [runtime.state(name).run_count for name in ("g.a", "g.b")] == [1, 1]
    assert [runtime.state(name).error_count for name in ("g.a", "g.b")] == [0, 0]


def test_the_probe_of_a_breaker_that_its_host_could_not_begin_stays_the_probe(runtime: Tenant) -> None:
    rule = {"threshold": 1, "reset_after": "1m"}
    runtime.add("a", every="1m", circuit_breaker=rule)
    runtime.step()
    runtime.run(FAILED)
    runtime.wait_and_step("2m")
    (probe,) = runtime.claim()
    assert give_unbegun_back(runtime, probe) == 1
    (breaker,) = runtime.runtime.ledger.breakers()
    assert (breaker.state, breaker.probe_job_id) == ("half_open", probe.job.job_id)
    (again,) = runtime.claim()
    assert (again.job.job_id, again.job.is_probe, again.job.attempt) == (probe.job.job_id, True, 1)
    runtime.settle(again)
    (breaker,) = runtime.runtime.ledger.breakers()
    assert breaker.state == "closed"


def test_a_job_that_was_cancelled_before_its_host_could_begin_it_stays_cancelled(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.cancel(claimed.job.job_id)
    give_unbegun_back(runtime, claimed)
    assert (runtime.statuses("a"), runtime.state("a").running_jobs) == (["cancelled"], 0)


def test_a_node_puts_back_what_it_claimed_and_does_not_hold_and_nothing_else(runtime: Tenant) -> None:
    runtime.add_many(["a", "b", "c"], every="24h", on_lost="fail")
    runtime.step()
    held, stray, over = sorted(runtime.claim(), key=lambda one: one.job.schedule_id)
    runtime.cancel(over.job.job_id)
    mine = {(held.job.job_id, held.job.fence), (stray.job.job_id, stray.job.fence - 1)}
    slots = runtime.runtime.slots
    assert slots.put_orphans_back(runtime.now, node="another", held=()) == 0
    assert slots.put_orphans_back(runtime.now, node=runtime.node, held=mine) == 2
    assert slots.put_orphans_back(runtime.now, node=runtime.node, held=mine) == 0
    assert [runtime.jobs(name)[0].status for name in "abc"] == ["running", "queued", "cancelled"]
    assert [runtime.state(name).running_jobs for name in "abc"] == [1, 0, 0]
    assert runtime.settle(stray) == 0
    (again,) = runtime.claim()
    assert (again.job.job_id, again.job.attempt, again.job.rescues) == (stray.job.job_id, 2, 0)
    assert runtime.settle(again) == runtime.settle(held) == 1


def test_a_node_gives_back_what_it_interrupts_and_that_is_no_rescue(runtime: Tenant) -> None:
    runtime.add_many(["a", "b", "c"], every="24h")
    runtime.add("once", every="24h", on_lost="fail", max_retries=1)
    runtime.step()
    claimed = {one.job.schedule_id: one for one in runtime.claim()}
    runtime.cancel(claimed["c"].job.job_id)
    held = {(one.job.job_id, one.job.fence) for name, one in claimed.items() if name != "b"}
    slots = runtime.runtime.slots
    assert slots.give_back(runtime.now, node="another", held=held) == 0
    assert slots.give_back(runtime.now, node=runtime.node, held=held) == 3
    assert slots.give_back(runtime.now, node=runtime.node, held=held) == 0
    statuses = {name: runtime.jobs(name)[0].status for name in claimed}
    assert statuses == {"a": "queued", "b": "running", "c": "cancelled", "once": "lost"}
    assert [runtime.state(name).running_jobs for name in statuses] == [
        1 if name == "b" else 0 for name in statuses
    ]
    assert runtime.settle(claimed["a"]) == runtime.settle(claimed["once"]) == 0
    (rescued,) = runtime.events("a", "job.lost", "job.rescued")
    assert (rescued.type, rescued.detail) == ("job.rescued", {"interrupted": True})
    assert [event.type for event in runtime.events("once", "job.lost", "job.rescued")] == ["job.lost"]
    assert (runtime.state("once").error_count, runtime.jobs("once")[-1].origin) == (1, "retry")
    (again,) = runtime.claim()
    assert (again.job.job_id, again.job.attempt, again.job.rescues) == (claimed["a"].job.job_id, 2, 0)
    assert runtime.settle(again) == 1


def settled(runtime: Tenant, found: ClaimedJob) -> None:
    runtime.settle(found)


def rescued_by_another(runtime: Tenant, found: ClaimedJob) -> None:
    runtime.wait("31s")
    assert runtime.neighbour().rescue() == 1


def claimed_by_another(runtime: Tenant, found: ClaimedJob) -> None:
    other = runtime.neighbour()
    runtime.runtime.slots.give_back(
        runtime.now, node=runtime.node, held={(found.job.job_id, found.job.fence)}
    )
    assert len(other.claim()) == 1


def claimed_again(runtime: Tenant, found: ClaimedJob) -> None:
    runtime.runtime.slots.give_back(
        runtime.now, node=runtime.node, held={(found.job.job_id, found.job.fence)}
    )
    assert len(runtime.claim()) == 1


def handed_over(runtime: Tenant, found: ClaimedJob) -> None:
    runtime.settle(found, outcome=Outcome("succeeded", awaits="0" * 64))


@pytest.mark.parametrize(
    "meanwhile", [settled, handed_over, rescued_by_another, claimed_by_another, claimed_again]
)
def test_what_happened_to_a_job_after_it_was_found_counts(
    runtime: Tenant, meanwhile: Callable[[Tenant, ClaimedJob], None]
) -> None:
    """Between the search for lost jobs and the transaction that takes them, any process may act."""
    runtime.add("a", every="24h")
    runtime.step()
    (claimed,) = runtime.claim()
    found = [runtime.job(claimed.job.job_id)]
    meanwhile(runtime, claimed)
    slots, before = runtime.runtime.slots, runtime.everything()
    assert isinstance(slots, Slots)
    for flow in (rescue_found, put_orphans_back, give_jobs_back):
        take = partial(flow, found=found, now=runtime.now)
        assert slots._store.write(Lane.SETTLE, take) == 0, flow
    assert runtime.everything() == before


def test_a_clean_sign_off_gives_the_lease_up_at_once(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    runtime.claim()
    other = runtime.neighbour()
    runtime.runtime.slots.sign_off_node(runtime.now, node=runtime.node)
    assert other.rescue() == 1
    assert runtime.statuses("a") == ["queued"]


def test_after_three_rescues_the_job_is_lost_and_that_is_a_failure(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    attempts = []
    for number in range(4):
        node = runtime.neighbour(f"doomed-{number}")
        (claimed,) = node.claim()
        attempts.append((claimed.job.job_id, claimed.job.attempt))
        runtime.wait("31s")
        runtime.rescue()
    assert [attempt for _, attempt in attempts] == [1, 2, 3, 4]
    assert len({job_id for job_id, _ in attempts}) == 1
    (job,) = runtime.jobs("a")
    assert (job.status, job.rescues, job.attempt) == ("lost", 3, 4)
    state = runtime.state("a")
    assert (state.error_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert [event.type for event in runtime.events("a", "job.lost")] == ["job.lost"] * 4
    assert len(runtime.events("a", "job.rescued")) == 3


def test_a_job_that_must_not_run_twice_is_lost_at_once(runtime: Tenant) -> None:
    runtime.add("a", every="24h", on_lost="fail", max_retries=1)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait("31s")
    assert runtime.neighbour().rescue() == 1
    assert runtime.job(claimed.job.job_id).status == "lost"
    assert runtime.events("a", "job.rescued") == []
    assert runtime.jobs("a")[-1].origin == "retry"  # a failure like any other
    assert runtime.state("a").error_count == 1


def test_a_rescued_job_keeps_its_place_in_guard_and_capacity_but_runs_nowhere(runtime: Tenant) -> None:
    runtime.add("g.a", every="24h", group="g", max_concurrent=1, max_outstanding=1)
    runtime.step()
    runtime.claim()
    runtime.wait("31s")
    other = runtime.neighbour()
    other.rescue()
    runtime.add("g.b", every="24h", group="g", max_concurrent=1, max_outstanding=1)
    runtime.step()
    assert runtime.state("g.b").held_reason is not None
    (again,) = other.claim()
    assert again.job.schedule_id == "g.a"


def test_the_place_of_a_lost_job_is_given_to_the_slot_that_waits_for_it(runtime: Tenant) -> None:
    runtime.add("g.a", every="24h", group="g", max_concurrent=1, on_lost="fail")
    runtime.step()
    runtime.claim()
    runtime.add("g.b", every="24h", group="g", max_concurrent=1)
    runtime.step()
    runtime.wait("31s")
    runtime.neighbour().rescue()
    runtime.step()
    assert runtime.statuses("g.b") == ["queued"]


def test_jobs_behind_a_rescued_one_stay_behind_it(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    runtime.step()
    runtime.claim()
    runtime.wait_and_step("1m")
    runtime.wait("31s")
    other = runtime.neighbour()
    other.rescue()
    first, second = runtime.jobs("a")
    (again,) = other.claim()
    assert again.job.job_id == first.job_id
    other.settle(again)
    assert [one.job.job_id for one in other.claim()] == [second.job_id]


def test_a_job_cancelled_while_it_ran_on_a_node_that_died_is_let_go_of_and_not_run_again(
    runtime: Tenant,
) -> None:
    runtime.add("a", every="1m", if_running="cancel", group="g", max_concurrent=1)
    runtime.step()
    (killed,) = runtime.claim()
    runtime.wait_and_step("1m")
    runtime.wait("31s")
    other = runtime.neighbour()
    assert other.claim() == []
    assert other.rescue() == 1
    job = runtime.job(killed.job.job_id)
    assert (job.status, job.released_at, job.rescues) == ("cancelled", runtime.now, 0)
    assert runtime.events("a", "job.lost", "job.rescued") == []
    assert [one.job.number for one in other.claim()] == [2]
    assert runtime.settle(killed) == 0


def test_the_job_of_a_deleted_schedule_is_rescued_too(runtime: Tenant) -> None:
    runtime.add("a", every="24h", group="g", max_concurrent=1)
    runtime.step()
    runtime.claim()
    runtime.delete("a")
    runtime.wait("31s")
    other = runtime.neighbour()
    assert other.rescue() == 1
    (again,) = other.claim()
    assert other.settle(again, outcome=SUCCEEDED) == 1
    assert [job.status for job in runtime.jobs()] == ["succeeded"]


def test_a_rescued_retry_waits_for_nothing_any_more(runtime: Tenant) -> None:
    runtime.add("a", every="24h", max_retries=3, retry_delay="1m")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("1m")
    runtime.claim()
    runtime.wait("31s")
    other = runtime.neighbour()
    other.rescue()
    assert (runtime.state("a").waiting, runtime.state("a").retries_waiting) == (0, 0)
    (again,) = other.claim()
    assert (again.job.origin, again.job.attempt) == ("retry", 3)
    assert (runtime.state("a").waiting, runtime.state("a").retries_waiting) == (0, 0)


def test_a_rescued_retry_that_is_the_probe_of_its_breaker_is_claimed_again_and_closes_it(
    runtime: Tenant,
) -> None:
    breaker = {"threshold": 1, "reset_after": "30m"}
    runtime.add("a", every="24h", max_retries=3, retry_delay="1m", circuit_breaker=breaker)
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("31m")
    (probe,) = runtime.claim()
    assert runtime.runtime.ledger.breaker("a").probe_job_id == probe.job.job_id
    runtime.wait("31s")
    other = runtime.neighbour()
    other.rescue()
    (again,) = other.claim()
    assert (again.job.job_id, again.job.is_probe) == (probe.job.job_id, True)
    assert other.settle(again) == 1
    assert runtime.runtime.ledger.breaker("a").state == "closed"
    reasons = [move.reason for move in runtime.runtime.ledger.transitions("a", limit=9)]
    assert reasons == ["success", "cooldown_elapsed", "failure_threshold"]


def test_a_rescued_retry_that_a_pause_cancels_is_counted_once(runtime: Tenant) -> None:
    runtime.add("a", every="24h", max_retries=3, retry_delay="1m")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("1m")
    runtime.claim()
    runtime.wait("31s")
    runtime.neighbour().rescue()
    runtime.pause("a")
    state = runtime.state("a")
    assert (state.outstanding, state.waiting, state.retries_waiting) == (0, 0, 0)


def test_the_last_heartbeat_is_that_of_any_scheduler(runtime: Tenant) -> None:
    slots = runtime.runtime.slots
    assert slots.last_heartbeat_at() == at("08:00:00")
    runtime.wait("10s")
    runtime.neighbour()
    runtime.wait("10s")
    slots.heartbeat(runtime.now, node="worker", version="test", is_scheduler=False)
    assert slots.last_heartbeat_at() == at("08:00:10")
    runtime.runtime.slots.sign_off_node(runtime.now, node=runtime.node)
    assert slots.last_heartbeat_at() == at("08:00:20")


@pytest.mark.parametrize("jobs", [1, 50])
def test_all_jobs_of_a_dead_node_are_rescued_in_one_go(runtime: Tenant, jobs: int) -> None:
    runtime.add_many([f"s{number}" for number in range(jobs)], every="24h")
    runtime.step()
    runtime.claim()
    runtime.wait("31s")
    other = runtime.neighbour()
    assert other.runtime.slots.rescue(runtime.now, node=other.node, lease=LEASE) == jobs
    assert len(other.claim()) == jobs


def test_a_passing_node_leaves_no_row_unless_something_is_still_its_own(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    runtime.claim()
    idle = runtime.neighbour("idle")
    for node in (runtime, idle):
        store_of(node.runtime).slots.sign_off_node(runtime.now, node=node.node, is_passing=True)
    assert [(n.node, n.stopped_at) for n in runtime.runtime.upkeep.nodes()] == [(runtime.node, runtime.now)]
    assert runtime.neighbour().rescue() == 1
