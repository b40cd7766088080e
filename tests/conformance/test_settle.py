"""Settlements: who may end a job, and what its end does to everything around it (R0–R6, O1, X4)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.operations.firing import trigger_schedule
from everwhen.ports.slots import JobEnd
from tests.conformance.tenant import FAILED, Tenant, clock_of, end_of

POLL: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 1}
BREAKER: dict[str, Any] = {"circuit_breaker": {"threshold": 1, "reset_after": "30m"}}


# -- fencing --


def test_the_claim_that_holds_ends_the_job(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    house.wait("10s")
    assert house.settle(claimed, outcome=Outcome("succeeded", result='{"n": 1}')) == 1
    job = house.job(claimed.job.job_id)
    assert (job.status, job.ended_at, job.released_at, job.result) == (
        "succeeded",
        house.now,
        house.now,
        '{"n": 1}',
    )


def test_a_settled_job_never_changes(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    house.settle(claimed)
    before = house.everything()
    house.wait("1s")
    assert house.settle(claimed, outcome=FAILED) == 0
    assert house.everything() == before


def test_a_job_that_is_named_twice_in_a_batch_ends_once(house: Tenant) -> None:
    house.add("a", every="1h", group="g", max_concurrent=3)
    house.step()
    (claimed,) = house.claim()
    ends = [end_of(claimed), end_of(claimed, FAILED)]
    assert house.house.slots.settle(house.now, ends) == 1
    assert house.statuses("a") == ["succeeded"]
    assert (house.state("a").outstanding, house.state("a").error_count) == (0, 0)


@pytest.mark.parametrize("offset", [-1, 1])
def test_a_foreign_fence_changes_nothing(house: Tenant, offset: int) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    before = house.everything()
    end = JobEnd(claimed.job.job_id, claimed.job.fence + offset, SUCCEEDED)
    assert house.house.slots.settle(house.now, [end]) == 0
    assert house.everything() == before


def test_a_job_that_nobody_runs_cannot_be_ended_by_a_guess(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (job,) = house.jobs("a")
    before = house.everything()
    assert house.house.slots.settle(house.now, [JobEnd(job.job_id, job.fence, SUCCEEDED)]) == 0
    assert house.everything() == before


def test_an_unknown_job_changes_nothing_and_stops_nobody(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    ends = [JobEnd("sched-nobody-n1-rc0", 1, SUCCEEDED), end_of(claimed)]
    assert house.house.slots.settle(house.now, ends) == 1
    assert house.statuses("a") == ["succeeded"]


def test_the_word_of_a_worker_whose_job_was_rescued_counts_no_more(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (late,) = house.claim()
    house.wait("1m")
    other = house.neighbour()
    other.rescue()
    before = house.everything()
    assert house.settle(late) == 0
    assert house.everything() == before
    (again,) = other.claim()
    assert house.settle(late, outcome=FAILED) == 0
    assert other.settle(again) == 1
    assert (house.state("a").run_count, house.state("a").error_count) == (1, 0)


def test_a_batch_larger_than_any_list_of_parameters_is_settled(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    ends = [JobEnd(f"sched-gone-n{number}-rc0", 1, SUCCEEDED) for number in range(40_000)]
    assert house.house.slots.settle(house.now, [*ends, end_of(claimed)]) == 1
    assert house.statuses("a") == ["succeeded"]


def test_five_hundred_jobs_settle_in_one_batch_each_seeing_the_ones_before(house: Tenant) -> None:
    many = [f"g.s{number:03}" for number in range(500)]
    dies: dict[str, Any] = {"max_retries": 0, "on_exhausted": "stop"}
    house.add_many(many, every="24h", group="g", command="poll", max_outstanding=500, **dies)
    assert house.step() == 500
    claimed = house.claim(500)
    ends = [end_of(one, FAILED if number % 5 == 0 else SUCCEEDED) for number, one in enumerate(claimed)]
    assert house.house.slots.settle(house.now, ends) == 500
    statuses = [job.status for job in house.jobs()]
    assert (statuses.count("failed"), statuses.count("succeeded")) == (100, 400)
    counts = house.house.ledger.counts()
    assert counts.schedules == {"active": 400, "dead": 100}
    assert counts.jobs == {}


def test_several_jobs_of_one_schedule_settle_in_one_batch(house: Tenant) -> None:
    house.add("a", every="1m", if_running="allow", circuit_breaker={"threshold": 3, "reset_after": "30m"})
    for _ in range(4):
        house.step()
        house.wait("1m")
    house.settle(*house.claim(), outcome=FAILED)
    assert (house.state("a").error_count, house.state("a").failed_slots) == (4, 4)
    (opened,) = house.house.ledger.transitions("a", limit=10)
    assert (opened.to_state, opened.failure_count) == ("open", 3)


# -- cancelled jobs --


def test_a_job_cancelled_while_it_runs_keeps_its_worker_until_that_lets_go(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    house.cancel(claimed.job.job_id)
    job = house.job(claimed.job.job_id)
    assert (job.status, job.ended_at, job.released_at, job.node) == ("cancelled", house.now, None, "node-1")
    assert (house.state("a").outstanding, house.state("a").running_jobs) == (0, 1)
    assert house.house.slots.cancel_requests("node-1") == [job.job_id]
    assert house.house.slots.cancel_requests("node-2") == []
    house.wait("5s")
    assert house.settle(claimed, outcome=SUCCEEDED) == 1
    after = house.job(job.job_id)
    assert after == job._replace(released_at=house.now)
    assert house.state("a").running_jobs == 0
    assert house.house.slots.cancel_requests("node-1") == []
    assert house.settle(claimed) == 0


def test_r9_a_job_whose_work_goes_on_is_over_and_keeps_its_worker_until_that_lets_go(house: Tenant) -> None:
    house.add("g.a", every="1m", group="g", max_concurrent=1, if_running="queue")
    house.step()
    (claimed,) = house.claim()
    timed_out = Outcome("timed_out", error="too slow", is_still_running=True)
    assert house.settle(claimed, outcome=timed_out) == 1
    job = house.job(claimed.job.job_id)
    assert (job.status, job.ended_at, job.released_at, job.error) == (
        "timed_out",
        house.now,
        None,
        "too slow",
    )
    state = house.state("g.a")
    assert (state.outstanding, state.running_jobs, state.error_count) == (0, 1, 1)
    house.wait("1m")
    house.step()
    assert house.claim() == []  # neither the schedule nor its group has room
    assert house.settle(claimed, outcome=timed_out) == 1
    assert house.claim() == []
    assert house.settle(claimed, outcome=Outcome("timed_out")) == 1
    assert house.job(job.job_id) == job._replace(released_at=house.now)
    assert (house.state("g.a").running_jobs, house.state("g.a").error_count) == (0, 1)
    assert len(house.claim()) == 1
    assert house.settle(claimed, outcome=SUCCEEDED) == 0


def test_r9_a_node_that_dies_lets_go_of_what_went_on(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    (claimed,) = house.claim()
    house.settle(claimed, outcome=Outcome("timed_out", is_still_running=True))
    house.wait("10m")
    assert house.house.slots.rescue(house.now, node="node-2", lease=30_000_000) == 1
    job = house.job(claimed.job.job_id)
    assert (job.status, job.released_at) == ("timed_out", house.now)
    assert house.state("a").running_jobs == 0


def test_a_cancelled_job_counts_neither_as_success_nor_as_failure(house: Tenant) -> None:
    house.add("a", every="1h", max_retries=0, **BREAKER)
    house.step()
    (claimed,) = house.claim()
    house.cancel(claimed.job.job_id)
    house.settle(claimed, outcome=FAILED)
    state = house.state("a")
    assert (state.status, state.run_count, state.error_count, state.current_retry) == ("active", 0, 0, 0)
    assert house.house.ledger.breaker("a").state == "closed"


def test_a_worker_that_reports_cancelled_ends_the_job_so(house: Tenant) -> None:
    house.add("a", every="5m", interval_from="completion", max_retries=2)
    house.step()
    (claimed,) = house.claim()
    house.wait("1m")
    house.settle(claimed, outcome=Outcome("cancelled"))
    assert house.statuses("a") == ["cancelled"]
    assert clock_of(house.state("a").next_slot_at or 0) == "08:06:00"


# -- a schedule that is gone --


@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED])
def test_a_run_that_ends_after_its_schedule_was_deleted_writes_its_job_and_nothing_else(
    house: Tenant, outcome: Outcome
) -> None:
    house.add("a", every="1h", max_retries=3, group="g", max_concurrent=1, max_outstanding=1)
    house.step()
    (claimed,) = house.claim()
    house.delete("a")
    events = house.events(None)
    assert house.settle(claimed, outcome=outcome) == 1
    assert [job.status for job in house.jobs()] == [outcome.status]
    assert house.events(None) == events
    assert house.house.catalogue.get("a") is None


def test_a_run_that_is_killed_with_its_schedule_is_let_go_of(house: Tenant) -> None:
    house.add("g.a", every="1h", group="g", max_concurrent=1)
    house.step()
    (claimed,) = house.claim()
    house.delete("g.a", cancel_running=True)
    house.add("g.b", every="1h", group="g", max_concurrent=1, if_running="queue")
    house.step()
    assert house.claim() == []
    house.settle(claimed)
    assert house.job(claimed.job.job_id).status == "cancelled"
    assert len(house.claim()) == 1


def test_the_run_of_a_deleted_schedule_does_not_touch_the_one_that_has_its_id_now(house: Tenant) -> None:
    house.add("a", every="1h", max_retries=0)
    house.step()
    (old,) = house.claim()
    house.delete("a")
    house.add("a", every="1h", max_retries=0)
    house.step()
    (new,) = house.claim()
    before = house.state("a")
    house.settle(old, outcome=FAILED)
    assert house.state("a") == before
    house.settle(new)
    assert house.state("a").run_count == 1


# -- counters, retries, repeats --


def test_a_success_moves_what_the_table_says(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    fired_at = house.now
    (claimed,) = house.claim()
    house.wait("10s")
    house.settle(claimed)
    state = house.state("a")
    assert (state.last_fired_at, state.last_run_at) == (fired_at, fired_at)
    assert (state.last_completed_at, state.last_success_at) == (house.now, house.now)
    assert state.last_success_job_id == claimed.job.job_id
    assert (state.run_count, state.current_repeat, state.error_count, state.fire_count) == (1, 1, 0, 1)
    assert (state.outstanding, state.running_jobs) == (0, 0)


def test_a_failure_moves_what_the_table_says_and_a_success_keeps_the_error(house: Tenant) -> None:
    house.add("a", every="1m")
    house.step()
    house.run(FAILED)
    state = house.state("a")
    assert (state.error_count, state.current_retry, state.last_error) == (1, 0, "no luck")
    assert state.failed_slots == 1
    assert (state.run_count, state.last_success_at, state.last_completed_at) == (0, None, house.now)
    house.wait_and_step("1m")
    house.run()
    state = house.state("a")
    assert (state.error_count, state.failed_slots, state.last_error) == (1, 0, "no luck")


def test_manual_jobs_move_no_counter(house: Tenant) -> None:
    house.add("a", every="1h", first_run="after_interval", max_retries=0)
    before = house.state("a")
    for _ in range(2):
        house.trigger("a")
        house.run(FAILED)
    assert house.state("a") == before._replace(fire_count=2)


@pytest.mark.parametrize(("rule", "status", "counted"), [("continue", "active", 0), ("stop", "dead", 3)])
def test_a_failure_is_followed_by_a_retry_of_the_same_slot_until_none_is_left(
    house: Tenant, rule: str, status: str, counted: int
) -> None:
    house.add("a", every="24h", max_retries=2, retry_delay="60s", on_exhausted=rule)
    house.step()
    pauses = []
    for _ in range(2):
        house.run(FAILED)
        retry = house.jobs("a")[-1]
        assert retry.not_before is not None
        pauses.append((retry.not_before - house.now) // 1_000_000)
        assert (house.state("a").outstanding, house.state("a").retries_waiting) == (1, 1)
        house.wait(pauses[-1])
    assert pauses == [60, 120]
    uid = house.state("a").uid
    assert [job.job_id for job in house.jobs("a")] == [f"sched-{uid}-n1-rc{number}" for number in range(3)]
    assert {job.slot_at for job in house.jobs("a")} == {house.jobs("a")[0].slot_at}
    house.run(FAILED)
    state = house.state("a")
    assert (state.status, state.error_count) == (status, 3)
    assert (state.current_retry, state.failed_slots) == (counted, 1)
    assert (state.next_slot_at is None) is (status == "dead")


def test_a_final_failure_is_not_repeated(house: Tenant) -> None:
    house.add("a", every="24h", max_retries=2, on_exhausted="stop")
    house.step()
    house.run(Outcome("failed", is_final=True))
    assert (house.statuses("a"), house.state("a").current_retry) == (["failed"], 1)


def test_a_schedule_that_dies_takes_its_queued_jobs_with_it_and_leaves_the_manual_ones(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue", max_retries=0, on_exhausted="stop")
    house.step()
    (claimed,) = house.claim()
    house.wait_and_step("1m")
    house.trigger("a")
    house.settle(claimed, outcome=FAILED)
    state = house.state("a")
    assert (state.status, state.next_run_at, state.outstanding) == ("dead", None, 1)
    assert [(job.status, job.reason) for job in house.jobs("a")] == [
        ("failed", None),
        ("cancelled", "dead"),
        ("queued", None),
    ]
    assert [one.job.origin for one in house.claim()] == ["manual"]


def test_total_repeats_ends_the_schedule_and_what_is_queued(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue", total_repeats=2)
    for _ in range(4):
        house.step()
        house.wait("1m")
    while house.run():
        pass
    assert [(job.status, job.reason) for job in house.jobs("a")] == [
        ("succeeded", None),
        ("succeeded", None),
        ("cancelled", "done"),
        ("cancelled", "done"),
    ]
    assert (house.state("a").status, house.state("a").current_repeat) == ("done", 2)


def test_the_end_of_a_run_gives_a_chain_its_next_slot(house: Tenant) -> None:
    house.add("a", every="5m", interval_from="completion")
    house.step()
    assert (house.state("a").next_slot_at, house.state("a").next_run_at) == (None, None)
    (claimed,) = house.claim()
    house.wait("10m")
    house.settle(claimed)
    assert clock_of(house.state("a").next_run_at or 0) == "08:15:00"


# -- limits --


def test_places_are_given_back_to_the_keys_that_the_jobs_were_made_with(house: Tenant) -> None:
    words: dict[str, Any] = {"every": "1m", "if_running": "queue", "max_concurrent": 3}
    words |= {"max_retries": 0, "on_exhausted": "stop"}
    house.add("a", group="old", **words)
    house.step()
    (claimed,) = house.claim()
    house.wait_and_step("1m")
    house.edit("a", group="new", **words)
    house.wait_and_step("1m")
    house.settle(claimed, outcome=FAILED)  # it dies, and takes one job of each group with it
    assert house.statuses("a") == ["failed", "cancelled", "cancelled"]


def test_freed_places_release_the_oldest_held_slots_and_no_more(house: Tenant) -> None:
    house.add("withings.first", every="24h", **POLL)
    house.step()
    (running,) = house.claim()
    for name in ("b", "c", "a"):
        house.wait("1s")
        house.add(f"withings.{name}", every="24h", **POLL)
        house.step()
    assert house.house.ledger.counts().held == 3
    order = []
    for _ in range(3):
        house.settle(running)
        house.step()
        assert house.tick().schedules == 0
        (running,) = house.claim()
        order.append(running.job.schedule_id)
    assert order == ["withings.b", "withings.c", "withings.a"]
    assert house.house.ledger.counts().held == 0


def test_a_retry_that_waits_frees_its_place(house: Tenant) -> None:
    house.add("withings.a", every="24h", max_retries=3, retry_delay="1h", **POLL)
    house.step()
    (claimed,) = house.claim()
    house.add("withings.b", every="24h", **POLL)
    house.step()
    house.settle(claimed, outcome=FAILED)
    house.step()
    assert house.statuses("withings.b") == ["queued"]


# -- breakers --


def test_a_breaker_that_opens_takes_the_queued_catch_up_jobs_of_its_key_with_it(house: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    words: dict[str, Any] = {"every": "10m", "first_run": "after_interval", **poll}
    house.add("withings.behind", catch_up="run_all", max_outstanding=9, max_concurrent=9, **words)
    house.wait("32m")
    house.step()  # 08:10 and 08:20 to catch up, 08:30 live
    house.add("withings.failing", every="24h", **poll)
    house.step()
    (failing,) = [one for one in house.claim() if one.job.schedule_id == "withings.failing"]
    house.settle(failing, outcome=FAILED)
    found = [(job.origin, job.status, job.reason) for job in house.jobs("withings.behind")]
    assert found == [
        ("catch_up", "running", None),
        ("catch_up", "cancelled", "circuit_open"),
        ("schedule", "queued", None),
    ]
    assert house.house.ledger.breaker("withings:poll").state == "open"


def test_a_job_behind_cancelled_catch_up_jobs_is_ready(house: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    house.add("withings.failing", every="24h", **poll)
    house.step()
    (failing,) = house.claim()
    house.add("withings.behind", every="10m", first_run="after_interval", catch_up="run_all", **poll)
    house.wait("32m")
    house.step()
    house.settle(failing, outcome=FAILED)
    assert [(one.job.origin, clock_of(one.job.slot_at)) for one in house.claim()] == [
        ("schedule", "08:30:00")
    ]


def test_a_chain_goes_on_when_its_catch_up_job_is_cancelled_by_the_breaker(house: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    house.add("withings.failing", every="24h", **poll)
    house.step()
    (failing,) = house.claim()
    house.add("withings.chain", every="10m", interval_from="completion", first_run="after_interval", **poll)
    house.wait("32m")
    house.step()
    assert [job.origin for job in house.jobs("withings.chain")] == ["catch_up"]
    house.settle(failing, outcome=FAILED)
    assert house.statuses("withings.chain") == ["cancelled"]
    assert clock_of(house.state("withings.chain").next_slot_at or 0) == "08:42:00"


def test_a_chain_goes_on_when_a_manual_job_takes_the_place_of_its_run(house: Tenant) -> None:
    house.add("a", every="10m", interval_from="completion")
    house.step()
    (own,) = house.claim()
    house.wait("1m")
    trigger_schedule(house.house, "a", if_running="cancel")
    house.settle(own)
    house.run()
    assert clock_of(house.state("a").next_slot_at or 0) == "08:11:00"


def test_a_probe_closes_the_breaker_or_opens_it_anew(house: Tenant) -> None:
    house.add("a", every="10m", **BREAKER)
    for outcome in (FAILED, FAILED, SUCCEEDED):
        house.step()
        house.run(outcome)
        if outcome is FAILED:
            for _ in range(3):
                house.wait_and_step("10m")
    moves = [(t.from_state, t.to_state, t.reason) for t in house.house.ledger.transitions("a", limit=10)]
    assert moves[::-1] == [
        ("closed", "open", "failure_threshold"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "open", "probe_failed"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "closed", "success"),
    ]
    assert house.reasons("a") == ["circuit_open"] * 4


def test_a_deleted_probe_does_not_shut_the_key_for_ever(house: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    house.add("withings.a", every="10m", **poll)
    house.step()
    house.run(FAILED)
    house.wait_and_step("30m")
    (probe,) = house.claim()
    assert house.house.ledger.breaker("withings:poll").probe_job_id == probe.job.job_id
    house.delete("withings.a")
    house.settle(probe)
    assert house.house.ledger.breaker("withings:poll").state == "closed"


def test_whatever_a_run_prints_it_is_settled(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    house.run(Outcome("failed", error="a\0b\ud800c", result="\0"))
    (job,) = house.jobs("a")
    assert (job.status, job.error, job.result) == ("failed", "a\ufffdb?c", "\ufffd")
    assert house.state("a").last_error == "a\ufffdb?c"
