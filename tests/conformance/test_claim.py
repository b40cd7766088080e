"""Claims: what a worker gets, in what order, and within which limits (O1, O3, O4, R1, R8, X8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.model.cost import Cost
from everwhen.operations.jobs import backfill
from tests.conformance.tenant import FAILED, Tenant, clock_of, end_of, names

AGENT: dict[str, Any] = {"group": "reviewer", "max_concurrent": 1}


def fire(runtime: Tenant, times: int, every: str = "1m") -> None:
    """Let so many slots come due, one interval apart, without a worker."""
    runtime.step()
    for _ in range(times - 1):
        runtime.wait_and_step(every)


# -- one after another --


def test_jobs_of_one_schedule_run_one_after_another_by_slot_at(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    fire(runtime, 3)
    order = []
    while claimed := runtime.claim():
        order.append([clock_of(one.job.slot_at) for one in claimed])
        assert runtime.claim() == []
        runtime.settle(*claimed)
    assert order == [["08:00:00"], ["08:01:00"], ["08:02:00"]]


def test_jobs_that_may_overlap_run_side_by_side(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow")
    fire(runtime, 3)
    assert [clock_of(one.job.slot_at) for one in runtime.claim()] == ["08:00:00", "08:01:00", "08:02:00"]
    assert runtime.state("a").running_jobs == 3


def test_catch_up_jobs_run_oldest_first_and_the_live_slot_behind_them(runtime: Tenant) -> None:
    runtime.add("a", every="10m", catch_up="run_all", first_run="after_interval")
    runtime.wait("32m")
    runtime.step()
    ran = []
    while claimed := runtime.claim():
        ran += [(one.job.origin, clock_of(one.job.slot_at)) for one in claimed]
        runtime.settle(*claimed)
    assert ran == [("catch_up", "08:10:00"), ("catch_up", "08:20:00"), ("schedule", "08:30:00")]


def test_a_manual_job_waits_behind_the_slot_that_runs(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (running,) = runtime.claim()
    runtime.trigger("a")
    assert runtime.claim() == []
    runtime.settle(running)
    assert [one.job.origin for one in runtime.claim()] == ["manual"]


def test_a_retry_goes_before_a_younger_slot_that_is_ready_too(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="2m")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("2m")
    runtime.step()
    claimed = runtime.claim()
    assert [(one.job.origin, clock_of(one.job.slot_at)) for one in claimed] == [("retry", "08:00:00")]


def test_a_retry_that_waits_holds_nobody_back(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="1h")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait_and_step("1m")
    assert [clock_of(one.job.slot_at) for one in runtime.claim()] == ["08:01:00"]


# -- which jobs become ready --


def test_when_the_first_in_line_is_cancelled_the_next_is_ready(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    fire(runtime, 3)
    runtime.cancel(runtime.jobs("a")[0].job_id)
    assert [clock_of(one.job.slot_at) for one in runtime.claim()] == ["08:01:00"]


def test_when_one_in_the_middle_is_cancelled_the_order_stays(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    fire(runtime, 3)
    runtime.cancel(runtime.jobs("a")[1].job_id)
    assert [clock_of(job.slot_at) for job in runtime.run()] == ["08:00:00"]
    assert [clock_of(job.slot_at) for job in runtime.run()] == ["08:02:00"]


def test_when_a_pause_cancels_the_first_in_line_the_manual_job_behind_it_is_ready(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    runtime.trigger("a")
    runtime.pause("a")
    assert [one.job.origin for one in runtime.claim()] == ["manual"]


def test_when_a_pause_leaves_a_running_job_the_manual_one_waits_for_it(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    fire(runtime, 1)
    (running,) = runtime.claim()
    runtime.wait_and_step("1m")
    runtime.trigger("a")
    runtime.pause("a")
    assert runtime.claim() == []
    runtime.settle(running)
    assert [one.job.origin for one in runtime.claim()] == ["manual"]


def test_a_killed_job_holds_the_next_back_until_its_worker_lets_go(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="cancel")
    runtime.step()
    (killed,) = runtime.claim()
    runtime.wait_and_step("1m")
    assert runtime.statuses("a") == ["cancelled", "queued"]
    assert runtime.claim() == []
    runtime.settle(killed)
    assert [clock_of(one.job.slot_at) for one in runtime.claim()] == ["08:01:00"]


def test_a_job_behind_two_that_could_overlap_is_ready_when_both_have_ended(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow")
    fire(runtime, 2)
    first, second = runtime.claim()
    runtime.edit("a", every="1m", if_running="queue")
    runtime.wait_and_step("1m")
    runtime.settle(first)
    assert runtime.claim() == []
    runtime.settle(second)
    assert [clock_of(one.job.slot_at) for one in runtime.claim()] == ["08:02:00"]


@pytest.mark.parametrize("if_running", ["skip", "allow"])
def test_backfilled_slots_run_one_after_another_beside_the_schedule(runtime: Tenant, if_running: str) -> None:
    runtime.add("a", cron="*/10 * * * *", if_running=if_running)
    assert len(backfill_the_missed(runtime)) == 3
    ran = [[clock_of(job.slot_at) for job in runtime.run()] for _ in range(3)]
    assert ran == [["08:10:00"], ["08:20:00"], ["08:30:00"]]
    assert runtime.state("a").run_count == 0


def test_a_cancelled_backfill_job_lets_the_next_one_through(runtime: Tenant) -> None:
    runtime.add("a", cron="*/10 * * * *")
    backfill_the_missed(runtime)
    runtime.cancel(runtime.jobs("a")[0].job_id)
    assert [clock_of(one.job.slot_at) for one in runtime.claim()] == ["08:20:00"]


def backfill_the_missed(runtime: Tenant) -> list[int]:
    """Miss three slots, because no evaluation runs from 08:00 to 08:38, and then fill them."""
    runtime.wait("38m")
    runtime.step()
    begin, end = datetime(2026, 1, 5, 7, 0, tzinfo=UTC), datetime(2026, 1, 5, 8, 38, tzinfo=UTC)
    return list(backfill(runtime.runtime, "a", begin, end).slots)


# -- which of many jobs --


def test_a_worker_gets_no_more_than_it_asks_for(runtime: Tenant) -> None:
    for number in range(5):
        runtime.add(f"s{number}", every="1h")
    runtime.step()
    assert len(runtime.claim(2)) == 2
    assert len(runtime.claim(2)) == 2
    assert len(runtime.claim(2)) == 1


def test_the_job_that_is_ready_longest_goes_first_also_beside_one_with_many(runtime: Tenant) -> None:
    runtime.add("many", uid="000000000000", every="1m", if_running="allow")
    runtime.wait("1s")
    runtime.add("first", uid="ffffffffffff", every="24h")
    runtime.step()  # first: ready at 08:00:01; many: its slot of 08:00:00 as well
    runtime.wait_and_step("1m")
    runtime.wait_and_step("1m")
    assert names(runtime.claim(2)) == ["many", "first"]


def test_what_a_program_keeps_for_itself_is_taken_by_those_that_name_it(runtime: Tenant) -> None:
    runtime.add("ours", every="1m", if_running="queue", bound_to="shop")
    runtime.add("open", every="1m", if_running="queue")
    fire(runtime, 3)  # more than one job of a schedule: those beyond the first are loaded by another query
    assert names(runtime.claim()) == ["open"]
    assert runtime.claim(queues=["default", "default@office"]) == []
    assert names(runtime.claim(queues=["default@shop"])) == ["ours"]


def test_one_job_is_taken_by_its_id_when_it_is_ready_and_has_a_place(runtime: Tenant) -> None:
    runtime.add_many([f"mail{number}" for number in range(120)], every="24h")
    runtime.add("reviewer.a", every="24h", if_running="queue", **AGENT)
    runtime.add("reviewer.b", every="24h", bound_to="shop", if_running="queue", **AGENT)
    runtime.step()
    (first,) = runtime.jobs("reviewer.a")
    (second,) = runtime.jobs("reviewer.b")

    def take(job_id: str) -> ClaimedJob | None:
        return runtime.runtime.slots.claim_job(runtime.now, node=runtime.node, job_id=job_id)

    taken = take(second.job_id)
    assert taken is not None and (taken.job.status, taken.job.attempt) == ("running", 1)
    assert take(second.job_id) is None  # once
    assert take(first.job_id) is None  # no capacity
    assert take("sched-nobody-n1-rc0") is None
    runtime.settle(taken)
    runtime.pause_system()
    assert take(first.job_id) is None
    runtime.resume_system()
    assert take(first.job_id) is not None


def test_a_worker_of_one_queue_gets_its_jobs_from_behind_many_of_another(runtime: Tenant) -> None:
    runtime.add_many([f"mail{number}" for number in range(120)], every="24h", queue="mail")
    runtime.wait("1s")
    runtime.add("report", every="24h", queue="reports")
    runtime.step()
    assert names(runtime.claim(1, queues=["reports"])) == ["report"]
    assert runtime.claim(1, queues=["nobody"]) == []
    assert len(runtime.claim(200, queues=["mail", "reports"])) == 120


def test_jobs_that_wait_for_capacity_keep_nobody_else_waiting(runtime: Tenant) -> None:
    many = [f"reviewer.s{number}" for number in range(120)]
    runtime.add_many(many, every="24h", if_running="queue", **AGENT)
    runtime.step()
    assert len(runtime.claim(1)) == 1
    runtime.wait("1s")
    runtime.add("other", every="24h")
    runtime.step()
    assert names(runtime.claim(1)) == ["other"]


def test_jobs_behind_a_running_one_keep_nobody_else_waiting(runtime: Tenant) -> None:
    runtime.add("a", every="1m", catch_up="run_all", catch_up_limit=150, only_between="08:00-10:00")
    runtime.wait("150m")
    runtime.step()  # 120 catch-up jobs, all ready at the next opening
    runtime.clock.set("2026-01-06T08:00:00Z")
    assert [clock_of(one.job.slot_at) for one in runtime.claim(1)] == ["08:00:00"]
    runtime.add("other", every="24h")
    runtime.step()
    assert names(runtime.claim(1)) == ["other"]


# -- limits --


def test_capacity_is_shared_by_the_schedules_of_a_group(runtime: Tenant) -> None:
    for name in ("a", "b", "c"):
        runtime.add(f"reviewer.{name}", every="24h", if_running="queue", group="reviewer", max_concurrent=2)
        runtime.wait("1s")
    runtime.step()
    first, second = runtime.claim()
    assert names([first, second]) == ["reviewer.a", "reviewer.b"]
    assert runtime.claim() == []
    runtime.settle(first)
    assert names(runtime.claim()) == ["reviewer.c"]


def test_capacity_makes_manual_jobs_wait_too(runtime: Tenant) -> None:
    runtime.add("reviewer.a", every="24h", **AGENT)
    runtime.add("reviewer.b", every="24h", first_run="after_interval", **AGENT)
    runtime.step()
    (running,) = runtime.claim()
    runtime.trigger("reviewer.b")
    assert runtime.claim() == []
    runtime.settle(running)
    assert names(runtime.claim()) == ["reviewer.b"]


def test_a_killed_job_takes_its_capacity_until_its_worker_lets_go(runtime: Tenant) -> None:
    runtime.add("reviewer.a", every="24h", if_running="queue", **AGENT)
    runtime.add("reviewer.b", every="24h", if_running="queue", **AGENT)
    runtime.step()
    (running,) = runtime.claim()
    runtime.cancel(running.job.job_id)
    assert runtime.claim() == []
    runtime.settle(running)
    assert len(runtime.claim()) == 1


def test_a_job_waits_for_its_not_before(runtime: Tenant) -> None:
    runtime.add("a", every="24h", max_retries=1, retry_delay="60s")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("59s")
    assert runtime.claim() == []
    runtime.wait("1s")
    (retry,) = runtime.claim()
    assert (retry.job.origin, retry.job.not_before) == ("retry", runtime.now)
    assert (runtime.state("a").waiting, runtime.state("a").retries_waiting) == (0, 0)


def test_a_retry_takes_its_place_beside_those_that_are_taken(runtime: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 2, "max_concurrent": 5}
    runtime.add("withings.a", every="24h", max_retries=1, retry_delay="60s", **poll)
    runtime.step()
    runtime.run(FAILED)
    runtime.add("withings.b", every="24h", **poll)
    runtime.step()
    runtime.wait("60s")
    assert len(runtime.claim()) == 2
    runtime.add("withings.c", every="24h", **poll)
    runtime.step()
    assert runtime.state("withings.c").held_reason == "outstanding_limit"


def test_a_retry_that_comes_due_waits_while_the_breaker_is_open(runtime: Tenant) -> None:
    breaker = {"threshold": 1, "reset_after": "30m"}
    runtime.add("a", every="24h", max_retries=3, retry_delay="60s", circuit_breaker=breaker)
    runtime.step()
    runtime.run(FAILED)
    assert runtime.runtime.ledger.breaker("a").state == "open"
    runtime.wait("10m")
    assert runtime.claim() == []
    runtime.wait("20m")
    (probe,) = runtime.claim()
    found = runtime.runtime.ledger.breaker("a")
    assert (found.state, found.probe_job_id) == ("half_open", probe.job.job_id)


def test_a_breaker_that_closes_lets_a_retry_go_that_waited_for_it_and_none_before_its_not_before(
    runtime: Tenant,
) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", "every": "24h", "max_retries": 1}
    poll["circuit_breaker"] = {"threshold": 1, "reset_after": "30m"}
    runtime.add("withings.probe", retry_delay="29m", **poll)
    runtime.add("withings.soon", retry_delay="1m", **poll)
    runtime.add("withings.later", retry_delay="2h", **poll)
    runtime.step()
    runtime.settle(*runtime.claim(), outcome=FAILED)
    runtime.wait("30m")
    found = runtime.claim()  # the first of them is the probe, and the other one waits
    assert len(found) == 1
    runtime.settle(*found)
    others = {"withings.probe", "withings.soon"} - {found[0].job.schedule_id}
    assert {claimed.job.schedule_id for claimed in runtime.claim()} == others
    runtime.wait("89m")
    assert runtime.claim() == []
    runtime.wait("1m")
    assert names(runtime.claim()) == ["withings.later"]


def test_two_retries_of_one_schedule_that_a_budget_refuses_in_one_claim_are_both_counted(
    runtime: Tenant,
) -> None:
    """The next slot comes before the refill: both are given up, and the second decision sees the first."""
    runtime.add(
        "a",
        every="10m",
        if_running="allow",
        max_retries=1,
        retry_delay="15m",
        budgets={"a": {"fires_per_hour": 2}},
    )
    runtime.step()
    runtime.wait_and_step("10m")
    runtime.settle(*runtime.claim(), outcome=FAILED)
    assert runtime.state("a").retries_waiting == 2
    runtime.wait("30m")
    assert runtime.claim() == []
    state = runtime.state("a")
    assert (state.outstanding, state.waiting, state.retries_waiting, state.failed_slots) == (0, 0, 0, 2)
    assert [job.reason for job in runtime.jobs() if job.origin == "retry"] == ["budget", "budget"]


def test_a_chain_goes_on_behind_the_last_of_two_retries_that_no_refill_lets_begin(runtime: Tenant) -> None:
    """A grid with two retries is edited into a chain, whose next slot follows from the end of the last."""
    keys: dict[str, Any] = {
        "every": "10m",
        "max_retries": 1,
        "retry_delay": "15m",
        "budgets": {"a": {"cost_per_day": "5 USD"}},
    }
    runtime.add("a", if_running="allow", **keys)
    runtime.step()
    runtime.wait_and_step("10m")
    runtime.settle(*runtime.claim(), outcome=FAILED._replace(cost=Cost(6_000_000, "USD")))
    runtime.edit("a", interval_from="completion", **keys)
    assert (runtime.state("a").retries_waiting, runtime.state("a").next_slot_at) == (2, None)
    runtime.wait("30m")
    assert runtime.claim() == []
    state = runtime.state("a")
    assert (state.outstanding, state.failed_slots) == (0, 2)
    assert state.next_slot_at is not None and state.next_slot_at > runtime.now


# -- what a claim returns --


def test_a_claim_starts_an_attempt_with_a_fence_of_its_own(runtime: Tenant) -> None:
    runtime.add("a", every="24h", timeout="5m", name="Nightly")
    runtime.step()
    (claimed,) = runtime.claim()
    job = claimed.job
    assert (job.status, job.attempt, job.node, job.started_at) == ("running", 1, "node-1", runtime.now)
    assert job.deadline_at == runtime.now + 300_000_000
    assert (claimed.schedule_name, claimed.definition.name) == ("Nightly", "Nightly")
    assert runtime.job(job.job_id) == job
    state = runtime.state("a")
    assert (state.running_jobs, state.outstanding, state.last_run_at) == (1, 1, runtime.now)


def test_a_job_without_timeout_has_no_deadline(runtime: Tenant) -> None:
    runtime.add("a", every="24h", timeout=0)
    runtime.step()
    assert runtime.claim()[0].job.deadline_at is None


def test_a_rescued_job_comes_back_with_another_fence_and_the_next_attempt(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (first,) = runtime.claim()
    runtime.wait("1m")
    other = runtime.neighbour()
    assert other.rescue() == 1
    (second,) = other.claim()
    assert second.job.job_id == first.job.job_id
    assert (second.job.attempt, second.job.node) == (2, "node-2")
    assert second.job.fence > first.job.fence
    assert other.job(first.job.job_id) == second.job


def test_a_job_keeps_the_definition_that_it_was_made_with(runtime: Tenant) -> None:
    runtime.add("a", every="24h", payload={"v": 1})
    runtime.step()
    runtime.edit("a", every="24h", payload={"v": 2})
    (claimed,) = runtime.claim()
    assert claimed.definition.payload == '{"v": 1}'
    assert runtime.runtime.catalogue.get("a").definition.payload == '{"v": 2}'  # type: ignore[union-attr]


def test_nothing_is_claimed_while_the_system_is_paused(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    runtime.pause_system()
    assert runtime.claim() == []
    runtime.resume_system()
    assert names(runtime.claim()) == ["a"]


def test_a_claim_that_got_all_it_wanted_does_not_make_the_next_one_blind_for_a_pause(runtime: Tenant) -> None:
    """After a full claim the next one does not peek before it writes; a message requests one job by its id."""
    runtime.add_many(["a", "b", "c"], every="24h")
    runtime.step()
    (first,) = runtime.claim(limit=1)
    runtime.pause_system()
    waiting = next(job for job in runtime.jobs() if job.status == "queued")
    slots = runtime.runtime.slots
    assert runtime.claim(limit=1) == []
    assert slots.claim_job(runtime.now, node=runtime.node, job_id=waiting.job_id) is None
    if slots.can_exchange:
        ended = slots.exchange(runtime.now, [end_of(first)], node=runtime.node, limit=1)
        assert (ended.settled, ended.claimed) == (1, [])
    runtime.resume_system()
    assert len(runtime.claim()) == 2


def test_a_paused_schedule_has_nothing_to_claim_but_what_a_person_asks_for(runtime: Tenant) -> None:
    runtime.add("a", every="24h", max_retries=2)
    runtime.step()
    runtime.run(FAILED)
    runtime.pause("a")
    runtime.wait("1h")
    assert runtime.claim() == []
    runtime.trigger("a")
    assert [one.job.origin for one in runtime.claim()] == ["manual"]
    assert runtime.statuses("a") == ["failed", "cancelled", "running"]
    assert runtime.state("a").next_run_at is None
