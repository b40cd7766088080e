"""Settlements: which node may end a job, and the effects of its end (R0–R6, O1, X4)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.outcome import SUCCEEDED, JobEnd, Outcome
from everwhen.operations.jobs import trigger_schedule
from tests.conformance.tenant import FAILED, Tenant, clock_of, end_of

POLL: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 1}
BREAKER: dict[str, Any] = {"circuit_breaker": {"threshold": 1, "reset_after": "30m"}}


# -- fencing --


def test_the_claim_that_holds_ends_the_job(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait("10s")
    assert runtime.settle(claimed, outcome=Outcome("succeeded", result='{"n": 1}')) == 1
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.ended_at, job.released_at, job.result) == (
        "succeeded",
        runtime.now,
        runtime.now,
        '{"n": 1}',
    )


def test_a_settled_job_never_changes(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.settle(claimed)
    before = runtime.everything()
    runtime.wait("1s")
    assert runtime.settle(claimed, outcome=FAILED) == 0
    assert runtime.everything() == before


def test_a_job_that_is_named_twice_in_a_batch_ends_once(runtime: Tenant) -> None:
    runtime.add("a", every="1h", group="g", max_concurrent=3)
    runtime.step()
    (claimed,) = runtime.claim()
    ends = [end_of(claimed), end_of(claimed, FAILED)]
    assert runtime.runtime.slots.settle(runtime.now, ends) == 1
    assert runtime.statuses("a") == ["succeeded"]
    assert (runtime.state("a").outstanding, runtime.state("a").error_count) == (0, 0)


@pytest.mark.parametrize("offset", [-1, 1])
def test_a_foreign_fence_changes_nothing(runtime: Tenant, offset: int) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    before = runtime.everything()
    end = JobEnd(claimed.job.job_id, claimed.job.fence + offset, SUCCEEDED)
    assert runtime.runtime.slots.settle(runtime.now, [end]) == 0
    assert runtime.everything() == before


def test_a_job_that_nobody_runs_cannot_be_ended_by_a_guess(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (job,) = runtime.jobs("a")
    before = runtime.everything()
    assert runtime.runtime.slots.settle(runtime.now, [JobEnd(job.job_id, job.fence, SUCCEEDED)]) == 0
    assert runtime.everything() == before


def test_an_unknown_job_changes_nothing_and_stops_nobody(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    ends = [JobEnd("sched-nobody-n1-rc0", 1, SUCCEEDED), end_of(claimed)]
    assert runtime.runtime.slots.settle(runtime.now, ends) == 1
    assert runtime.statuses("a") == ["succeeded"]


def test_the_word_of_a_worker_whose_job_was_rescued_counts_no_more(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (late,) = runtime.claim()
    runtime.wait("1m")
    other = runtime.neighbour()
    other.rescue()
    before = runtime.everything()
    assert runtime.settle(late) == 0
    assert runtime.everything() == before
    (again,) = other.claim()
    assert runtime.settle(late, outcome=FAILED) == 0
    assert other.settle(again) == 1
    assert (runtime.state("a").run_count, runtime.state("a").error_count) == (1, 0)


def test_a_batch_larger_than_any_list_of_parameters_is_settled(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    ends = [JobEnd(f"sched-gone-n{number}-rc0", 1, SUCCEEDED) for number in range(40_000)]
    assert runtime.runtime.slots.settle(runtime.now, [*ends, end_of(claimed)]) == 1
    assert runtime.statuses("a") == ["succeeded"]


def test_five_hundred_jobs_settle_in_one_batch_each_seeing_the_ones_before(runtime: Tenant) -> None:
    many = [f"g.s{number:03}" for number in range(500)]
    dies: dict[str, Any] = {"max_retries": 0, "on_exhausted": "stop"}
    runtime.add_many(many, every="24h", group="g", command="poll", max_outstanding=500, **dies)
    assert runtime.step() == 500
    claimed = runtime.claim(500)
    ends = [end_of(one, FAILED if number % 5 == 0 else SUCCEEDED) for number, one in enumerate(claimed)]
    assert runtime.runtime.slots.settle(runtime.now, ends) == 500
    statuses = [job.status for job in runtime.jobs()]
    assert (statuses.count("failed"), statuses.count("succeeded")) == (100, 400)
    counts = runtime.runtime.ledger.counts()
    assert counts.schedules == {"active": 400, "dead": 100}
    assert counts.jobs == {}


def test_several_jobs_of_one_schedule_settle_in_one_batch(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow", circuit_breaker={"threshold": 3, "reset_after": "30m"})
    for _ in range(4):
        runtime.step()
        runtime.wait("1m")
    runtime.settle(*runtime.claim(), outcome=FAILED)
    assert (runtime.state("a").error_count, runtime.state("a").failed_slots) == (4, 4)
    (opened,) = runtime.runtime.ledger.transitions("a", limit=10)
    assert (opened.to_state, opened.failure_count) == ("open", 3)


# -- cancelled jobs --


def test_a_job_cancelled_while_it_runs_keeps_its_worker_until_that_lets_go(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.cancel(claimed.job.job_id)
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.ended_at, job.released_at, job.node) == ("cancelled", runtime.now, None, "node-1")
    assert (runtime.state("a").outstanding, runtime.state("a").running_jobs) == (0, 1)
    assert runtime.runtime.slots.cancel_requests("node-1") == [job.job_id]
    assert runtime.runtime.slots.cancel_requests("node-2") == []
    runtime.wait("5s")
    assert runtime.settle(claimed, outcome=SUCCEEDED) == 1
    after = runtime.job(job.job_id)
    assert after == job._replace(released_at=runtime.now)
    assert runtime.state("a").running_jobs == 0
    assert runtime.runtime.slots.cancel_requests("node-1") == []
    assert runtime.settle(claimed) == 0


def test_r9_a_job_whose_work_goes_on_is_over_and_keeps_its_worker_until_that_lets_go(runtime: Tenant) -> None:
    runtime.add("g.a", every="1m", group="g", max_concurrent=1, if_running="queue")
    runtime.step()
    (claimed,) = runtime.claim()
    timed_out = Outcome("timed_out", error="too slow", is_still_running=True)
    assert runtime.settle(claimed, outcome=timed_out) == 1
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.ended_at, job.released_at, job.error) == (
        "timed_out",
        runtime.now,
        None,
        "too slow",
    )
    state = runtime.state("g.a")
    assert (state.outstanding, state.running_jobs, state.error_count) == (0, 1, 1)
    runtime.wait("1m")
    runtime.step()
    assert runtime.claim() == []  # neither the schedule nor its group has a free place
    assert runtime.settle(claimed, outcome=timed_out) == 1
    assert runtime.claim() == []
    assert runtime.settle(claimed, outcome=Outcome("timed_out")) == 1
    assert runtime.job(job.job_id) == job._replace(released_at=runtime.now)
    assert (runtime.state("g.a").running_jobs, runtime.state("g.a").error_count) == (0, 1)
    assert len(runtime.claim()) == 1
    assert runtime.settle(claimed, outcome=SUCCEEDED) == 0


def test_r9_a_node_that_dies_lets_go_of_what_went_on(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.settle(claimed, outcome=Outcome("timed_out", is_still_running=True))
    runtime.wait("10m")
    assert runtime.runtime.slots.rescue(runtime.now, node="node-2", lease=30_000_000) == 1
    job = runtime.job(claimed.job.job_id)
    assert (job.status, job.released_at) == ("timed_out", runtime.now)
    assert runtime.state("a").running_jobs == 0


def test_a_cancelled_job_counts_neither_as_success_nor_as_failure(runtime: Tenant) -> None:
    runtime.add("a", every="1h", max_retries=0, **BREAKER)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.cancel(claimed.job.job_id)
    runtime.settle(claimed, outcome=FAILED)
    state = runtime.state("a")
    assert (state.status, state.run_count, state.error_count, state.current_retry) == ("active", 0, 0, 0)
    assert runtime.runtime.ledger.breaker("a").state == "closed"


def test_a_worker_that_reports_cancelled_ends_the_job_so(runtime: Tenant) -> None:
    runtime.add("a", every="5m", interval_from="completion", max_retries=2)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait("1m")
    runtime.settle(claimed, outcome=Outcome("cancelled"))
    assert runtime.statuses("a") == ["cancelled"]
    assert clock_of(runtime.state("a").next_slot_at or 0) == "08:06:00"


# -- a deleted schedule --


@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED])
def test_a_run_that_ends_after_its_schedule_was_deleted_writes_its_job_and_nothing_else(
    runtime: Tenant, outcome: Outcome
) -> None:
    runtime.add("a", every="1h", max_retries=3, group="g", max_concurrent=1, max_outstanding=1)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.delete("a")
    events = runtime.events(None)
    assert runtime.settle(claimed, outcome=outcome) == 1
    assert [job.status for job in runtime.jobs()] == [outcome.status]
    assert runtime.events(None) == events
    assert runtime.runtime.catalogue.get("a") is None


def test_a_run_that_is_killed_with_its_schedule_is_let_go_of(runtime: Tenant) -> None:
    runtime.add("g.a", every="1h", group="g", max_concurrent=1)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.delete("g.a", cancel_running=True)
    runtime.add("g.b", every="1h", group="g", max_concurrent=1, if_running="queue")
    runtime.step()
    assert runtime.claim() == []
    runtime.settle(claimed)
    assert runtime.job(claimed.job.job_id).status == "cancelled"
    assert len(runtime.claim()) == 1


def test_the_run_of_a_deleted_schedule_does_not_touch_the_one_that_has_its_id_now(runtime: Tenant) -> None:
    runtime.add("a", every="1h", max_retries=0)
    runtime.step()
    (old,) = runtime.claim()
    runtime.delete("a")
    runtime.add("a", every="1h", max_retries=0)
    runtime.step()
    (new,) = runtime.claim()
    before = runtime.state("a")
    runtime.settle(old, outcome=FAILED)
    assert runtime.state("a") == before
    runtime.settle(new)
    assert runtime.state("a").run_count == 1


# -- counters, retries, repeats --


def test_a_success_moves_what_the_table_says(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    fired_at = runtime.now
    (claimed,) = runtime.claim()
    runtime.wait("10s")
    runtime.settle(claimed)
    state = runtime.state("a")
    assert (state.last_fired_at, state.last_run_at) == (fired_at, fired_at)
    assert (state.last_completed_at, state.last_success_at) == (runtime.now, runtime.now)
    assert state.last_success_job_id == claimed.job.job_id
    assert (state.run_count, state.current_repeat, state.error_count, state.fire_count) == (1, 1, 0, 1)
    assert (state.outstanding, state.running_jobs) == (0, 0)


def test_a_failure_moves_what_the_table_says_and_a_success_keeps_the_error(runtime: Tenant) -> None:
    runtime.add("a", every="1m")
    runtime.step()
    runtime.run(FAILED)
    state = runtime.state("a")
    assert (state.error_count, state.current_retry, state.last_error) == (1, 0, "no luck")
    assert state.failed_slots == 1
    assert (state.run_count, state.last_success_at, state.last_completed_at) == (0, None, runtime.now)
    runtime.wait_and_step("1m")
    runtime.run()
    state = runtime.state("a")
    assert (state.error_count, state.failed_slots, state.last_error) == (1, 0, "no luck")


def test_manual_jobs_move_no_counter(runtime: Tenant) -> None:
    runtime.add("a", every="1h", first_run="after_interval", max_retries=0)
    before = runtime.state("a")
    for _ in range(2):
        runtime.trigger("a")
        runtime.run(FAILED)
    assert runtime.state("a") == before._replace(fire_count=2)


@pytest.mark.parametrize(("rule", "status", "counted"), [("continue", "active", 0), ("stop", "dead", 3)])
def test_a_failure_is_followed_by_a_retry_of_the_same_slot_until_none_is_left(
    runtime: Tenant, rule: str, status: str, counted: int
) -> None:
    runtime.add("a", every="24h", max_retries=2, retry_delay="60s", on_exhausted=rule)
    runtime.step()
    pauses = []
    for _ in range(2):
        runtime.run(FAILED)
        retry = runtime.jobs("a")[-1]
        assert retry.not_before is not None
        pauses.append((retry.not_before - runtime.now) // 1_000_000)
        assert (runtime.state("a").outstanding, runtime.state("a").retries_waiting) == (1, 1)
        runtime.wait(pauses[-1])
    assert pauses == [60, 120]
    uid = runtime.state("a").uid
    assert [job.job_id for job in runtime.jobs("a")] == [f"sched-{uid}-n1-rc{number}" for number in range(3)]
    assert {job.slot_at for job in runtime.jobs("a")} == {runtime.jobs("a")[0].slot_at}
    runtime.run(FAILED)
    state = runtime.state("a")
    assert (state.status, state.error_count) == (status, 3)
    assert (state.current_retry, state.failed_slots) == (counted, 1)
    assert (state.next_slot_at is None) is (status == "dead")


def test_a_final_failure_is_not_repeated(runtime: Tenant) -> None:
    runtime.add("a", every="24h", max_retries=2, on_exhausted="stop")
    runtime.step()
    runtime.run(Outcome("failed", is_final=True))
    assert (runtime.statuses("a"), runtime.state("a").current_retry) == (["failed"], 1)


def test_a_schedule_that_dies_takes_its_queued_jobs_with_it_and_leaves_the_manual_ones(
    runtime: Tenant,
) -> None:
    runtime.add("a", every="1m", if_running="queue", max_retries=0, on_exhausted="stop")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait_and_step("1m")
    runtime.trigger("a")
    runtime.settle(claimed, outcome=FAILED)
    state = runtime.state("a")
    assert (state.status, state.next_run_at, state.outstanding) == ("dead", None, 1)
    assert [(job.status, job.reason) for job in runtime.jobs("a")] == [
        ("failed", None),
        ("cancelled", "dead"),
        ("queued", None),
    ]
    assert [one.job.origin for one in runtime.claim()] == ["manual"]


def test_total_repeats_ends_the_schedule_and_what_is_queued(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue", total_repeats=2)
    for _ in range(4):
        runtime.step()
        runtime.wait("1m")
    while runtime.run():
        pass
    assert [(job.status, job.reason) for job in runtime.jobs("a")] == [
        ("succeeded", None),
        ("succeeded", None),
        ("cancelled", "done"),
        ("cancelled", "done"),
    ]
    assert (runtime.state("a").status, runtime.state("a").current_repeat) == ("done", 2)


def test_the_end_of_a_run_gives_a_chain_its_next_slot(runtime: Tenant) -> None:
    runtime.add("a", every="5m", interval_from="completion")
    runtime.step()
    assert (runtime.state("a").next_slot_at, runtime.state("a").next_run_at) == (None, None)
    (claimed,) = runtime.claim()
    runtime.wait("10m")
    runtime.settle(claimed)
    assert clock_of(runtime.state("a").next_run_at or 0) == "08:15:00"


# -- limits --


def test_places_are_given_back_to_the_keys_that_the_jobs_were_made_with(runtime: Tenant) -> None:
    fields: dict[str, Any] = {"every": "1m", "if_running": "queue", "max_concurrent": 3}
    fields |= {"max_retries": 0, "on_exhausted": "stop"}
    runtime.add("a", group="old", **fields)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait_and_step("1m")
    runtime.edit("a", group="new", **fields)
    runtime.wait_and_step("1m")
    runtime.settle(claimed, outcome=FAILED)  # it becomes dead, and one job of each group is cancelled with it
    assert runtime.statuses("a") == ["failed", "cancelled", "cancelled"]


def test_freed_places_release_the_oldest_held_slots_and_no_more(runtime: Tenant) -> None:
    runtime.add("withings.first", every="24h", **POLL)
    runtime.step()
    (running,) = runtime.claim()
    for name in ("b", "c", "a"):
        runtime.wait("1s")
        runtime.add(f"withings.{name}", every="24h", **POLL)
        runtime.step()
    assert runtime.runtime.ledger.counts().held == 3
    order = []
    for _ in range(3):
        runtime.settle(running)
        runtime.step()
        assert runtime.tick().schedules == 0
        (running,) = runtime.claim()
        order.append(running.job.schedule_id)
    assert order == ["withings.b", "withings.c", "withings.a"]
    assert runtime.runtime.ledger.counts().held == 0


def test_a_retry_that_waits_frees_its_place(runtime: Tenant) -> None:
    runtime.add("withings.a", every="24h", max_retries=3, retry_delay="1h", **POLL)
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.add("withings.b", every="24h", **POLL)
    runtime.step()
    runtime.settle(claimed, outcome=FAILED)
    runtime.step()
    assert runtime.statuses("withings.b") == ["queued"]


# -- breakers --


def test_a_breaker_that_opens_takes_the_queued_catch_up_jobs_of_its_key_with_it(runtime: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    fields: dict[str, Any] = {"every": "10m", "first_run": "after_interval", **poll}
    runtime.add("withings.behind", catch_up="run_all", max_outstanding=9, max_concurrent=9, **fields)
    runtime.wait("32m")
    runtime.step()  # 08:10 and 08:20 are caught up, 08:30 is live
    runtime.add("withings.failing", every="24h", **poll)
    runtime.step()
    (failing,) = [one for one in runtime.claim() if one.job.schedule_id == "withings.failing"]
    runtime.settle(failing, outcome=FAILED)
    found = [(job.origin, job.status, job.reason) for job in runtime.jobs("withings.behind")]
    assert found == [
        ("catch_up", "running", None),
        ("catch_up", "cancelled", "circuit_open"),
        ("schedule", "queued", None),
    ]
    assert runtime.runtime.ledger.breaker("withings:poll").state == "open"


def test_a_job_behind_cancelled_catch_up_jobs_is_ready(runtime: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    runtime.add("withings.failing", every="24h", **poll)
    runtime.step()
    (failing,) = runtime.claim()
    runtime.add("withings.behind", every="10m", first_run="after_interval", catch_up="run_all", **poll)
    runtime.wait("32m")
    runtime.step()
    runtime.settle(failing, outcome=FAILED)
    assert [(one.job.origin, clock_of(one.job.slot_at)) for one in runtime.claim()] == [
        ("schedule", "08:30:00")
    ]


def test_a_chain_goes_on_when_its_catch_up_job_is_cancelled_by_the_breaker(runtime: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    runtime.add("withings.failing", every="24h", **poll)
    runtime.step()
    (failing,) = runtime.claim()
    runtime.add("withings.chain", every="10m", interval_from="completion", first_run="after_interval", **poll)
    runtime.wait("32m")
    runtime.step()
    assert [job.origin for job in runtime.jobs("withings.chain")] == ["catch_up"]
    runtime.settle(failing, outcome=FAILED)
    assert runtime.statuses("withings.chain") == ["cancelled"]
    assert clock_of(runtime.state("withings.chain").next_slot_at or 0) == "08:42:00"


def test_a_chain_goes_on_when_a_manual_job_takes_the_place_of_its_run(runtime: Tenant) -> None:
    runtime.add("a", every="10m", interval_from="completion")
    runtime.step()
    (own,) = runtime.claim()
    runtime.wait("1m")
    trigger_schedule(runtime.runtime, "a", if_running="cancel")
    runtime.settle(own)
    runtime.run()
    assert clock_of(runtime.state("a").next_slot_at or 0) == "08:11:00"


def test_a_probe_closes_the_breaker_or_opens_it_anew(runtime: Tenant) -> None:
    runtime.add("a", every="10m", **BREAKER)
    for outcome in (FAILED, FAILED, SUCCEEDED):
        runtime.step()
        runtime.run(outcome)
        if outcome is FAILED:
            for _ in range(3):
                runtime.wait_and_step("10m")
    moves = [(t.from_state, t.to_state, t.reason) for t in runtime.runtime.ledger.transitions("a", limit=10)]
    assert moves[::-1] == [
        ("closed", "open", "failure_threshold"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "open", "probe_failed"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "closed", "success"),
    ]
    assert runtime.reasons("a") == ["circuit_open"] * 4


def test_a_deleted_probe_does_not_shut_the_key_for_ever(runtime: Tenant) -> None:
    poll: dict[str, Any] = {"group": "withings", "command": "poll", **BREAKER}
    runtime.add("withings.a", every="10m", **poll)
    runtime.step()
    runtime.run(FAILED)
    runtime.wait_and_step("30m")
    (probe,) = runtime.claim()
    assert runtime.runtime.ledger.breaker("withings:poll").probe_job_id == probe.job.job_id
    runtime.delete("withings.a")
    runtime.settle(probe)
    assert runtime.runtime.ledger.breaker("withings:poll").state == "closed"


def test_whatever_a_run_prints_it_is_settled(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    runtime.run(Outcome("failed", error="a\0b\ud800c", result="\0"))
    (job,) = runtime.jobs("a")
    assert (job.status, job.error, job.result) == ("failed", "a\ufffdb?c", "\ufffd")
    assert runtime.state("a").last_error == "a\ufffdb?c"
