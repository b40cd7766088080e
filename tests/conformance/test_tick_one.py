"""A tick of one schedule: the ordinary decision, restricted to one uid (E1, E2)."""

from __future__ import annotations

from everwhen.ports.slots import TickReport
from tests.conformance.tenant import Tenant


def tick_one(house: Tenant, schedule_id: str) -> TickReport:
    return house.house.slots.tick_one(house.now, house.state(schedule_id).uid)


def test_it_decides_its_schedule_and_no_other(house: Tenant) -> None:
    house.add("a", every="1h")
    house.add("b", every="1h")
    report = tick_one(house, "a")
    assert (report.schedules, report.fired, report.more) == (1, 1, False)
    assert [job.schedule_id for job in house.jobs()] == ["a"]
    assert house.step() == 1


def test_a_slot_is_decided_once(house: Tenant) -> None:
    house.add("a", every="1h")
    assert [tick_one(house, "a").fired for _ in range(3)] == [1, 0, 0]
    assert house.step() == 0


def test_what_is_not_due_not_active_or_not_there_is_left_alone(house: Tenant) -> None:
    house.add("later", every="1h", first_run="after_interval")
    house.add("paused", every="1h", enabled=False)
    assert tick_one(house, "later") == TickReport()
    assert tick_one(house, "paused") == TickReport()
    assert house.house.slots.tick_one(house.now, "nobody") == TickReport()


def test_nothing_is_decided_while_the_system_is_paused(house: Tenant) -> None:
    house.add("a", every="1h")
    house.pause_system()
    assert tick_one(house, "a") == TickReport()


def test_a_run_still_going_skips_the_slot_with_its_reason(house: Tenant) -> None:
    house.add("a", every="60s")
    tick_one(house, "a")
    claimed = house.claim()
    house.wait("60s")
    assert tick_one(house, "a").fired == 0
    assert house.reasons("a") == ["already_running"]
    house.settle(*claimed)


def test_slots_further_back_are_caught_up_with_as_by_any_tick(house: Tenant) -> None:
    house.add("a", every="60s", catch_up="run_once")
    house.wait("1h")
    report = tick_one(house, "a")
    assert (report.fired, report.more) == (1, False)
    (job,) = house.jobs()
    assert (job.origin, job.status) == ("schedule", "queued")
    assert [event.slot_count for event in house.events("a", "schedule.caught_up")] == [60]


def test_a_held_slot_that_was_released_is_decided_again(house: Tenant) -> None:
    house.add("first", every="24h", group="g", max_concurrent=1)
    house.add("second", every="24h", group="g", max_concurrent=1)
    tick_one(house, "first")
    tick_one(house, "second")
    assert house.state("second").held_reason == "at_capacity"
    assert tick_one(house, "second") == TickReport()
    house.settle(*house.claim())
    assert tick_one(house, "second").fired == 1
