"""Counts over a whole database: its present state, and what was decided between two reads, each counted once."""

from __future__ import annotations

from everwhen.model.instants import SECOND
from everwhen.model.vitals import Signs
from tests.conformance.tenant import FAILED, Tenant


def signs(runtime: Tenant) -> Signs:
    return runtime.runtime.vitals.signs(runtime.now - 60 * SECOND, most_overdue=1_000)


def test_an_empty_runtime_counts_nothing(runtime: Tenant) -> None:
    assert signs(runtime) == Signs({}, {}, {}, {}, 0, False)
    tally = runtime.runtime.vitals.tally(runtime.runtime.vitals.mark())
    assert (tally.slots, tally.fired) == ({}, {})


def test_schedules_jobs_and_the_switch_are_counted(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.add("b", every="1h")
    runtime.add("c", every="1h", first_run="after_interval")
    runtime.pause("c")
    runtime.step()
    runtime.claim(1)
    found = signs(runtime)
    assert (found.schedules, found.jobs) == ({"active": 2, "paused": 1}, {"queued": 1, "running": 1})
    runtime.runtime.catalogue.set_system_paused(runtime.now, True)
    assert signs(runtime).is_paused
    runtime.runtime.catalogue.set_system_paused(runtime.now, False)
    assert not signs(runtime).is_paused


def test_what_should_have_fired_long_ago_is_overdue(runtime: Tenant) -> None:
    for name in "abc":
        runtime.add(name, every="1h", first_run="after_interval")
    runtime.wait("1h")
    assert signs(runtime).overdue == 0
    runtime.wait("2m")
    assert signs(runtime).overdue == 3
    assert runtime.runtime.vitals.signs(runtime.now, most_overdue=2).overdue == 2
    runtime.pause_system()
    assert signs(runtime).overdue == 0  # it is not meant to fire
    runtime.resume_system()
    runtime.wait_and_step("62m")
    assert signs(runtime).overdue == 0


def test_a_count_begins_with_the_skips_that_are_gathered_on_rows(runtime: Tenant) -> None:
    assert runtime.runtime.vitals.start()[1] == {}
    for name in "ab":
        runtime.add(name, every="10s")
    for _ in range(4):  # the first fires, the second is skipped at once, two are gathered
        runtime.step()
        runtime.wait("10s")
    assert runtime.runtime.vitals.start()[1] == {"already_running": 4}


def test_each_slot_and_each_firing_is_counted_once(runtime: Tenant) -> None:
    vitals = runtime.runtime.vitals
    mark = vitals.mark()
    runtime.add("busy", every="1m")
    runtime.step()
    tally = vitals.tally(mark)
    assert (tally.slots, tally.fired) == ({}, {"schedule": 1})
    for _ in range(2):  # still running
        runtime.wait("1m")
        runtime.step()
    runtime.trigger("busy")
    tally = vitals.tally(tally.mark)
    assert (tally.slots, tally.fired) == ({("schedule.skipped", "already_running"): 2}, {"manual": 1})
    runtime.beat()
    runtime.wait("10m")
    runtime.step()
    tally = vitals.tally(tally.mark)
    assert sum(tally.slots.values()) == 10 and ("schedule.missed", "down") in tally.slots
    assert vitals.tally(tally.mark)[:2] == ({}, {})


def test_a_retry_is_no_further_firing(runtime: Tenant) -> None:
    mark = runtime.runtime.vitals.mark()
    runtime.add("weak", every="1h", max_retries=3, retry_delay="1m")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("1m")
    runtime.run(FAILED)
    assert runtime.runtime.vitals.tally(mark).fired == {"schedule": 1}


def test_held_slots_are_counted_by_reason(runtime: Tenant) -> None:
    runtime.add("one", every="1h", group="agent", max_concurrent=1)
    runtime.add("two", every="1h", group="agent", max_concurrent=1)
    runtime.step()
    assert signs(runtime).held == {"at_capacity": 1}


def test_breakers_are_counted_by_state(runtime: Tenant) -> None:
    runtime.add("weak", every="1h", circuit_breaker={"threshold": 1, "reset_after": "30m"})
    runtime.step()
    runtime.run(FAILED)
    assert signs(runtime).breakers == {"open": 1}
