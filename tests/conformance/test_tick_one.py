"""A tick of one schedule: the ordinary decision, restricted to one uid (E1, E2)."""

from __future__ import annotations

from everwhen.store.tick import TickReport
from tests.conformance.tenant import Tenant


def tick_one(runtime: Tenant, schedule_id: str) -> TickReport:
    return runtime.runtime.slots.tick_one(runtime.now, runtime.state(schedule_id).uid)


def test_it_decides_its_schedule_and_no_other(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.add("b", every="1h")
    report = tick_one(runtime, "a")
    assert (report.schedules, report.fired, report.more) == (1, 1, False)
    assert [job.schedule_id for job in runtime.jobs()] == ["a"]
    assert runtime.step() == 1


def test_a_slot_is_decided_once(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    assert [tick_one(runtime, "a").fired for _ in range(3)] == [1, 0, 0]
    assert runtime.step() == 0


def test_what_is_not_due_not_active_or_not_there_is_left_alone(runtime: Tenant) -> None:
    runtime.add("later", every="1h", first_run="after_interval")
    runtime.add("paused", every="1h", enabled=False)
    assert tick_one(runtime, "later") == TickReport()
    assert tick_one(runtime, "paused") == TickReport()
    assert runtime.runtime.slots.tick_one(runtime.now, "nobody") == TickReport()


def test_nothing_is_decided_while_the_system_is_paused(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.pause_system()
    assert tick_one(runtime, "a") == TickReport()


def test_a_run_still_going_skips_the_slot_with_its_reason(runtime: Tenant) -> None:
    runtime.add("a", every="60s")
    tick_one(runtime, "a")
    claimed = runtime.claim()
    runtime.wait("60s")
    assert tick_one(runtime, "a").fired == 0
    assert runtime.reasons("a") == ["already_running"]
    runtime.settle(*claimed)


def test_slots_further_back_are_caught_up_with_as_by_any_tick(runtime: Tenant) -> None:
    runtime.add("a", every="60s", catch_up="run_once")
    runtime.wait("1h")
    report = tick_one(runtime, "a")
    assert (report.fired, report.more) == (1, False)
    (job,) = runtime.jobs()
    assert (job.origin, job.status) == ("schedule", "queued")
    assert [event.slot_count for event in runtime.events("a", "schedule.caught_up")] == [60]


def test_a_held_slot_that_was_released_is_decided_again(runtime: Tenant) -> None:
    runtime.add("first", every="24h", group="g", max_concurrent=1)
    runtime.add("second", every="24h", group="g", max_concurrent=1)
    tick_one(runtime, "first")
    tick_one(runtime, "second")
    assert runtime.state("second").held_reason == "at_capacity"
    assert tick_one(runtime, "second") == TickReport()
    runtime.settle(*runtime.claim())
    assert tick_one(runtime, "second").fired == 1
