"""Claims: what a worker gets, in what order, and within which limits (O1, O3, O4, R1, R8, X8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.operations.jobs import backfill
from tests.conformance.tenant import FAILED, Tenant, clock_of, end_of, names

AGENT: dict[str, Any] = {"group": "reviewer", "max_concurrent": 1}


def fire(house: Tenant, times: int, every: str = "1m") -> None:
    """Let so many slots come due, one interval apart, with nobody at work."""
    house.step()
    for _ in range(times - 1):
        house.wait_and_step(every)


# -- one after another --


def test_jobs_of_one_schedule_run_one_after_another_by_slot_at(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    fire(house, 3)
    order = []
    while claimed := house.claim():
        order.append([clock_of(one.job.slot_at) for one in claimed])
        assert house.claim() == []
        house.settle(*claimed)
    assert order == [["08:00:00"], ["08:01:00"], ["08:02:00"]]


def test_jobs_that_may_overlap_run_side_by_side(house: Tenant) -> None:
    house.add("a", every="1m", if_running="allow")
    fire(house, 3)
    assert [clock_of(one.job.slot_at) for one in house.claim()] == ["08:00:00", "08:01:00", "08:02:00"]
    assert house.state("a").running_jobs == 3


def test_catch_up_jobs_run_oldest_first_and_the_live_slot_behind_them(house: Tenant) -> None:
    house.add("a", every="10m", catch_up="run_all", first_run="after_interval")
    house.wait("32m")
    house.step()
    ran = []
    while claimed := house.claim():
        ran += [(one.job.origin, clock_of(one.job.slot_at)) for one in claimed]
        house.settle(*claimed)
    assert ran == [("catch_up", "08:10:00"), ("catch_up", "08:20:00"), ("schedule", "08:30:00")]


def test_a_manual_job_waits_behind_the_slot_that_runs(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (running,) = house.claim()
    house.trigger("a")
    assert house.claim() == []
    house.settle(running)
    assert [one.job.origin for one in house.claim()] == ["manual"]


def test_a_retry_goes_before_a_younger_slot_that_is_ready_too(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="2m")
    house.step()
    house.run(FAILED)
    house.wait("2m")
    house.step()
    claimed = house.claim()
    assert [(one.job.origin, clock_of(one.job.slot_at)) for one in claimed] == [("retry", "08:00:00")]


def test_a_retry_that_waits_holds_nobody_back(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue", max_retries=3, retry_delay="1h")
    house.step()
    house.run(FAILED)
    house.wait_and_step("1m")
    assert [clock_of(one.job.slot_at) for one in house.claim()] == ["08:01:00"]


# -- who becomes ready --


def test_when_the_first_in_line_is_cancelled_the_next_is_ready(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    fire(house, 3)
    house.cancel(house.jobs("a")[0].job_id)
    assert [clock_of(one.job.slot_at) for one in house.claim()] == ["08:01:00"]


def test_when_one_in_the_middle_is_cancelled_the_order_stays(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    fire(house, 3)
    house.cancel(house.jobs("a")[1].job_id)
    assert [clock_of(job.slot_at) for job in house.run()] == ["08:00:00"]
    assert [clock_of(job.slot_at) for job in house.run()] == ["08:02:00"]


def test_when_a_pause_cancels_the_first_in_line_the_manual_job_behind_it_is_ready(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    house.trigger("a")
    house.pause("a")
    assert [one.job.origin for one in house.claim()] == ["manual"]


def test_when_a_pause_leaves_a_running_job_the_manual_one_waits_for_it(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    fire(house, 1)
    (running,) = house.claim()
    house.wait_and_step("1m")
    house.trigger("a")
    house.pause("a")
    assert house.claim() == []
    house.settle(running)
    assert [one.job.origin for one in house.claim()] == ["manual"]


def test_a_killed_job_holds_the_next_back_until_its_worker_lets_go(house: Tenant) -> None:
    house.add("a", every="1m", if_running="cancel")
    house.step()
    (killed,) = house.claim()
    house.wait_and_step("1m")
    assert house.statuses("a") == ["cancelled", "queued"]
    assert house.claim() == []
    house.settle(killed)
    assert [clock_of(one.job.slot_at) for one in house.claim()] == ["08:01:00"]


def test_a_job_behind_two_that_could_overlap_is_ready_when_both_have_ended(house: Tenant) -> None:
    house.add("a", every="1m", if_running="allow")
    fire(house, 2)
    first, second = house.claim()
    house.edit("a", every="1m", if_running="queue")
    house.wait_and_step("1m")
    house.settle(first)
    assert house.claim() == []
    house.settle(second)
    assert [clock_of(one.job.slot_at) for one in house.claim()] == ["08:02:00"]


@pytest.mark.parametrize("if_running", ["skip", "allow"])
def test_backfilled_slots_run_one_after_another_beside_the_schedule(house: Tenant, if_running: str) -> None:
    house.add("a", cron="*/10 * * * *", if_running=if_running)
    assert len(backfill_the_missed(house)) == 3
    ran = [[clock_of(job.slot_at) for job in house.run()] for _ in range(3)]
    assert ran == [["08:10:00"], ["08:20:00"], ["08:30:00"]]
    assert house.state("a").run_count == 0


def test_a_cancelled_backfill_job_lets_the_next_one_through(house: Tenant) -> None:
    house.add("a", cron="*/10 * * * *")
    backfill_the_missed(house)
    house.cancel(house.jobs("a")[0].job_id)
    assert [clock_of(one.job.slot_at) for one in house.claim()] == ["08:20:00"]


def backfill_the_missed(house: Tenant) -> list[int]:
    """Nobody looked from 08:00 to 08:38: three slots are missed, and then filled in."""
    house.wait("38m")
    house.step()
    begin, end = datetime(2026, 1, 5, 7, 0, tzinfo=UTC), datetime(2026, 1, 5, 8, 38, tzinfo=UTC)
    return list(backfill(house.house, "a", begin, end).slots)


# -- which of many --


def test_a_worker_gets_no_more_than_it_asks_for(house: Tenant) -> None:
    for number in range(5):
        house.add(f"s{number}", every="1h")
    house.step()
    assert len(house.claim(2)) == 2
    assert len(house.claim(2)) == 2
    assert len(house.claim(2)) == 1


def test_the_job_that_is_ready_longest_goes_first_also_beside_one_with_many(house: Tenant) -> None:
    house.add("many", uid="000000000000", every="1m", if_running="allow")
    house.wait("1s")
    house.add("first", uid="ffffffffffff", every="24h")
    house.step()  # first: ready at 08:00:01; many: its slot of 08:00:00 as well
    house.wait_and_step("1m")
    house.wait_and_step("1m")
    assert names(house.claim(2)) == ["many", "first"]


def test_what_a_program_keeps_for_itself_is_taken_by_those_that_name_it(house: Tenant) -> None:
    house.add("ours", every="1m", if_running="queue", queue="default@shop")
    house.add("open", every="1m", if_running="queue")
    fire(house, 3)  # more than one job of a schedule: those beyond the first are looked up another way
    assert names(house.claim()) == ["open"]
    assert house.claim(queues=["default", "default@office"]) == []
    assert names(house.claim(queues=["default@shop"])) == ["ours"]


def test_one_job_is_taken_by_its_id_when_it_is_ready_and_has_a_place(house: Tenant) -> None:
    house.add_many([f"mail{number}" for number in range(120)], every="24h")
    house.add("reviewer.a", every="24h", if_running="queue", **AGENT)
    house.add("reviewer.b", every="24h", queue="default@shop", if_running="queue", **AGENT)
    house.step()
    (first,) = house.jobs("reviewer.a")
    (second,) = house.jobs("reviewer.b")

    def take(job_id: str) -> ClaimedJob | None:
        return house.house.slots.claim_job(house.now, node=house.node, job_id=job_id)

    taken = take(second.job_id)
    assert taken is not None and (taken.job.status, taken.job.attempt) == ("running", 1)
    assert take(second.job_id) is None  # once
    assert take(first.job_id) is None  # no capacity
    assert take("sched-nobody-n1-rc0") is None
    house.settle(taken)
    house.pause_system()
    assert take(first.job_id) is None
    house.resume_system()
    assert take(first.job_id) is not None


def test_a_worker_of_one_queue_gets_its_jobs_from_behind_many_of_another(house: Tenant) -> None:
    house.add_many([f"mail{number}" for number in range(120)], every="24h", queue="mail")
    house.wait("1s")
    house.add("report", every="24h", queue="reports")
    house.step()
    assert names(house.claim(1, queues=["reports"])) == ["report"]
    assert house.claim(1, queues=["nobody"]) == []
    assert len(house.claim(200, queues=["mail", "reports"])) == 120


def test_jobs_that_wait_for_capacity_keep_nobody_else_waiting(house: Tenant) -> None:
    many = [f"reviewer.s{number}" for number in range(120)]
    house.add_many(many, every="24h", if_running="queue", **AGENT)
    house.step()
    assert len(house.claim(1)) == 1
    house.wait("1s")
    house.add("other", every="24h")
    house.step()
    assert names(house.claim(1)) == ["other"]


def test_jobs_behind_a_running_one_keep_nobody_else_waiting(house: Tenant) -> None:
    house.add("a", every="1m", catch_up="run_all", catch_up_limit=150, only_between="08:00-10:00")
    house.wait("150m")
    house.step()  # 120 catch-up jobs, all ready at the next opening
    house.clock.set("2026-01-06T08:00:00Z")
    assert [clock_of(one.job.slot_at) for one in house.claim(1)] == ["08:00:00"]
    house.add("other", every="24h")
    house.step()
    assert names(house.claim(1)) == ["other"]


# -- limits --


def test_capacity_is_shared_by_the_schedules_of_a_group(house: Tenant) -> None:
    for name in ("a", "b", "c"):
        house.add(f"reviewer.{name}", every="24h", if_running="queue", group="reviewer", max_concurrent=2)
        house.wait("1s")
    house.step()
    first, second = house.claim()
    assert names([first, second]) == ["reviewer.a", "reviewer.b"]
    assert house.claim() == []
    house.settle(first)
    assert names(house.claim()) == ["reviewer.c"]


def test_capacity_makes_manual_jobs_wait_too(house: Tenant) -> None:
    house.add("reviewer.a", every="24h", **AGENT)
    house.add("reviewer.b", every="24h", first_run="after_interval", **AGENT)
    house.step()
    (running,) = house.claim()
    house.trigger("reviewer.b")
    assert house.claim() == []
    house.settle(running)
    assert names(house.claim()) == ["reviewer.b"]


def test_a_killed_job_takes_its_capacity_until_its_worker_lets_go(house: Tenant) -> None:
    house.add("reviewer.a", every="24h", if_running="queue", **AGENT)
    house.add("reviewer.b", every="24h", if_running="queue", **AGENT)
    house.step()
    (running,) = house.claim()
    house.cancel(running.job.job_id)
    assert house.claim() == []
    house.settle(running)
    assert len(house.claim()) == 1


def test_a_job_waits_for_its_not_before(house: Tenant) -> None:
    house.add("a", every="24h", max_retries=1, retry_delay="60s")
    house.step()
    house.run(FAILED)
    house.wait("59s")
    assert house.claim() == []
    house.wait("1s")
    (retry,) = house.claim()
    assert (retry.job.origin, retry.job.not_before) == ("retry", house.now)
    assert (house.state("a").waiting, house.state("a").retries_waiting) == (0, 0)


def test_a_retry_takes_its_place_beside_those_that_are_taken(house: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 2, "max_concurrent": 5}
    house.add("withings.a", every="24h", max_retries=1, retry_delay="60s", **poll)
    house.step()
    house.run(FAILED)
    house.add("withings.b", every="24h", **poll)
    house.step()
    house.wait("60s")
    assert len(house.claim()) == 2
    house.add("withings.c", every="24h", **poll)
    house.step()
    assert house.state("withings.c").held_reason == "outstanding_limit"


def test_a_retry_that_comes_due_waits_while_the_breaker_is_open(house: Tenant) -> None:
    breaker = {"threshold": 1, "reset_after": "30m"}
    house.add("a", every="24h", max_retries=3, retry_delay="60s", circuit_breaker=breaker)
    house.step()
    house.run(FAILED)
    assert house.house.ledger.breaker("a").state == "open"
    house.wait("10m")
    assert house.claim() == []
    house.wait("20m")
    (probe,) = house.claim()
    found = house.house.ledger.breaker("a")
    assert (found.state, found.probe_job_id) == ("half_open", probe.job.job_id)


# -- what a claim gives --


def test_a_claim_starts_an_attempt_with_a_fence_of_its_own(house: Tenant) -> None:
    house.add("a", every="24h", timeout="5m", name="Nightly")
    house.step()
    (claimed,) = house.claim()
    job = claimed.job
    assert (job.status, job.attempt, job.node, job.started_at) == ("running", 1, "node-1", house.now)
    assert job.deadline_at == house.now + 300_000_000
    assert (claimed.schedule_name, claimed.definition.name) == ("Nightly", "Nightly")
    assert house.job(job.job_id) == job
    state = house.state("a")
    assert (state.running_jobs, state.outstanding, state.last_run_at) == (1, 1, house.now)


def test_a_job_without_timeout_has_no_deadline(house: Tenant) -> None:
    house.add("a", every="24h", timeout=0)
    house.step()
    assert house.claim()[0].job.deadline_at is None


def test_a_rescued_job_comes_back_with_another_fence_and_the_next_attempt(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (first,) = house.claim()
    house.wait("1m")
    other = house.neighbour()
    assert other.rescue() == 1
    (second,) = other.claim()
    assert second.job.job_id == first.job.job_id
    assert (second.job.attempt, second.job.node) == (2, "node-2")
    assert second.job.fence > first.job.fence
    assert other.job(first.job.job_id) == second.job


def test_a_job_keeps_the_definition_that_it_was_made_with(house: Tenant) -> None:
    house.add("a", every="24h", payload={"v": 1})
    house.step()
    house.edit("a", every="24h", payload={"v": 2})
    (claimed,) = house.claim()
    assert claimed.definition.payload == '{"v": 1}'
    assert house.house.catalogue.get("a").definition.payload == '{"v": 2}'  # type: ignore[union-attr]


def test_nothing_is_claimed_while_the_system_is_paused(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    house.pause_system()
    assert house.claim() == []
    house.resume_system()
    assert names(house.claim()) == ["a"]


def test_a_claim_that_got_all_it_wanted_does_not_make_the_next_one_blind_for_a_pause(house: Tenant) -> None:
    """After a full claim the next one does not look before it writes; a message asks for one job by its id."""
    house.add_many(["a", "b", "c"], every="24h")
    house.step()
    (first,) = house.claim(limit=1)
    house.pause_system()
    waiting = next(job for job in house.jobs() if job.status == "queued")
    slots = house.house.slots
    assert house.claim(limit=1) == []
    assert slots.claim_job(house.now, node=house.node, job_id=waiting.job_id) is None
    if slots.can_exchange:
        ended = slots.exchange(house.now, [end_of(first)], node=house.node, limit=1)
        assert (ended.settled, ended.claimed) == (1, [])
    house.resume_system()
    assert len(house.claim()) == 2


def test_a_paused_schedule_has_nothing_to_claim_but_what_a_person_asks_for(house: Tenant) -> None:
    house.add("a", every="24h", max_retries=2)
    house.step()
    house.run(FAILED)
    house.pause("a")
    house.wait("1h")
    assert house.claim() == []
    house.trigger("a")
    assert [one.job.origin for one in house.claim()] == ["manual"]
    assert house.statuses("a") == ["failed", "cancelled", "running"]
    assert house.state("a").next_run_at is None
