"""The tick: which rows it takes, in what order, and that all of it is one commit (E1, E2, E6–E8, L5)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import StoreError
from everwhen.model.decision import Decision
from everwhen.model.events import Event
from everwhen.model.job import NewJob, job_id
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.ports.slots import TickReport
from tests.conformance.tenant import Tenant, at

POLL: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 1}


def add_one_a_second(house: Tenant, *names: str, **words: Any) -> None:
    """Schedules whose first slots lie a second apart, in this order."""
    for name in names:
        house.add(name, every="24h", **words)
        house.wait("1s")


# -- which rows --


def test_a_tick_takes_what_is_due_and_nothing_else(house: Tenant) -> None:
    house.add("due", every="1h")
    house.add("later", every="1h", first_run="after_interval")
    house.add("paused", every="1h", enabled=False)
    house.add("asked", type="webhook")
    report = house.tick()
    assert (report.schedules, report.fired, report.more) == (1, 1, False)
    assert [job.schedule_id for job in house.jobs()] == ["due"]


def test_a_tick_with_nothing_due_does_nothing(house: Tenant) -> None:
    house.add("a", every="1h")
    assert house.step() == 1
    assert house.tick() == TickReport()
    assert house.tick(behind=True) == TickReport()


@pytest.mark.parametrize(("seconds", "is_behind"), [(9, False), (10, True)])
def test_the_lanes_part_ten_check_intervals_ago(house: Tenant, seconds: int, is_behind: bool) -> None:
    house.add("a", every="1h")
    house.wait(seconds)
    assert house.tick(behind=not is_behind) == TickReport()
    assert house.tick(behind=is_behind).fired == 1


def test_a_row_far_behind_never_delays_one_that_came_due_of_late(house: Tenant) -> None:
    add_one_a_second(house, "a", "b", "c")
    house.wait("1m")
    house.add("live", every="1h")
    report = house.tick(limit=1)
    assert (report.schedules, report.fired) == (1, 1)
    assert [job.schedule_id for job in house.jobs()] == ["live"]


@pytest.mark.parametrize("behind", [False, True])
def test_rows_are_taken_by_due_at_a_portion_at_a_time(house: Tenant, behind: bool) -> None:
    add_one_a_second(house, "c", "a", "b")
    house.wait("30s" if behind else "1s")
    reports = [house.tick(limit=2, behind=behind) for _ in range(3)]
    assert [(report.schedules, report.more) for report in reports] == [(2, True), (1, False), (0, False)]
    assert [job.schedule_id for job in house.jobs()] == ["c", "a", "b"]


def test_the_due_at_of_a_row_counts_and_not_its_slot(house: Tenant) -> None:
    house.add("jittered", every="1h", jitter="5m")
    due_at = house.state("jittered").next_run_at
    assert due_at is not None and due_at > at("08:00:00")
    assert house.house.slots.tick(due_at - 1, limit=500, behind=False) == TickReport()
    assert house.house.slots.tick(due_at, limit=500, behind=False).fired == 1
    house.clock.set("2026-01-05T08:10:00Z")


# -- held slots --


def test_a_released_slot_goes_before_a_newer_one_of_its_key(house: Tenant) -> None:
    add_one_a_second(house, "withings.running", **POLL)
    house.step()
    claimed = house.claim()
    add_one_a_second(house, "withings.held", **POLL)
    house.step()
    assert house.state("withings.held").held_reason == "outstanding_limit"
    house.settle(*claimed)
    add_one_a_second(house, "withings.newer", **POLL)
    assert house.tick(limit=1).fired == 1
    assert house.statuses("withings.held") == ["queued"]
    house.step()
    assert house.state("withings.newer").held_reason == "outstanding_limit"


def test_the_limit_of_a_tick_holds_for_released_and_due_rows_together(house: Tenant) -> None:
    keys: list[dict[str, Any]] = [{"group": f"g{number}", "max_concurrent": 1} for number in range(3)]
    for number, key in enumerate(keys):
        house.add(f"g{number}.running", every="24h", **key)
    house.step()
    claimed = house.claim()
    for number, key in enumerate(keys):
        house.add(f"g{number}.held", every="24h", **key)
    house.step()
    house.settle(*claimed)
    for number in range(3):
        house.add(f"due{number}", every="24h")
    first = house.tick(limit=2)
    assert (first.schedules, first.more) == (2, True)
    assert {job.schedule_id for job in house.jobs() if job.status == "queued"} <= {
        f"g{n}.held" for n in range(3)
    }
    house.step()
    assert sum(job.status == "queued" for job in house.jobs()) == 6


def test_a_slot_that_is_due_with_a_released_one_supersedes_it(house: Tenant) -> None:
    house.add("withings.running", every="24h", **POLL)
    house.step()
    claimed = house.claim()
    house.add("withings.minutely", every="1m", **POLL)
    house.step()
    house.wait("1m")
    house.settle(*claimed)
    report = house.tick()
    assert (report.schedules, report.fired) == (1, 1)
    assert house.slots("withings.minutely") == ["08:01:00"]
    (skipped,) = house.events("withings.minutely", "schedule.skipped")
    assert (skipped.reason, skipped.slot_at, skipped.detail) == (
        "superseded",
        at("08:00:00"),
        {"held": "outstanding_limit"},
    )


def test_a_released_slot_that_does_not_fire_leaves_its_place_to_the_next(house: Tenant) -> None:
    house.add("withings.running", every="24h", **POLL)
    house.step()
    claimed = house.claim()
    house.clock.set("2026-01-05T08:59:59Z")
    house.add("withings.closing", every="24h", only_between="08:00-09:00", **POLL)
    house.add("withings.waiting", every="24h", **POLL)
    house.step()
    house.wait("1s")
    house.settle(*claimed)
    house.step()
    house.step()
    assert house.reasons("withings.closing") == ["outside_window"]
    assert house.statuses("withings.waiting") == ["queued"]


def test_held_slots_behind_jobs_that_wait_in_the_queue_are_not_asked_in_vain(house: Tenant) -> None:
    house.add_many(["g.q0", "g.q1", "g.q2"], every="24h", group="g", max_concurrent=1, if_running="queue")
    house.step()
    house.wait("1s")
    house.add_many(["g.s0", "g.s1", "g.s2"], every="24h", group="g", max_concurrent=1)
    house.step()
    for _ in range(2):
        assert len(house.run()) == 1
        assert house.tick().schedules == 0  # there is no place yet
    assert len(house.run()) == 1
    assert (house.tick().fired, house.tick().schedules) == (1, 0)
    assert [house.state(f"g.s{n}").held_reason for n in range(3)] == [None, "at_capacity", "at_capacity"]


def test_a_held_slot_with_a_wider_limit_goes_past_those_that_still_have_to_wait(house: Tenant) -> None:
    house.add_many(["g.q0", "g.q1", "g.q2"], every="24h", group="g", max_concurrent=1, if_running="queue")
    house.step()
    house.wait("1s")
    house.add("g.narrow", every="24h", group="g", max_concurrent=1)
    house.step()
    house.wait("1s")
    house.add("g.wide", every="24h", group="g", max_concurrent=3)
    house.step()
    assert {house.state(name).held_reason for name in ("g.narrow", "g.wide")} == {"at_capacity"}
    house.run()
    house.step()  # offered to the older one first
    house.step()
    assert house.state("g.narrow").held_reason == "at_capacity"
    assert len(house.jobs("g.wide")) == 1


def test_a_pause_that_frees_a_place_releases_the_slot_that_waits_for_it(house: Tenant) -> None:
    house.add("withings.queued", every="24h", **POLL)
    house.step()
    house.add("withings.held", every="24h", **POLL)
    house.step()
    house.pause("withings.queued")
    house.step()
    assert house.statuses("withings.held") == ["queued"]


def test_a_deferred_slot_is_decided_at_the_opening(house: Tenant) -> None:
    house.put_quiet_hours("07:00-09:00")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    assert house.state("a").held_reason == "quiet_hours"
    assert house.house.slots.next_wake_at() == at("09:00:00")
    assert house.wait_and_step("1h") == 1
    assert house.slots("a") == ["08:00:00"]


# -- one commit --


def test_a_row_that_was_moved_back_cannot_fire_its_slot_again(house: Tenant) -> None:
    house.add("moved", every="1m", if_running="allow")
    house.step()
    after = house.state("moved")
    house.move_row("moved", next_slot_at=at("08:00:00"), next_run_at=at("08:00:00"))
    house.add("other", every="1m")
    before = house.everything()
    with pytest.raises(StoreError, match="already"):
        house.tick()
    assert house.everything() == before  # nothing of the tick is there, the other schedule's job neither
    house.move_row("moved", next_slot_at=after.next_slot_at, next_run_at=after.next_run_at)
    assert house.step() == 1
    assert (house.slots("moved"), house.slots("other")) == (["08:00:00"], ["08:00:00"])


@pytest.mark.parametrize("origin", ["schedule", "catch_up"])
def test_a_crafted_decision_cannot_fire_a_slot_again(house: Tenant, origin: Any) -> None:
    house.add("a", every="1h", if_running="allow")
    house.step()

    def fire_again(schedule: Schedule, _now: int, _shared: Shared) -> Decision:
        state = schedule.state
        number = state.fire_count + 1
        again = NewJob(job_id(state.uid, number, 0), number, 0, origin, at("08:00:00"), at("08:00:00"))
        after = state._replace(fire_count=number, outstanding=2)
        return Decision(state, after, schedule.plan, [again], [], [])

    before = house.everything()
    with pytest.raises(StoreError, match="already"):
        house.change("a", fire_again)
    assert house.everything() == before


def test_a_job_id_is_given_once(house: Tenant) -> None:
    house.add("a", every="1h", if_running="allow")
    house.step()

    def same_id(schedule: Schedule, now: int, _shared: Shared) -> Decision:
        state = schedule.state
        again = NewJob(job_id(state.uid, 1, 0), 1, 0, "manual", now, now)
        return Decision(state, state._replace(outstanding=2), schedule.plan, [again], [], [])

    before = house.everything()
    with pytest.raises(StoreError, match="already"):
        house.change("a", same_id)
    assert house.everything() == before


def test_a_schedule_whose_evaluation_raises_becomes_invalid_and_the_others_go_on(house: Tenant) -> None:
    house.add("a", every="1h")
    house.add("broken", every="1h", first_run="after_interval")
    house.add("c", every="1h")
    house.move_row("broken", next_slot_at=None, next_run_at=at("08:00:00"))
    assert house.tick().fired == 2
    assert [job.schedule_id for job in house.jobs()] == ["a", "c"]
    state = house.state("broken")
    assert (state.status, state.next_run_at) == ("invalid", None)
    assert "AssertionError" in (state.status_reason or "")


def test_a_clock_that_goes_back_fires_nothing_twice(house: Tenant) -> None:
    house.add("a", every="1m", if_running="allow")
    house.step()
    house.wait_and_step("1m")
    house.clock.step("-2m")
    assert house.step() == 0
    house.clock.advance("3m")
    house.step()
    assert house.slots("a") == ["08:00:00", "08:01:00", "08:02:00"]


# -- the system switch --


def test_nothing_fires_while_the_system_is_paused_and_nothing_of_the_span_after_it(house: Tenant) -> None:
    house.add("a", every="1m", if_running="allow")
    house.step()
    house.wait("30s")
    house.pause_system()
    assert house.wait_and_step("2m") == 0
    house.resume_system()
    assert house.step() == 0
    house.wait_and_step("30s")
    assert house.slots("a") == ["08:00:00", "08:03:00"]
    assert house.events("a", "schedule.skipped", "schedule.missed") == []


def test_a_slot_reached_before_the_system_was_paused_is_skipped_on_record(house: Tenant) -> None:
    house.add("a", every="1m")
    house.pause_system()
    house.wait("10s")
    house.resume_system()
    assert house.step() == 0
    assert house.reasons("a") == ["paused"]


def test_the_switch_is_thrown_once(house: Tenant) -> None:
    for _ in range(2):
        house.pause_system()
    for _ in range(2):
        house.resume_system()
    kinds = [event.type for event in house.events(None, "system.paused", "system.resumed")]
    assert kinds == ["system.paused", "system.resumed"]


# -- what a tick leaves on the row --


def test_skips_in_a_row_are_gathered_and_a_firing_ends_the_row(house: Tenant) -> None:
    house.add("a", every="10s")
    house.step()
    (first,) = house.claim()
    for _ in range(3):  # 08:00:10, 20, 30: one event, two gathered
        house.wait_and_step("10s")
    assert [event.slot_count for event in house.events("a", "schedule.skipped")] == [1]
    assert house.state("a").skip_count == 2
    house.settle(first)
    house.wait_and_step("10s")  # fires
    assert [event.slot_count for event in house.events("a", "schedule.skipped")] == [1, 2]
    assert (house.state("a").skip_reason, house.state("a").skip_count) == (None, 0)


def test_a_single_skip_before_a_firing_leaves_no_trace_on_the_row(house: Tenant) -> None:
    house.add("a", every="10s")
    house.step()
    for _ in range(2):
        (claimed,) = house.claim()
        house.wait_and_step("10s")  # skipped
        house.settle(claimed)
        house.wait_and_step("10s")  # fires
    assert [event.slot_count for event in house.events("a", "schedule.skipped")] == [1, 1]


def test_missed_slots_are_down_or_late_by_the_recorded_heartbeats(house: Tenant) -> None:
    house.add("a", every="10m", first_run="after_interval")
    house.wait("25m")  # nobody beats: 08:10 and 08:20 are missed
    house.neighbour()
    house.wait("10m")  # 08:30 comes due while node-2 is known to live
    house.house.slots.heartbeat(house.now, node="node-2", version="test", is_scheduler=True)
    house.wait("3m")
    house.step()
    assert house.reasons("a", "schedule.missed") == ["down", "down", "late"]


def test_slots_that_the_clock_was_put_over_are_down_although_a_scheduler_lived(house: Tenant) -> None:
    house.add("a", every="10m", first_run="after_interval")
    before = house.now
    house.clock.step("36m")
    house.house.slots.record(
        [Event("scheduler.clock_stepped", house.now, detail={"from": before, "to": house.now})]
    )
    house.beat()
    house.step()
    assert house.reasons("a", "schedule.missed") == ["down"] * 3


def test_a_worker_without_a_loop_covers_no_slot(house: Tenant) -> None:
    house.add("a", every="10m", first_run="after_interval")
    house.house.slots.heartbeat(house.now, node="worker", version="test", is_scheduler=False)
    house.wait("16m")
    house.house.slots.heartbeat(house.now, node="worker", version="test", is_scheduler=False)
    house.step()
    assert house.reasons("a", "schedule.missed") == ["down"]


def test_a_budget_is_kept_between_ticks(house: Tenant) -> None:
    house.add("a", every="10m", if_running="allow", budget={"fires_per_hour": 2})
    for _ in range(7):
        house.step()
        house.wait("10m")
    assert house.slots("a") == ["08:00:00", "08:10:00", "09:00:00"]
    assert house.reasons("a") == ["budget"] * 4


def test_a_slot_that_cancels_gives_places_back_to_the_keys_they_were_taken_from(house: Tenant) -> None:
    house.add("old.a", every="1m", group="old", max_concurrent=5, if_running="cancel")
    house.step()
    house.edit("old.a", every="1m", group="new", max_concurrent=5, if_running="cancel")
    house.wait_and_step("1m")
    assert house.statuses("old.a") == ["cancelled", "queued"]
    assert house.jobs("old.a")[0].reason == "overlap"


def test_a_window_of_missed_slots_is_caught_up_in_the_second_lane(house: Tenant) -> None:
    house.add("all", every="10m", catch_up="run_all")
    house.add("once", every="10m", catch_up="run_once")
    house.step()
    house.run()
    house.wait("36m")
    assert house.tick() == TickReport()
    assert house.tick(behind=True).fired == 4
    assert house.slots("all") == ["08:00:00", "08:10:00", "08:20:00", "08:30:00"]
    assert house.slots("once") == ["08:00:00", "08:30:00"]
    (caught_up,) = house.events("once", "schedule.caught_up")
    assert (caught_up.slot_count, caught_up.job_id) == (3, house.jobs("once")[-1].job_id)
