"""When the loops must look again: the earliest due slot or release, the earliest job that may start (E6)."""

from __future__ import annotations

from tests.conformance.tenant import FAILED, Tenant, at


def next_wake(house: Tenant) -> int | None:
    return house.house.slots.next_wake_at()


def next_ready(house: Tenant) -> int | None:
    return house.house.slots.next_ready_at()


def test_an_empty_house_has_nothing_to_wake_for(house: Tenant) -> None:
    assert (next_wake(house), next_ready(house)) == (None, None)


def test_the_scheduler_wakes_for_the_earliest_slot(house: Tenant) -> None:
    house.add("later", every="2h", first_run="after_interval")
    assert next_wake(house) == at("10:00:00")
    house.add("sooner", every="1h", first_run="after_interval")
    assert next_wake(house) == at("09:00:00")
    house.pause("sooner")
    assert next_wake(house) == at("10:00:00")
    house.delete("later")
    assert next_wake(house) is None


def test_it_wakes_for_the_due_at_and_not_for_the_slot(house: Tenant) -> None:
    house.add("a", every="1h", jitter="5m")
    state = house.state("a")
    assert next_wake(house) == state.next_run_at != state.next_slot_at


def test_it_wakes_for_the_opening_of_a_deferred_slot(house: Tenant) -> None:
    house.put_quiet_hours("07:00-09:00")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    assert next_wake(house) == at("09:00:00")


def test_a_slot_held_for_a_place_wakes_nobody_until_the_place_is_free(house: Tenant) -> None:
    agent = {"group": "g", "max_concurrent": 1}
    house.add("g.a", every="24h", **agent)  # type: ignore[arg-type]
    house.add("g.b", every="24h", **agent)  # type: ignore[arg-type]
    house.step()
    tomorrow = at("08:00:00") + 86_400_000_000
    assert next_wake(house) == tomorrow
    (claimed,) = house.claim()
    house.wait("5m")
    house.settle(claimed)
    assert next_wake(house) == house.now
    house.step()
    assert next_wake(house) == tomorrow


def test_a_paused_system_wakes_nobody(house: Tenant) -> None:
    house.add("a", every="1m")
    house.step()
    house.pause_system()
    house.wait("5m")
    assert (next_wake(house), next_ready(house)) == (None, None)
    house.resume_system()
    assert (next_wake(house), next_ready(house)) == (at("08:06:00"), at("08:00:00"))


def test_workers_wake_for_the_earliest_job_that_may_start(house: Tenant) -> None:
    house.add("a", every="24h", max_retries=1, retry_delay="5m")
    house.step()
    assert next_ready(house) == at("08:00:00")
    house.run(FAILED)
    assert next_ready(house) == at("08:05:00")
    house.wait("5m")
    house.run()
    assert next_ready(house) is None


def test_a_job_behind_another_wakes_no_worker(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    house.step()
    (claimed,) = house.claim()
    house.wait_and_step("1m")
    assert next_ready(house) is None
    house.wait("10s")
    house.settle(claimed)
    assert next_ready(house) == house.now


def test_a_job_that_waits_for_capacity_wakes_no_worker_until_there_is_some(house: Tenant) -> None:
    for name in ("g.a", "g.b"):
        house.add(name, every="24h", if_running="queue", group="g", max_concurrent=1)
    house.step()
    (claimed,) = house.claim()
    assert next_ready(house) is None
    house.settle(claimed)
    assert next_ready(house) == at("08:00:00")


def test_a_job_whose_schedule_still_runs_wakes_no_worker(house: Tenant) -> None:
    house.add("a", every="1m", if_running="cancel")
    house.step()
    (killed,) = house.claim()
    house.wait_and_step("1m")
    assert next_ready(house) is None
    house.settle(killed)
    assert next_ready(house) == at("08:01:00")


def test_a_cancelled_job_wakes_no_worker(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    house.pause("a")
    assert next_ready(house) is None
