"""Counts about a whole database: how it stands, and what was decided between two looks, each once."""

from __future__ import annotations

from everwhen.model.instants import SECOND
from everwhen.ports.vitals import Signs
from tests.conformance.tenant import FAILED, Tenant


def signs(house: Tenant) -> Signs:
    return house.house.vitals.signs(house.now - 60 * SECOND, most_overdue=1_000)


def test_an_empty_house_counts_nothing(house: Tenant) -> None:
    assert signs(house) == Signs({}, {}, {}, {}, 0, False)
    tally = house.house.vitals.tally(house.house.vitals.mark())
    assert (tally.slots, tally.fired) == ({}, {})


def test_schedules_jobs_and_the_switch_are_counted(house: Tenant) -> None:
    house.add("a", every="1h")
    house.add("b", every="1h")
    house.add("c", every="1h", first_run="after_interval")
    house.pause("c")
    house.step()
    house.claim(1)
    found = signs(house)
    assert (found.schedules, found.jobs) == ({"active": 2, "paused": 1}, {"queued": 1, "running": 1})
    house.house.catalogue.set_system_paused(house.now, True)
    assert signs(house).is_paused
    house.house.catalogue.set_system_paused(house.now, False)
    assert not signs(house).is_paused


def test_what_should_have_fired_long_ago_is_overdue(house: Tenant) -> None:
    for name in "abc":
        house.add(name, every="1h", first_run="after_interval")
    house.wait("1h")
    assert signs(house).overdue == 0
    house.wait("2m")
    assert signs(house).overdue == 3
    assert house.house.vitals.signs(house.now, most_overdue=2).overdue == 2
    house.step()
    assert signs(house).overdue == 0


def test_each_slot_and_each_firing_is_counted_once(house: Tenant) -> None:
    vitals = house.house.vitals
    mark = vitals.mark()
    house.add("busy", every="1m")
    house.step()
    tally = vitals.tally(mark)
    assert (tally.slots, tally.fired) == ({}, {"schedule": 1})
    for _ in range(2):  # still running
        house.wait("1m")
        house.step()
    house.trigger("busy")
    tally = vitals.tally(tally.mark)
    assert (tally.slots, tally.fired) == ({("schedule.skipped", "already_running"): 2}, {"manual": 1})
    house.beat()
    house.wait("10m")
    house.step()
    tally = vitals.tally(tally.mark)
    assert sum(tally.slots.values()) == 10 and ("schedule.missed", "down") in tally.slots
    assert vitals.tally(tally.mark)[:2] == ({}, {})


def test_a_retry_is_no_further_firing(house: Tenant) -> None:
    mark = house.house.vitals.mark()
    house.add("weak", every="1h", max_retries=3, retry_delay="1m")
    house.step()
    house.run(FAILED)
    house.wait("1m")
    house.run(FAILED)
    assert house.house.vitals.tally(mark).fired == {"schedule": 1}


def test_held_slots_are_counted_by_reason(house: Tenant) -> None:
    house.add("one", every="1h", group="agent", max_concurrent=1)
    house.add("two", every="1h", group="agent", max_concurrent=1)
    house.step()
    assert signs(house).held == {"at_capacity": 1}


def test_breakers_are_counted_by_state(house: Tenant) -> None:
    house.add("weak", every="1h", circuit_breaker={"threshold": 1, "reset_after": "30m"})
    house.step()
    house.run(FAILED)
    assert signs(house).breakers == {"open": 1}
