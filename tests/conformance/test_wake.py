"""When the loops must run again: the earliest due slot or release, the earliest job that may start (E6)."""

from __future__ import annotations

from tests.conformance.tenant import FAILED, Tenant, at


def next_wake(runtime: Tenant) -> int | None:
    return runtime.runtime.slots.next_wake_at()


def next_ready(runtime: Tenant) -> int | None:
    return runtime.runtime.slots.next_ready_at()


def test_an_empty_runtime_has_nothing_to_wake_for(runtime: Tenant) -> None:
    assert (next_wake(runtime), next_ready(runtime)) == (None, None)


def test_the_scheduler_wakes_for_the_earliest_slot(runtime: Tenant) -> None:
    runtime.add("later", every="2h", first_run="after_interval")
    assert next_wake(runtime) == at("10:00:00")
    runtime.add("sooner", every="1h", first_run="after_interval")
    assert next_wake(runtime) == at("09:00:00")
    runtime.pause("sooner")
    assert next_wake(runtime) == at("10:00:00")
    runtime.delete("later")
    assert next_wake(runtime) is None


def test_it_wakes_for_the_due_at_and_not_for_the_slot(runtime: Tenant) -> None:
    runtime.add("a", every="1h", jitter="5m")
    state = runtime.state("a")
    assert next_wake(runtime) == state.next_run_at != state.next_slot_at


def test_it_wakes_for_the_opening_of_a_deferred_slot(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    assert next_wake(runtime) == at("09:00:00")


def test_a_slot_held_for_a_place_wakes_nobody_until_the_place_is_free(runtime: Tenant) -> None:
    agent = {"group": "g", "max_concurrent": 1}
    runtime.add("g.a", every="24h", **agent)  # type: ignore[arg-type]
    runtime.add("g.b", every="24h", **agent)  # type: ignore[arg-type]
    runtime.step()
    tomorrow = at("08:00:00") + 86_400_000_000
    assert next_wake(runtime) == tomorrow
    (claimed,) = runtime.claim()
    runtime.wait("5m")
    runtime.settle(claimed)
    assert next_wake(runtime) == runtime.now
    runtime.step()
    assert next_wake(runtime) == tomorrow


def test_a_paused_system_wakes_nobody(runtime: Tenant) -> None:
    runtime.add("a", every="1m")
    runtime.step()
    runtime.pause_system()
    runtime.wait("5m")
    assert (next_wake(runtime), next_ready(runtime)) == (None, None)
    runtime.resume_system()
    assert (next_wake(runtime), next_ready(runtime)) == (at("08:06:00"), at("08:00:00"))


def test_workers_wake_for_the_earliest_job_that_may_start(runtime: Tenant) -> None:
    runtime.add("a", every="24h", max_retries=1, retry_delay="5m")
    runtime.step()
    assert next_ready(runtime) == at("08:00:00")
    runtime.run(FAILED)
    assert next_ready(runtime) == at("08:05:00")
    runtime.wait("5m")
    runtime.run()
    assert next_ready(runtime) is None


def test_a_job_behind_another_wakes_no_worker(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.wait_and_step("1m")
    assert next_ready(runtime) is None
    runtime.wait("10s")
    runtime.settle(claimed)
    assert next_ready(runtime) == runtime.now


def test_a_job_that_waits_for_capacity_wakes_no_worker_until_there_is_some(runtime: Tenant) -> None:
    for name in ("g.a", "g.b"):
        runtime.add(name, every="24h", if_running="queue", group="g", max_concurrent=1)
    runtime.step()
    (claimed,) = runtime.claim()
    assert next_ready(runtime) is None
    runtime.settle(claimed)
    assert next_ready(runtime) == at("08:00:00")


def test_a_job_whose_schedule_still_runs_wakes_no_worker(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="cancel")
    runtime.step()
    (killed,) = runtime.claim()
    runtime.wait_and_step("1m")
    assert next_ready(runtime) is None
    runtime.settle(killed)
    assert next_ready(runtime) == at("08:01:00")


def test_a_cancelled_job_wakes_no_worker(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    runtime.pause("a")
    assert next_ready(runtime) is None
