"""What a slot meets when jobs of its schedule, group or key are outstanding (O1–O5)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide.overlap import is_ready, line_of, overlap
from everwhen.decide.tick import decide
from everwhen.model.job import Job
from everwhen.model.limits import Limit, Shared, keys_of
from everwhen.model.policy import IfRunning
from everwhen.model.schedule import Schedule
from tests.decide.builders import (
    FAILED,
    a_breaker_rule,
    a_budget,
    a_capacity,
    a_definition,
    a_guard,
    a_job,
    a_schedule,
    a_waiting_retry,
    at,
    cancelled,
    fired,
    skips,
    span,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")


def due_at_nine(if_running: IfRunning = "skip", **fields: Any) -> Schedule:
    return a_schedule(every="1h", if_running=if_running, next_slot_at=NINE, **fields)


def a_queue(schedule: Schedule, length: int) -> list[Job]:
    return [a_job(schedule, number, status="queued") for number in range(1, length + 1)]


def test_nothing_outstanding_lets_every_slot_go() -> None:
    for if_running in ("skip", "queue", "cancel", "allow"):
        decision = decide(due_at_nine(if_running), NINE, Shared())
        assert fired(decision) == [NINE]
        assert decision.jobs[0].is_ready


def test_skip_skips_while_a_job_runs() -> None:
    schedule = due_at_nine("skip")
    decision = decide(with_jobs(schedule, a_job(schedule)), NINE, Shared())
    assert skips(decision.events) == [(NINE, "already_running")]
    assert decision.jobs == []
    assert decision.after.next_slot_at == at("10:00")


def test_skip_skips_while_a_job_is_queued_also_a_manual_one() -> None:
    schedule = due_at_nine("skip")
    queued = a_job(schedule, status="queued", origin="manual")
    assert skips(decide(with_jobs(schedule, queued), NINE, Shared()).events) == [(NINE, "already_running")]


def test_skip_says_retrying_when_all_that_is_outstanding_waits_for_a_retry() -> None:
    schedule = due_at_nine("skip")
    decision = decide(with_jobs(schedule, a_waiting_retry(schedule)), NINE, Shared())
    assert skips(decision.events) == [(NINE, "retrying")]


def test_skip_says_already_running_when_a_retry_waits_beside_a_run() -> None:
    schedule = due_at_nine("skip")
    jobs = (a_waiting_retry(schedule, 1), a_job(schedule, 2))
    assert skips(decide(with_jobs(schedule, *jobs), NINE, Shared()).events) == [(NINE, "already_running")]


def test_a_backfill_is_no_overlap() -> None:
    schedule = due_at_nine("skip")
    decision = decide(with_jobs(schedule, a_job(schedule, origin="backfill")), NINE, Shared())
    assert fired(decision) == [NINE]


def test_queue_enqueues_behind_what_runs() -> None:
    schedule = due_at_nine("queue")
    decision = decide(with_jobs(schedule, a_job(schedule)), NINE, Shared())
    assert fired(decision) == [NINE]
    assert not decision.jobs[0].is_ready
    assert decision.after.outstanding == 2


def test_a_full_queue_skips() -> None:
    schedule = due_at_nine("queue", queue_limit=2)
    jobs = [a_job(schedule, 9), *a_queue(schedule, 2)]
    assert skips(decide(with_jobs(schedule, *jobs), NINE, Shared()).events) == [(NINE, "queue_full")]


def test_a_queue_with_a_place_left_takes_the_slot_and_what_runs_takes_no_place() -> None:
    schedule = due_at_nine("queue", queue_limit=2)
    jobs = [a_job(schedule, 9), *a_queue(schedule, 1)]
    assert fired(decide(with_jobs(schedule, *jobs), NINE, Shared())) == [NINE]


def test_a_waiting_retry_takes_no_place_in_the_queue() -> None:
    schedule = due_at_nine("queue", queue_limit=1)
    decision = decide(with_jobs(schedule, a_waiting_retry(schedule)), NINE, Shared())
    assert fired(decision) == [NINE]
    assert decision.jobs[0].is_ready


def test_cancel_ends_the_own_jobs_waiting_retries_and_what_runs_then_enqueues() -> None:
    schedule = due_at_nine("cancel", guard=a_guard(2))
    jobs = (
        a_job(schedule, 1),
        a_job(schedule, 2, status="queued"),
        a_waiting_retry(schedule, 3),
        a_job(schedule, 4, origin="manual", guard_key=None),
    )
    shared = Shared({"guard:withings:poll": Limit("guard:withings:poll", outstanding=2)})
    decision = decide(with_jobs(schedule, *jobs), NINE, shared)
    assert cancelled(decision) == [(job.job_id, "overlap") for job in jobs[:3]]
    assert fired(decision) == [NINE]
    assert (decision.after.outstanding, decision.after.waiting, decision.after.retries_waiting) == (2, 0, 0)
    assert decision.after.running_jobs == 2  # what is killed keeps its worker until that lets go
    assert shared.limit("guard:withings:poll").outstanding == 1


def test_a_slot_that_does_not_fire_cancels_nothing() -> None:
    """`cancel` cancels and then enqueues; a spent budget must not turn it into a mere kill."""
    schedule = due_at_nine("cancel", budgets=(a_budget(per_hour=1),))
    shared = Shared({"budget:agent": Limit("budget:agent").fired(NINE)})
    decision = decide(with_jobs(schedule, a_job(schedule)), NINE, shared)
    assert skips(decision.events) == [(NINE, "budget")]
    assert cancelled(decision) == []
    assert decision.after.outstanding == 1


def test_after_a_cancel_the_new_job_still_waits_for_a_manual_one() -> None:
    world = World(NINE)
    schedule = due_at_nine("cancel")
    manual = a_job(schedule, origin="manual")
    world.add(with_jobs(schedule, manual))
    (decision,) = world.tick()
    assert (fired(decision), cancelled(decision)) == ([NINE], [])
    assert world.claimable() == []
    world.finish(manual)
    assert [job.slot_at for job in world.claimable()] == [NINE]


def test_allow_runs_beside_what_is_there() -> None:
    schedule = due_at_nine("allow")
    decision = decide(with_jobs(schedule, a_job(schedule)), NINE, Shared())
    assert fired(decision) == [NINE]
    assert decision.jobs[0].is_ready


def test_a_waiting_job_holds_nobody_back() -> None:
    schedule = due_at_nine("queue")
    decision = decide(with_jobs(schedule, a_waiting_retry(schedule)), NINE, Shared())
    assert decision.jobs[0].is_ready


@pytest.mark.parametrize("if_running", ["skip", "queue", "cancel", "allow"])
def test_a_job_with_a_time_to_wait_for_is_looked_at_when_that_comes(if_running: IfRunning) -> None:
    schedule = due_at_nine(if_running)
    assert is_ready(with_jobs(schedule, a_job(schedule)).state, line_of("retry", if_running), NINE)


def test_overlap_of_an_idle_schedule_is_go() -> None:
    assert overlap(due_at_nine().state, "skip", 1) == "go"


# -- guard --


def test_the_guard_holds_a_slot_while_its_key_is_full() -> None:
    schedule = due_at_nine(guard=a_guard(1))
    shared = Shared({"guard:withings:poll": Limit("guard:withings:poll", outstanding=1)})
    after = decide(schedule, NINE, shared).after
    assert (after.held_slot_at, after.held_reason, after.held_key) == (
        NINE,
        "outstanding_limit",
        "guard:withings:poll",
    )
    assert after.next_slot_at == at("10:00")


@pytest.mark.parametrize("if_running", ["queue", "cancel"])
def test_queue_and_cancel_pass_guard_and_capacity(if_running: IfRunning) -> None:
    schedule = due_at_nine(if_running, guard=a_guard(1), capacity=a_capacity(1))
    shared = Shared(
        {key: Limit(key, outstanding=5, running=1) for key in ("guard:withings:poll", "capacity:agent")}
    )
    assert fired(decide(schedule, NINE, shared)) == [NINE]


def test_two_due_schedules_of_one_command_share_the_guard_and_the_older_goes_first() -> None:
    """Case 9, as one evaluation sees it."""
    world = World(at("08:59"))
    world.add(
        a_schedule(schedule_id="b", uid="b", guard=a_guard(1), next_slot_at=at("09:00:01")),
        a_schedule(schedule_id="a", uid="a", guard=a_guard(1), next_slot_at=at("09:00:00")),
    )
    world.jump_to(at("09:00:02"))
    assert [job.uid for job in world.jobs.values()] == ["a"]
    assert world.state("b").held_reason == "outstanding_limit"
    assert skips(world.events) == []


def test_a_schedule_that_waits_for_its_retry_does_not_hold_the_other_one() -> None:
    """Case 7."""
    world = World(at("08:00"))
    waits = a_schedule(
        schedule_id="w",
        uid="w",
        every="1d",
        guard=a_guard(1),
        max_retries=5,
        retry_delay=span("24h"),
        next_slot_at=at("08:00"),
    )
    other = a_schedule(schedule_id="o", uid="o", guard=a_guard(1), next_slot_at=NINE)
    world.add(waits, other)
    world.tick()
    world.run(FAILED)
    assert world.state("w").retries_waiting == 1
    world.go_to(NINE)
    assert [job.uid for job in world.claimable()] == ["o"]


# -- capacity --


@pytest.mark.parametrize("if_running", ["skip", "allow"])
def test_a_full_group_holds_a_slot(if_running: IfRunning) -> None:
    schedule = due_at_nine(if_running, capacity=a_capacity(2))
    shared = Shared({"capacity:agent": Limit("capacity:agent", outstanding=2, running=1)})
    after = decide(schedule, NINE, shared).after
    assert (after.held_reason, after.held_key, after.release_at) == ("at_capacity", "capacity:agent", None)


def test_a_firing_takes_its_places_for_the_next_in_the_batch() -> None:
    shared = Shared()
    decide(due_at_nine(guard=a_guard(2), capacity=a_capacity(2)), NINE, shared)
    assert shared.limit("guard:withings:poll").outstanding == 1
    assert shared.limit("capacity:agent").outstanding == 1
    assert shared.touched_limits == {"guard:withings:poll", "capacity:agent"}


def test_the_guard_is_looked_at_before_the_capacity() -> None:
    schedule = due_at_nine(guard=a_guard(1), capacity=a_capacity(1))
    shared = Shared({key: Limit(key, outstanding=1) for key in ("guard:withings:poll", "capacity:agent")})
    assert decide(schedule, NINE, shared).after.held_reason == "outstanding_limit"


# -- budget --


def test_a_spent_budget_skips_and_an_hour_later_the_slot_fires() -> None:
    world = World(at("08:00"))
    world.add(a_schedule(every="30m", budgets=(a_budget(per_hour=1),), next_slot_at=NINE))
    world.go_to(NINE)
    world.run()
    world.go_to(at("09:30"))
    assert skips(world.events) == [(at("09:30"), "budget")]
    world.go_to(at("10:00"))
    assert [job.slot_at for job in world.claimable()] == [at("10:00")]


def test_a_budget_is_shared_by_its_key_within_one_evaluation() -> None:
    world = World(at("08:00"))
    world.add(
        *(a_schedule(schedule_id=x, uid=x, budgets=(a_budget(per_day=1),), next_slot_at=NINE) for x in "ab")
    )
    world.jump_to(NINE)
    assert len(world.jobs) == 1
    assert skips(world.events) == [(NINE, "budget")]


# -- what a decision needs --


def test_the_keys_to_lock_are_those_of_the_definition() -> None:
    definition = a_definition(
        guard=a_guard(), capacity=a_capacity(), breaker=a_breaker_rule(), budgets=(a_budget(1),)
    )
    assert keys_of(definition) == (
        {"guard:withings:poll", "capacity:agent", "budget:agent"},
        {"withings:poll"},
    )
    assert keys_of(a_definition()) == (set(), set())
