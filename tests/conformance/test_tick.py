"""The tick: which rows it takes, in what order, and that all of it is one commit (E1, E2, E6–E8, L5)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import StoreError
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.job import NewJob, job_id
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule
from everwhen.store.tick import TickReport
from tests.conformance.tenant import Tenant, at

POLL: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 1}


def add_one_a_second(runtime: Tenant, *names: str, **fields: Any) -> None:
    """Add schedules whose first slots are a second apart, in this order."""
    for name in names:
        runtime.add(name, every="24h", **fields)
        runtime.wait("1s")


# -- which rows --


def test_a_tick_takes_what_is_due_and_nothing_else(runtime: Tenant) -> None:
    runtime.add("due", every="1h")
    runtime.add("later", every="1h", first_run="after_interval")
    runtime.add("paused", every="1h", enabled=False)
    runtime.add("asked", type="webhook")
    report = runtime.tick()
    assert (report.schedules, report.fired, report.more) == (1, 1, False)
    assert [job.schedule_id for job in runtime.jobs()] == ["due"]


def test_a_tick_with_nothing_due_does_nothing(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    assert runtime.step() == 1
    assert runtime.tick() == TickReport()
    assert runtime.tick(behind=True) == TickReport()


@pytest.mark.parametrize(("seconds", "is_behind"), [(9, False), (10, True)])
def test_the_lanes_part_ten_check_intervals_ago(runtime: Tenant, seconds: int, is_behind: bool) -> None:
    runtime.add("a", every="1h")
    runtime.wait(seconds)
    assert runtime.tick(behind=not is_behind) == TickReport()
    assert runtime.tick(behind=is_behind).fired == 1


def test_a_row_far_behind_never_delays_one_that_came_due_of_late(runtime: Tenant) -> None:
    add_one_a_second(runtime, "a", "b", "c")
    runtime.wait("1m")
    runtime.add("live", every="1h")
    report = runtime.tick(limit=1)
    assert (report.schedules, report.fired) == (1, 1)
    assert [job.schedule_id for job in runtime.jobs()] == ["live"]


@pytest.mark.parametrize("behind", [False, True])
def test_rows_are_taken_by_due_at_a_portion_at_a_time(runtime: Tenant, behind: bool) -> None:
    add_one_a_second(runtime, "c", "a", "b")
    runtime.wait("30s" if behind else "1s")
    reports = [runtime.tick(limit=2, behind=behind) for _ in range(3)]
    assert [(report.schedules, report.more) for report in reports] == [(2, True), (1, False), (0, False)]
    assert [job.schedule_id for job in runtime.jobs()] == ["c", "a", "b"]


def test_the_due_at_of_a_row_counts_and_not_its_slot(runtime: Tenant) -> None:
    runtime.add("jittered", every="1h", jitter="5m")
    due_at = runtime.state("jittered").next_run_at
    assert due_at is not None and due_at > at("08:00:00")
    assert runtime.runtime.slots.tick(due_at - 1, limit=500, behind=False) == TickReport()
    assert runtime.runtime.slots.tick(due_at, limit=500, behind=False).fired == 1
    runtime.clock.set("2026-01-05T08:10:00Z")


# -- held slots --


def test_a_released_slot_goes_before_a_newer_one_of_its_key(runtime: Tenant) -> None:
    add_one_a_second(runtime, "withings.running", **POLL)
    runtime.step()
    claimed = runtime.claim()
    add_one_a_second(runtime, "withings.held", **POLL)
    runtime.step()
    assert runtime.state("withings.held").held_reason == "outstanding_limit"
    runtime.settle(*claimed)
    add_one_a_second(runtime, "withings.newer", **POLL)
    assert runtime.tick(limit=1).fired == 1
    assert runtime.statuses("withings.held") == ["queued"]
    runtime.step()
    assert runtime.state("withings.newer").held_reason == "outstanding_limit"


def test_a_released_slot_is_not_fired_before_it_is_due_by_a_node_whose_time_is_behind(
    runtime: Tenant,
) -> None:
    runtime.add("withings.running", every="24h", **POLL)
    runtime.step()
    claimed = runtime.claim()
    runtime.wait("10s")
    runtime.add("withings.held", every="24h", **POLL)
    runtime.step()  # by a node that has seen the step of the clock
    due_at = runtime.now
    runtime.clock.set("2026-01-05T08:00:07Z")
    runtime.settle(*claimed)  # by one that has not
    assert runtime.tick().schedules == 0
    assert runtime.state("withings.held").release_at == runtime.runtime.slots.next_wake_at() == due_at
    runtime.wait("3s")
    assert runtime.tick().fired == 1
    (job,) = runtime.jobs("withings.held")
    assert job.created_at == job.due_at == due_at


def test_the_slot_behind_a_declined_one_is_not_fired_before_it_is_due_either(runtime: Tenant) -> None:
    runtime.put_quiet_hours("02:00-03:00", "skip")
    runtime.add("withings.running", every="24h", **POLL)
    runtime.step()
    claimed = runtime.claim()
    runtime.add("withings.declined", every="24h", quiet_hours="nights", **POLL)
    runtime.step()
    runtime.wait("10s")
    runtime.add("withings.next", every="24h", **POLL)
    runtime.step()
    due_at = runtime.now
    runtime.put_quiet_hours("08:00-09:00", "skip")
    runtime.clock.set("2026-01-05T08:00:07Z")
    runtime.settle(*claimed)
    runtime.step()
    assert runtime.reasons("withings.declined") == ["quiet_hours"]
    assert runtime.state("withings.next").release_at == due_at
    runtime.wait("3s")
    assert runtime.tick().fired == 1


def test_a_held_slot_of_an_edited_schedule_is_not_fired_before_it_is_due(runtime: Tenant) -> None:
    runtime.add("withings.running", every="24h", **POLL)
    runtime.step()
    runtime.wait("10s")
    runtime.add("withings.held", every="24h", **POLL)
    runtime.step()
    due_at = runtime.now
    runtime.clock.set("2026-01-05T08:00:07Z")
    runtime.edit("withings.held", every="24h", **{**POLL, "max_outstanding": 2})
    assert runtime.tick().schedules == 0
    assert runtime.state("withings.held").release_at == due_at


def test_the_limit_of_a_tick_holds_for_released_and_due_rows_together(runtime: Tenant) -> None:
    keys: list[dict[str, Any]] = [{"group": f"g{number}", "max_concurrent": 1} for number in range(3)]
    for number, key in enumerate(keys):
        runtime.add(f"g{number}.running", every="24h", **key)
    runtime.step()
    claimed = runtime.claim()
    for number, key in enumerate(keys):
        runtime.add(f"g{number}.held", every="24h", **key)
    runtime.step()
    runtime.settle(*claimed)
    for number in range(3):
        runtime.add(f"due{number}", every="24h")
    first = runtime.tick(limit=2)
    assert (first.schedules, first.more) == (2, True)
    assert {job.schedule_id for job in runtime.jobs() if job.status == "queued"} <= {
        f"g{n}.held" for n in range(3)
    }
    runtime.step()
    assert sum(job.status == "queued" for job in runtime.jobs()) == 6


def test_a_slot_that_is_due_with_a_released_one_supersedes_it(runtime: Tenant) -> None:
    runtime.add("withings.running", every="24h", **POLL)
    runtime.step()
    claimed = runtime.claim()
    runtime.add("withings.minutely", every="1m", **POLL)
    runtime.step()
    runtime.wait("1m")
    runtime.settle(*claimed)
    report = runtime.tick()
    assert (report.schedules, report.fired) == (1, 1)
    assert runtime.slots("withings.minutely") == ["08:01:00"]
    (skipped,) = runtime.events("withings.minutely", "schedule.skipped")
    assert (skipped.reason, skipped.slot_at, skipped.detail) == (
        "superseded",
        at("08:00:00"),
        {"held": "outstanding_limit", "held_at": at("08:00:00")},
    )


def test_a_released_slot_that_does_not_fire_leaves_its_place_to_the_next(runtime: Tenant) -> None:
    runtime.add("withings.running", every="24h", **POLL)
    runtime.step()
    claimed = runtime.claim()
    runtime.clock.set("2026-01-05T08:59:59Z")
    runtime.add("withings.closing", every="24h", only_between="08:00-09:00", **POLL)
    runtime.add("withings.waiting", every="24h", **POLL)
    runtime.step()
    runtime.wait("1s")
    runtime.settle(*claimed)
    runtime.step()
    runtime.step()
    assert runtime.reasons("withings.closing") == ["outside_window"]
    assert runtime.statuses("withings.waiting") == ["queued"]


def test_held_slots_behind_jobs_that_wait_in_the_queue_are_not_asked_in_vain(runtime: Tenant) -> None:
    runtime.add_many(["g.q0", "g.q1", "g.q2"], every="24h", group="g", max_concurrent=1, if_running="queue")
    runtime.step()
    runtime.wait("1s")
    runtime.add_many(["g.s0", "g.s1", "g.s2"], every="24h", group="g", max_concurrent=1)
    runtime.step()
    for _ in range(2):
        assert len(runtime.run()) == 1
        assert runtime.tick().schedules == 0  # there is no place yet
    assert len(runtime.run()) == 1
    assert (runtime.tick().fired, runtime.tick().schedules) == (1, 0)
    assert [runtime.state(f"g.s{n}").held_reason for n in range(3)] == [None, "at_capacity", "at_capacity"]


def test_a_held_slot_with_a_wider_limit_goes_past_those_that_still_have_to_wait(runtime: Tenant) -> None:
    runtime.add_many(["g.q0", "g.q1", "g.q2"], every="24h", group="g", max_concurrent=1, if_running="queue")
    runtime.step()
    runtime.wait("1s")
    runtime.add("g.narrow", every="24h", group="g", max_concurrent=1)
    runtime.step()
    runtime.wait("1s")
    runtime.add("g.wide", every="24h", group="g", max_concurrent=3)
    runtime.step()
    assert {runtime.state(name).held_reason for name in ("g.narrow", "g.wide")} == {"at_capacity"}
    runtime.run()
    runtime.step()  # offered to the older one first
    runtime.step()
    assert runtime.state("g.narrow").held_reason == "at_capacity"
    assert len(runtime.jobs("g.wide")) == 1


def test_a_pause_that_frees_a_place_releases_the_slot_that_waits_for_it(runtime: Tenant) -> None:
    runtime.add("withings.queued", every="24h", **POLL)
    runtime.step()
    runtime.add("withings.held", every="24h", **POLL)
    runtime.step()
    runtime.pause("withings.queued")
    runtime.step()
    assert runtime.statuses("withings.held") == ["queued"]


def test_a_deferred_slot_is_decided_at_the_opening(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    assert runtime.state("a").held_reason == "quiet_hours"
    assert runtime.runtime.slots.next_wake_at() == at("09:00:00")
    assert runtime.wait_and_step("1h") == 1
    assert runtime.slots("a") == ["08:00:00"]


# -- one commit --


def test_a_row_that_was_moved_back_cannot_fire_its_slot_again(runtime: Tenant) -> None:
    runtime.add("moved", every="1m", if_running="allow")
    runtime.step()
    after = runtime.state("moved")
    runtime.move_row("moved", next_slot_at=at("08:00:00"), next_run_at=at("08:00:00"))
    runtime.add("other", every="1m")
    before = runtime.everything()
    with pytest.raises(StoreError, match="already"):
        runtime.tick()
    assert runtime.everything() == before  # nothing of the tick is stored, the other schedule's job included
    runtime.move_row("moved", next_slot_at=after.next_slot_at, next_run_at=after.next_run_at)
    assert runtime.step() == 1
    assert (runtime.slots("moved"), runtime.slots("other")) == (["08:00:00"], ["08:00:00"])


@pytest.mark.parametrize("origin", ["schedule", "catch_up"])
def test_a_crafted_decision_cannot_fire_a_slot_again(runtime: Tenant, origin: Any) -> None:
    runtime.add("a", every="1h", if_running="allow")
    runtime.step()

    def fire_again(schedule: Schedule, _now: int, _shared: Shared) -> Decision:
        state = schedule.state
        number = state.fire_count + 1
        again = NewJob(job_id(state.uid, number, 0), number, 0, origin, at("08:00:00"), at("08:00:00"))
        after = state._replace(fire_count=number, outstanding=2)
        return Decision(state, after, schedule.plan, [again], [], [])

    before = runtime.everything()
    with pytest.raises(StoreError, match="already"):
        runtime.change("a", fire_again)
    assert runtime.everything() == before


def test_a_job_id_is_given_once(runtime: Tenant) -> None:
    runtime.add("a", every="1h", if_running="allow")
    runtime.step()

    def same_id(schedule: Schedule, now: int, _shared: Shared) -> Decision:
        state = schedule.state
        again = NewJob(job_id(state.uid, 1, 0), 1, 0, "manual", now, now)
        return Decision(state, state._replace(outstanding=2), schedule.plan, [again], [], [])

    before = runtime.everything()
    with pytest.raises(StoreError, match="already"):
        runtime.change("a", same_id)
    assert runtime.everything() == before


def test_a_schedule_whose_evaluation_raises_becomes_invalid_and_the_others_go_on(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.add("broken", every="1h", first_run="after_interval")
    runtime.add("c", every="1h")
    runtime.move_row("broken", next_slot_at=None, next_run_at=at("08:00:00"))
    assert runtime.tick().fired == 2
    assert [job.schedule_id for job in runtime.jobs()] == ["a", "c"]
    state = runtime.state("broken")
    assert (state.status, state.next_run_at) == ("invalid", None)
    assert "AssertionError" in (state.status_reason or "")


def test_a_clock_that_goes_back_fires_nothing_twice(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow")
    runtime.step()
    runtime.wait_and_step("1m")
    runtime.clock.step("-2m")
    assert runtime.step() == 0
    runtime.clock.advance("3m")
    runtime.step()
    assert runtime.slots("a") == ["08:00:00", "08:01:00", "08:02:00"]


# -- the system switch --


def test_nothing_fires_while_the_system_is_paused_and_nothing_of_the_span_after_it(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow")
    runtime.step()
    runtime.wait("30s")
    runtime.pause_system()
    assert runtime.wait_and_step("2m") == 0
    runtime.resume_system()
    assert runtime.step() == 0
    runtime.wait_and_step("30s")
    assert runtime.slots("a") == ["08:00:00", "08:03:00"]
    assert runtime.events("a", "schedule.skipped", "schedule.missed") == []


def test_a_slot_reached_before_the_system_was_paused_is_skipped_on_record(runtime: Tenant) -> None:
    runtime.add("a", every="1m")
    runtime.pause_system()
    runtime.wait("10s")
    runtime.resume_system()
    assert runtime.step() == 0
    assert runtime.reasons("a") == ["paused"]


def test_the_switch_is_thrown_once(runtime: Tenant) -> None:
    for _ in range(2):
        runtime.pause_system()
    for _ in range(2):
        runtime.resume_system()
    kinds = [event.type for event in runtime.events(None, "system.paused", "system.resumed")]
    assert kinds == ["system.paused", "system.resumed"]


# -- what a tick writes to the row --


def test_skips_in_a_row_are_gathered_and_a_firing_ends_the_row(runtime: Tenant) -> None:
    runtime.add("a", every="10s")
    runtime.step()
    (first,) = runtime.claim()
    for _ in range(3):  # 08:00:10, 20, 30: one event, and two counted on the row
        runtime.wait_and_step("10s")
    assert [event.slot_count for event in runtime.events("a", "schedule.skipped")] == [1]
    assert runtime.state("a").skip_count == 2
    runtime.settle(first)
    runtime.wait_and_step("10s")  # fires
    assert [event.slot_count for event in runtime.events("a", "schedule.skipped")] == [1, 2]
    assert (runtime.state("a").skip_reason, runtime.state("a").skip_count) == (None, 0)


def test_a_single_skip_before_a_firing_leaves_no_trace_on_the_row(runtime: Tenant) -> None:
    runtime.add("a", every="10s")
    runtime.step()
    for _ in range(2):
        (claimed,) = runtime.claim()
        runtime.wait_and_step("10s")  # skipped
        runtime.settle(claimed)
        runtime.wait_and_step("10s")  # fires
    assert [event.slot_count for event in runtime.events("a", "schedule.skipped")] == [1, 1]


def test_missed_slots_are_down_or_late_by_the_recorded_heartbeats(runtime: Tenant) -> None:
    runtime.add("a", every="10m", first_run="after_interval")
    runtime.wait("25m")  # without heartbeats: 08:10 and 08:20 are missed
    runtime.neighbour()
    runtime.wait("10m")  # 08:30 comes due while node-2 is known to be alive
    runtime.runtime.slots.heartbeat(runtime.now, node="node-2", version="test", is_scheduler=True)
    runtime.wait("3m")
    runtime.step()
    assert runtime.reasons("a", "schedule.missed") == ["down", "down", "late"]


def test_slots_that_the_clock_was_put_over_are_down_although_a_scheduler_lived(runtime: Tenant) -> None:
    runtime.add("a", every="10m", first_run="after_interval")
    before = runtime.now
    runtime.clock.step("36m")
    runtime.runtime.slots.record(
        [Event("scheduler.clock_stepped", runtime.now, detail={"from": before, "to": runtime.now})]
    )
    runtime.beat()
    runtime.step()
    assert runtime.reasons("a", "schedule.missed") == ["down"] * 3


def test_a_worker_without_a_loop_covers_no_slot(runtime: Tenant) -> None:
    runtime.add("a", every="10m", first_run="after_interval")
    runtime.runtime.slots.heartbeat(runtime.now, node="worker", version="test", is_scheduler=False)
    runtime.wait("16m")
    runtime.runtime.slots.heartbeat(runtime.now, node="worker", version="test", is_scheduler=False)
    runtime.step()
    assert runtime.reasons("a", "schedule.missed") == ["down"]


def test_a_budget_is_kept_between_ticks(runtime: Tenant) -> None:
    runtime.add("a", every="10m", if_running="allow", budgets={"a": {"fires_per_hour": 2}})
    for _ in range(7):
        runtime.step()
        runtime.wait("10m")
    assert runtime.slots("a") == ["08:00:00", "08:10:00", "09:00:00"]
    assert runtime.reasons("a") == ["budget"] * 4


def test_a_slot_that_cancels_gives_places_back_to_the_keys_they_were_taken_from(runtime: Tenant) -> None:
    runtime.add("old.a", every="1m", group="old", max_concurrent=5, if_running="cancel")
    runtime.step()
    runtime.edit("old.a", every="1m", group="new", max_concurrent=5, if_running="cancel")
    runtime.wait_and_step("1m")
    assert runtime.statuses("old.a") == ["cancelled", "queued"]
    assert runtime.jobs("old.a")[0].reason == "overlap"


def test_a_window_of_missed_slots_is_caught_up_in_the_second_lane(runtime: Tenant) -> None:
    runtime.add("all", every="10m", catch_up="run_all")
    runtime.add("once", every="10m", catch_up="run_once")
    runtime.step()
    runtime.run()
    runtime.wait("36m")
    assert runtime.tick() == TickReport()
    assert runtime.tick(behind=True).fired == 4
    assert runtime.slots("all") == ["08:00:00", "08:10:00", "08:20:00", "08:30:00"]
    assert runtime.slots("once") == ["08:00:00", "08:30:00"]
    (caught_up,) = runtime.events("once", "schedule.caught_up")
    assert (caught_up.slot_count, caught_up.job_id) == (3, runtime.jobs("once")[-1].job_id)
