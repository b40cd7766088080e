"""The circuit breaker: what opens it, who probes, what closes it (R6)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide import breaker as breakers
from everwhen.decide.settle import settle
from everwhen.decide.tick import decide
from everwhen.model.instants import MINUTE
from everwhen.model.job import Origin
from everwhen.model.limits import Breaker, Limit, Shared
from everwhen.model.outcome import SUCCEEDED, Outcome, OutcomeStatus
from everwhen.model.schedule import Schedule
from tests.decide.builders import (
    FAILED,
    a_breaker_rule,
    a_guard,
    a_job,
    a_plan,
    a_schedule,
    at,
    fired,
    skips,
    types,
    with_jobs,
)
from tests.decide.world import World

KEY = "withings:poll"
NINE = at("09:00")


def guarded(uid: str = "a1b2c3d4e5f6", **fields: Any) -> Schedule:
    known = {"every": "10m", "anchor_at": NINE, "next_slot_at": NINE, "breaker": a_breaker_rule()}
    return a_schedule(uid=uid, schedule_id=uid, **{**known, **fields})


def a_world(*schedules: Schedule, breaker: Breaker | None = None) -> World:
    world = World(NINE)
    world.add(*(schedules or [guarded()]))
    if breaker is not None:
        world.breakers[KEY] = breaker
    return world


def opened(opened_at: int = NINE) -> Breaker:
    return Breaker(KEY, "open", 3, opened_at=opened_at)


def probing(world: World) -> None:
    """Let the schedule reach its probe and start it."""
    world.breakers[KEY] = opened(NINE - 30 * MINUTE)
    world.go_to(NINE)


def fail_next(world: World, times: int) -> None:
    for _ in range(times):
        world.tick()
        world.run(FAILED)
        world.now += 10 * MINUTE


def test_failures_in_a_row_open_it_at_the_threshold() -> None:
    world = a_world()
    fail_next(world, 2)
    assert world.breakers[KEY] == Breaker(KEY, "closed", 2)
    fail_next(world, 1)
    breaker = world.breakers[KEY]
    assert (breaker.state, breaker.failure_count, breaker.opened_at) == ("open", 3, at("09:20"))
    (transition,) = world.transitions
    assert (transition.from_state, transition.to_state, transition.reason, transition.failure_count) == (
        "closed",
        "open",
        "failure_threshold",
        3,
    )
    assert (transition.job_id, transition.at) == ("sched-a1b2c3d4e5f6-n3-rc0", at("09:20"))
    assert types(world.events) == ["breaker.opened", "schedule.failing"]
    assert (world.events[0].reason, world.events[0].detail) == ("failure_threshold", {"key": KEY})


@pytest.mark.parametrize("status", ["failed", "timed_out", "lost"])
def test_each_kind_of_failure_counts(status: OutcomeStatus) -> None:
    world = a_world()
    world.tick()
    world.run(Outcome(status))
    assert world.breakers[KEY].failure_count == 1


def test_a_success_starts_the_count_anew() -> None:
    world = a_world()
    fail_next(world, 2)
    world.tick()
    world.run()
    assert world.breakers[KEY] == Breaker(KEY)
    assert world.transitions == []


def test_a_success_with_nothing_counted_touches_no_row() -> None:
    schedule = guarded()
    shared = Shared()
    settle(a_job(schedule), SUCCEEDED, with_jobs(schedule, a_job(schedule)), NINE, shared)
    assert shared.touched_breakers == set()


def test_a_cancelled_attempt_does_not_count() -> None:
    world = a_world(breaker=Breaker(KEY, "closed", 2))
    world.tick()
    world.run(Outcome("cancelled"))
    assert world.breakers[KEY].failure_count == 2


@pytest.mark.parametrize("origin", ["manual", "backfill"])
def test_manual_and_backfill_jobs_do_not_count(origin: Origin) -> None:
    schedule = guarded()
    job = a_job(schedule, origin=origin)
    shared = Shared()
    settle(job, FAILED, with_jobs(schedule, job), NINE, shared)
    assert shared.breaker(KEY).failure_count == 0


@pytest.mark.parametrize("origin", ["catch_up", "retry", "webhook", "chat"])
def test_all_other_origins_count(origin: Origin) -> None:
    schedule = guarded()
    job = a_job(schedule, origin=origin)
    shared = Shared()
    settle(job, FAILED, with_jobs(schedule, job), NINE, shared)
    assert shared.breaker(KEY).failure_count == 1


def test_schedules_of_one_command_share_it() -> None:
    world = a_world(guarded("a"), guarded("b"), breaker=Breaker(KEY, "closed", 1))
    world.tick()
    world.run(FAILED)
    world.run(FAILED)
    world.go_to(at("09:10"))
    assert skips(world.events) == [(at("09:10"), "circuit_open")] * 2


def test_while_it_is_open_slots_are_skipped_until_the_cooldown_is_over() -> None:
    world = a_world(breaker=opened(NINE))
    world.go_to(at("09:29:59"))
    assert skips(world.events) == [(at(clock), "circuit_open") for clock in ("09:00", "09:10", "09:20")]
    world.go_to(at("09:30"))
    (job,) = world.claimable()
    assert job.is_probe
    assert world.breakers[KEY] == Breaker(KEY, "half_open", 3, NINE, job.job_id)
    assert world.transitions[-1].reason == "cooldown_elapsed"
    assert types(world.events)[-1] == "breaker.half_opened"


def test_until_the_probe_settles_other_slots_are_skipped() -> None:
    world = a_world(guarded("a"), guarded("b", next_slot_at=NINE + 1_000_000))
    probing(world)
    world.go_to(at("09:00:01"))
    assert skips(world.events) == [(at("09:00:01"), "circuit_open")]
    assert [job.uid for job in world.jobs.values()] == ["a"]


def test_in_one_evaluation_the_first_that_reaches_fire_is_the_probe() -> None:
    world = a_world(
        guarded("a", guard=a_guard(1)), guarded("b"), guarded("c"), breaker=opened(NINE - 30 * MINUTE)
    )
    world.limits["guard:withings:poll"] = Limit("guard:withings:poll", outstanding=1)
    world.tick()
    assert world.state("a").held_reason == "outstanding_limit"
    assert [(job.uid, job.is_probe) for job in world.jobs.values()] == [("b", True)]
    assert skips(world.events) == [(NINE, "circuit_open")]


def test_a_probe_that_succeeds_closes_it() -> None:
    world = a_world()
    probing(world)
    world.run()
    assert world.breakers[KEY] == Breaker(KEY)
    assert world.transitions[-1].reason == "success"
    assert types(world.events)[-1] == "breaker.closed"
    world.go_to(at("09:10"))
    assert len(world.jobs) == 2


def test_a_probe_that_fails_opens_it_anew() -> None:
    world = a_world()
    probing(world)
    probe = world.start()
    world.now = at("09:05")
    world.finish(probe, FAILED)
    assert world.breakers[KEY] == Breaker(KEY, "open", 4, at("09:05"))
    assert world.transitions[-1].reason == "probe_failed"
    assert types(world.events)[-1] == "breaker.opened"


def test_a_probe_that_is_cancelled_leaves_the_old_opening_so_that_the_next_slot_probes() -> None:
    world = a_world()
    probing(world)
    world.run(Outcome("cancelled"))
    assert world.breakers[KEY] == Breaker(KEY, "open", 3, NINE - 30 * MINUTE)
    assert world.transitions[-1].reason == "probe_cancelled"
    world.go_to(at("09:10"))
    assert [job.is_probe for job in world.claimable()] == [True]


def test_a_queued_probe_that_a_pause_cancels_opens_it_again_and_that_is_an_event() -> None:
    world = a_world()
    probing(world)
    world.pause()
    assert world.breakers[KEY] == Breaker(KEY, "open", 3, NINE - 30 * MINUTE)
    assert "breaker.opened" in types(world.events)


def test_while_it_is_not_closed_only_the_probe_moves_it() -> None:
    world = a_world(guarded(if_running="allow"))
    world.tick()
    early = world.start()
    world.breakers[KEY] = opened(NINE - 30 * MINUTE)
    world.finish(early)
    assert world.breakers[KEY] == opened(NINE - 30 * MINUTE)
    assert world.transitions == []


@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED])
def test_while_it_is_half_open_the_end_of_another_job_moves_nothing(outcome: Outcome) -> None:
    world = a_world(guarded(if_running="allow"))
    world.tick()
    early = world.start()
    half_open = Breaker(KEY, "half_open", 3, opened_at=NINE - 30 * MINUTE, probe_job_id="another")
    world.breakers[KEY] = half_open
    world.finish(early, outcome)
    assert (world.breakers[KEY], world.transitions) == (half_open, [])


def test_a_probe_whose_schedule_was_deleted_still_moves_it() -> None:
    """Otherwise it would stay half-open, and the other schedules of the key skipped, for ever."""
    world = a_world(guarded("a"), guarded("b", next_slot_at=at("09:10")))
    probing(world)
    probe = world.start()
    world.delete("a")
    world.finish(probe)
    world.go_to(at("09:10"))
    assert world.breakers[KEY].state == "closed"
    assert [job.uid for job in world.claimable()] == ["b"]


def test_a_probe_whose_schedule_was_edited_off_the_breaker_still_moves_it() -> None:
    world = a_world()
    probing(world)
    probe = world.start()
    world.edit(a_plan("a1b2c3d4e5f6", every="10m"))
    world.finish(probe)
    assert world.breakers[KEY].state == "closed"


def test_a_job_counts_for_the_breaker_that_it_was_made_under() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.edit(a_plan("a1b2c3d4e5f6", every="10m", breaker=a_breaker_rule(key="other")))
    world.finish(job, FAILED)
    assert world.breakers[KEY].failure_count == 1


def test_an_opening_cancels_the_queued_catch_up_jobs_of_its_key_and_no_others() -> None:
    rule = a_breaker_rule(threshold=1)
    world = a_world(
        guarded("a", catch_up="run_all", breaker=rule),
        guarded("b", catch_up="run_all", breaker=rule),
        guarded("c", catch_up="run_all", breaker=a_breaker_rule(key="other")),
    )
    world.jump_to(at("09:15:01"))
    world.run(FAILED)
    ends = [(job.uid, job.status, job.reason) for job in world.jobs.values()]
    assert ends == [
        ("a", "failed", None),
        ("a", "cancelled", "circuit_open"),
        ("b", "cancelled", "circuit_open"),
        ("b", "cancelled", "circuit_open"),
        ("c", "queued", None),
        ("c", "queued", None),
    ]
    assert [world.state(uid).outstanding for uid in "abc"] == [0, 0, 2]


def test_a_reset_closes_it() -> None:
    shared = Shared(breakers={KEY: opened()})
    assert breakers.reset(shared, KEY, at("09:05"))
    assert shared.breaker(KEY) == Breaker(KEY)
    (transition,) = shared.transitions
    assert (transition.from_state, transition.reason, transition.job_id) == ("open", "manual_reset", None)


def test_a_reset_forgets_the_failures_of_a_closed_one() -> None:
    shared = Shared(breakers={KEY: Breaker(KEY, "closed", 2)})
    assert breakers.reset(shared, KEY, NINE)
    assert shared.breaker(KEY).failure_count == 0


def test_a_reset_of_a_closed_one_changes_nothing() -> None:
    shared = Shared()
    assert not breakers.reset(shared, KEY, NINE)
    assert shared.transitions == []


def test_a_result_of_the_probe_after_a_reset_counts_like_any_other() -> None:
    world = a_world()
    probing(world)
    probe = world.start()
    shared = Shared(breakers=dict(world.breakers))
    breakers.reset(shared, KEY, NINE)
    world.breakers.update(shared.breakers)
    world.finish(probe, FAILED)
    assert world.breakers[KEY] == Breaker(KEY, "closed", 1)


def test_without_a_rule_the_gate_is_open() -> None:
    assert breakers.gate(Shared(breakers={KEY: opened()}), None, NINE) == "pass"


def test_another_key_is_another_breaker() -> None:
    schedule = guarded(breaker=a_breaker_rule(key="withings:sync"))
    assert fired(decide(schedule, NINE, Shared(breakers={KEY: opened()}))) == [NINE]


def test_two_outcomes_settled_in_one_commit_record_their_own_transition_only() -> None:
    schedule = guarded(breaker=a_breaker_rule(threshold=1))
    job, other = a_job(schedule, 1), a_job(schedule, 2)
    shared = Shared()
    first = settle(job, FAILED, with_jobs(schedule, job, other), NINE, shared)
    assert first.decision is not None
    row = Schedule(first.decision.after, schedule.plan, [other])
    second = settle(other, FAILED, row, NINE, shared)
    assert second.decision is not None
    assert types(first.decision.events) == ["breaker.opened"]
    assert types(second.decision.events) == []
