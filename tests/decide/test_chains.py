"""Completion chains: the next slot does not exist until the last one is over (T3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from everwhen.decide.settle import cancel_catch_up
from everwhen.decide.tick import CHAIN_AT_MOST, decide
from everwhen.model.instants import DAY, MINUTE, SECOND
from everwhen.model.limits import Limit, Shared
from everwhen.model.outcome import Outcome
from everwhen.timetable.jitter import jitter_offset_ms
from tests.decide.builders import (
    FAILED,
    a_breaker_rule,
    a_capacity,
    a_chain,
    a_job,
    a_plan,
    a_schedule,
    at,
    cancelled,
    fired,
    misses,
    quiet_hours,
    skips,
    span,
    state_of,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")


def a_world(**fields: Any) -> World:
    world = World(NINE)
    world.add(a_chain(**{"every": "5m", "anchor_at": NINE, "next_slot_at": NINE, **fields}))
    return world


def take(world: World, minutes: int, outcome: Outcome | None = None) -> None:
    """The next run takes so long."""
    job = world.start()
    world.now += minutes * MINUTE
    world.finish(job, outcome or Outcome("succeeded"))


def test_a_fired_slot_leaves_a_chain_without_a_next_one() -> None:
    world = a_world()
    world.tick()
    assert (world.state().status, world.state().next_slot_at) == ("active", None)


def test_a_ten_minute_run_every_five_minutes_starts_every_fifteen() -> None:
    world = a_world()
    for _ in range(3):
        world.go_to(world.state().next_run_at or 0)
        take(world, 10)
    assert [job.slot_at for job in world.jobs.values()] == [NINE, at("09:15"), at("09:30")]


@pytest.mark.parametrize("status", ["succeeded", "failed", "timed_out", "lost", "cancelled"])
def test_the_end_counts_whatever_the_outcome(status: Any) -> None:
    world = a_world()
    world.tick()
    take(world, 2, Outcome(status))
    assert world.state().next_slot_at == at("09:07")


def test_an_end_within_a_second_is_rounded_up() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.now += 1
    world.finish(job)
    assert world.state().next_slot_at == at("09:05:01")


def test_the_end_of_a_slot_is_the_end_of_its_last_retry() -> None:
    world = a_world(max_retries=3, retry_delay=MINUTE)
    world.tick()
    take(world, 1, FAILED)
    assert (world.state().next_slot_at, world.state().retries_waiting) == (None, 1)
    world.now += MINUTE
    take(world, 1)
    assert world.state().next_slot_at == at("09:08")


def test_a_chain_whose_retries_are_used_up_stops_with_stop_and_goes_on_with_continue() -> None:
    world = a_world(max_retries=0, on_exhausted="stop")
    world.tick()
    take(world, 1, FAILED)
    assert (world.state().status, world.state().next_slot_at) == ("dead", None)
    world = a_world(max_retries=0)
    world.tick()
    take(world, 1, FAILED)
    assert world.state().status == "active" and world.state().next_slot_at is not None


def test_a_manual_run_does_not_move_a_chain() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.jobs[job.job_id] = job._replace(origin="manual")
    world.finish(job)
    assert world.state().next_slot_at is None


def test_each_slot_is_later_than_its_predecessor_also_when_the_clock_went_back() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.now -= 30 * MINUTE
    world.finish(job)
    assert world.state().next_slot_at == NINE + SECOND


# -- skipped, missed, held --


def test_a_slot_in_quiet_hours_is_skipped_and_the_next_counts_from_its_due_at() -> None:
    """Case 15."""
    world = a_world(quiet=quiet_hours("08:00-09:12"))
    world.go_to(at("09:10"))
    assert skips(world.events) == [(at(clock), "quiet_hours") for clock in ("09:00", "09:05", "09:10")]
    assert world.state().next_slot_at == at("09:15")
    world.go_to(at("09:15"))
    assert [job.slot_at for job in world.claimable()] == [at("09:15")]


def test_at_most_one_slot_is_ever_behind_and_it_is_caught_up() -> None:
    decision = decide(a_chain("5m", next_slot_at=NINE), at("12:00"), Shared())
    assert [(job.slot_at, job.origin, job.stands_for) for job in decision.jobs] == [(NINE, "catch_up", 1)]
    assert decision.after.next_slot_at is None


def test_a_chain_that_is_a_little_late_fires_its_slot_as_scheduled() -> None:
    decision = decide(a_chain("5m", next_slot_at=NINE), at("09:02:30"), Shared())
    assert [(job.slot_at, job.origin) for job in decision.jobs] == [(NINE, "schedule")]


def test_a_missed_slot_of_a_chain_is_followed_from_its_due_at() -> None:
    decision = decide(a_chain("1h", catch_up="skip", next_slot_at=NINE), at("12:01"), Shared())
    assert misses(decision.events) == [(at(clock), "down") for clock in ("09:00", "10:00", "11:00")]
    assert fired(decision) == [at("12:00")]


def test_a_chain_far_behind_is_decided_in_portions() -> None:
    schedule = a_chain("1m", catch_up="skip", next_slot_at=NINE)
    decision = decide(schedule, NINE + 2 * DAY, Shared())
    assert decision.after.next_slot_at == NINE + CHAIN_AT_MOST * MINUTE


def test_the_missed_slots_of_a_chain_are_bounded_in_the_ledger_too() -> None:
    decision = decide(a_chain("1m", catch_up="skip", next_slot_at=NINE), at("15:00:40"), Shared())
    assert sum(event.slot_count for event in decision.events) == 361
    assert len(decision.events) <= 101


def test_close_slots_of_a_chain_skipped_in_a_row_are_gathered() -> None:
    world = a_world(every="10s", quiet=quiet_hours("08:00-10:00"))
    world.go_to(at("09:01"))
    assert len(world.events) == 1
    assert world.state().skip_count == 6


def held_chain(world: World) -> None:
    world.limits["capacity:agent"] = Limit("capacity:agent", outstanding=1, running=1)
    world.tick()


def test_a_held_slot_of_a_chain_waits_and_no_other_comes() -> None:
    world = a_world(capacity=a_capacity(1))
    held_chain(world)
    world.go_to(at("20:00"))
    assert (world.state().held_slot_at, world.state().next_slot_at) == (NINE, None)
    assert world.events == []


def test_a_held_slot_of_a_chain_fires_when_it_is_released_and_the_chain_goes_on_from_its_end() -> None:
    world = a_world(capacity=a_capacity(1))
    held_chain(world)
    world.limits.clear()
    world.now = at("09:30")
    world.add(state_of(world.schedule(), release_at=world.now))
    world.tick()
    assert world.state().next_slot_at is None
    take(world, 1)
    assert world.state().next_slot_at == at("09:36")


def test_a_held_slot_of_a_chain_that_is_skipped_is_followed_from_its_due_at() -> None:
    world = a_world(capacity=a_capacity(1), quiet=quiet_hours("09:30-10:00"))
    held_chain(world)
    world.now = at("09:30")
    world.add(state_of(world.schedule(), release_at=world.now))
    world.tick()
    assert skips(world.events) == [(NINE, "quiet_hours")]
    assert world.state().next_slot_at == at("09:05")


def test_a_deferred_slot_of_a_chain_is_held_until_the_opening_also_when_it_was_missed() -> None:
    quiet = quiet_hours("08:00-10:00", action="defer")
    for now in (NINE, at("09:30")):
        after = decide(a_chain("5m", quiet=quiet, next_slot_at=NINE), now, Shared()).after
        assert (after.held_slot_at, after.release_at, after.next_slot_at) == (NINE, at("10:00"), None)


# -- bounds --


def test_a_chain_whose_next_slot_would_reach_end_at_is_done() -> None:
    world = a_world(end_at=at("09:07"))
    world.tick()
    take(world, 2)
    assert (world.state().status, world.state().next_slot_at) == ("done", None)


def test_a_chain_paused_during_a_run_does_not_go_on_at_its_end() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.pause()
    world.finish(job)
    assert (world.state().status, world.state().next_slot_at) == ("paused", None)
    world.resume()
    assert world.state().next_slot_at == at("09:05")


def test_a_chain_resumed_during_a_run_goes_on_from_its_end() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.pause()
    world.resume()
    assert world.state().next_slot_at is None
    world.now = at("09:02")
    world.finish(job)
    assert world.state().next_slot_at == at("09:07")


def test_the_jitter_of_a_chain_knows_no_grid() -> None:
    """Its window is cut by the following slot, which lies at least an interval after the end."""
    schedule = a_chain("10m", anchor_at=NINE, jitter_ms=300_000, next_slot_at=NINE)
    world = World(NINE)
    world.add(schedule)
    world.go_to(schedule.state.next_run_at or 0)
    job = world.start()
    world.now = at("09:09:59")
    world.finish(job)
    slot_at = at("09:19:59")
    offset = jitter_offset_ms("reports", slot_at // SECOND, 300_000)
    assert (world.state().next_slot_at, world.state().next_run_at) == (slot_at, slot_at + offset * 1_000)


# -- edits --


def idle(**fields: Any) -> World:
    """A chain that ran at 09:00, ended at 09:02 and is looked at a minute later."""
    world = a_world(**fields)
    world.tick()
    take(world, 2)
    world.now = at("09:03")
    return world


def a_chain_plan(every: str = "5m", **fields: Any) -> Any:
    return a_plan(every=every, interval_from="completion", **fields)


def test_an_edit_with_nothing_in_flight_counts_anew_from_the_last_end() -> None:
    world = idle()
    world.edit(a_chain_plan("20m"))
    assert world.state().next_slot_at == at("09:22")


def test_an_edit_never_puts_the_slot_before_now() -> None:
    world = idle(every="1h")
    world.now = at("09:40:00.5")
    world.edit(a_chain_plan("5m"))
    assert world.state().next_slot_at == at("09:40:01")


def test_an_edit_with_a_run_in_flight_waits_for_its_end() -> None:
    world = a_world()
    world.tick()
    job = world.start()
    world.edit(a_chain_plan("20m"))
    assert (world.state().status, world.state().next_slot_at) == ("active", None)
    world.now = at("09:02")
    world.finish(job)
    assert world.state().next_slot_at == at("09:22")


def test_a_grid_that_becomes_a_chain_waits_for_the_last_of_its_runs() -> None:
    world = World(at("08:58"))
    world.add(a_schedule(every="1m", if_running="allow", next_slot_at=at("08:58")))
    world.tick()
    first = world.start()
    world.go_to(at("08:59"))
    second = world.start()
    world.edit(a_chain_plan("5m", if_running="allow"))
    world.now = at("09:02")
    world.finish(first)
    assert world.state().next_slot_at is None
    world.now = at("09:03")
    world.finish(second)
    assert world.state().next_slot_at == at("09:08")


def test_a_breaker_that_opens_leaves_a_chain_waiting_for_the_run_that_goes_on() -> None:
    world = World(NINE)
    rule = a_breaker_rule(threshold=1)
    schedule = a_chain("5m", breaker=rule, next_slot_at=None)
    running = a_job(schedule, 1)
    queued = a_job(schedule, 2, origin="catch_up", status="queued", slot_at=at("08:05"))
    world.add(with_jobs(schedule, running, queued))
    decision = cancel_catch_up(world.schedule(), [rule.key], NINE, Shared())
    assert cancelled(decision) == [(queued.job_id, "circuit_open")]
    assert decision.after.next_slot_at is None
    alone = cancel_catch_up(with_jobs(schedule, queued), [rule.key], NINE, Shared())
    assert alone.after.next_slot_at == at("09:05")


def test_an_edit_of_a_chain_that_never_ran_counts_from_now() -> None:
    world = World(at("08:30"))
    world.add(a_chain("5m", next_slot_at=NINE))
    world.edit(a_chain_plan("20m"))
    assert world.state().next_slot_at == at("08:50")


def test_an_edit_counts_from_the_due_at_of_a_slot_that_was_skipped() -> None:
    world = a_world(every="1h", quiet=quiet_hours("09:30-12:00"))
    world.tick()
    take(world, 2)
    world.go_to(at("10:10"))
    assert skips(world.events) == [(at("10:02"), "quiet_hours")]
    world.edit(a_chain_plan("2h", quiet=quiet_hours("09:30-12:00")))
    assert world.state().next_slot_at == at("12:02")


def test_an_edit_past_the_new_end_is_refused() -> None:
    world = idle()
    world.now = at("12:00")
    with pytest.raises(ValueError, match="end_at is already past"):
        world.edit(a_chain_plan("5m", end_at=at("11:00")))


def test_an_edit_keeps_a_chain_behind_its_new_start() -> None:
    world = idle()
    world.edit(a_chain_plan("5m", start_at=at("12:00")))
    assert (world.state().next_slot_at or 0) >= at("12:00")


def test_a_grid_becomes_a_chain_and_a_chain_a_grid() -> None:
    world = idle()
    world.edit(a_plan(every="5m"))
    assert world.state().next_slot_at == at("09:05")
    world.edit(a_chain_plan("5m"))
    assert world.state().next_slot_at == at("09:07")


def test_a_chain_that_was_a_cron_schedule_counts_from_now() -> None:
    world = World(at("08:30"))
    world.add(a_schedule(cron="0 9 * * *"))
    world.edit(a_chain_plan("20m"))
    assert world.state().next_slot_at == at("08:50")


def test_a_month_is_no_chain() -> None:
    assert not a_plan(every="monthly", interval_from="completion").definition.is_chain


def test_the_interval_of_a_chain_is_kept_over_many_runs() -> None:
    world = a_world()
    for _ in range(20):
        world.go_to(world.state().next_run_at or 0)
        take(world, 1)
    slots = [job.slot_at for job in world.jobs.values()]
    assert {later - earlier for earlier, later in pairwise(slots)} == {span("6m")}
