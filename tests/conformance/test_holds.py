"""Held slots and the places that they wait for: no place stays free while a slot waits for it (E5, O3, O4).

A place that becomes free is offered to the oldest held slot of the key: its row gets `release_at`. The next evaluation
decides that slot. If it does not take the place, the place is offered to the next slot.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from everwhen.decide import status
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED, Outcome, drifted
from everwhen.operations.jobs import report_outcome
from tests.conformance.tenant import FAILED, Tenant

DAILY: dict[str, Any] = {"every": "24h", "group": "g"}
ONE: dict[str, Any] = {**DAILY, "max_concurrent": 1}
TOKEN = "a token of 256 bits"

Way = Callable[[Tenant], None]


def evaluate(runtime: Tenant) -> None:
    """Evaluate until nothing is due or released."""
    for _ in range(50):
        reports = [runtime.tick(behind=behind) for behind in (False, True)]
        if not any(report.schedules for report in reports):
            return
    raise AssertionError("an evaluation finds the same schedules due again and again")


def hold(runtime: Tenant, *names: str, **fields: Any) -> None:
    """Add schedules whose first slots come due a second apart, in this order, and are held."""
    for name in names:
        runtime.wait("1s")
        runtime.add(name, **{**ONE, **fields})
        runtime.step()
        assert runtime.state(name).held_key is not None


def occupy(runtime: Tenant, **fields: Any) -> list[ClaimedJob]:
    """Take the only place of the group with a job that runs."""
    runtime.add("g.busy", **{**ONE, **fields})
    runtime.step()
    return runtime.claim()


def named(*ways: Way) -> dict[str, Way]:
    return {way.__name__: way for way in ways}


# -- the ways in which a place becomes free --


def end(outcome: Outcome, **fields: Any) -> Way:
    """Return the way in which the run of a schedule with these fields ends like that."""

    def way(runtime: Tenant) -> None:
        claimed = occupy(runtime, **fields)
        hold(runtime, "g.held")
        runtime.settle(*claimed, outcome=outcome)

    return way


def end_with_jobs_in_line(outcome: Outcome, **fields: Any) -> Way:
    """Return the way in which a run ends its schedule, whose other jobs are cancelled."""

    def way(runtime: Tenant) -> None:
        claimed = occupy(runtime, if_running="queue", **fields)
        runtime.wait_and_step("24h")
        assert runtime.statuses("g.busy") == ["running", "queued"]
        hold(runtime, "g.held")
        runtime.settle(*claimed, outcome=outcome)
        assert runtime.statuses("g.busy")[1] == "cancelled"

    return way


def pause(runtime: Tenant) -> None:
    runtime.add("g.busy", **ONE)
    runtime.step()
    hold(runtime, "g.held")
    runtime.pause("g.busy")


def delete(runtime: Tenant) -> None:
    runtime.add("g.busy", **ONE)
    runtime.step()
    hold(runtime, "g.held")
    runtime.delete("g.busy")


def delete_and_kill(runtime: Tenant) -> None:
    occupy(runtime)
    hold(runtime, "g.held")
    runtime.delete("g.busy", cancel_running=True)


def end_a_run_of_a_deleted_schedule(runtime: Tenant) -> None:
    claimed = occupy(runtime)
    hold(runtime, "g.held")
    runtime.delete("g.busy")
    evaluate(runtime)
    assert runtime.statuses("g.held") == []
    runtime.settle(*claimed)


def cancel_a_run_of_a_deleted_schedule(runtime: Tenant) -> None:
    (claimed,) = occupy(runtime)
    hold(runtime, "g.held")
    runtime.delete("g.busy")
    runtime.cancel(claimed.job.job_id)


def cancel_a_queued_job(runtime: Tenant) -> None:
    runtime.add("g.busy", **ONE)
    runtime.step()
    hold(runtime, "g.held")
    runtime.cancel(runtime.jobs("g.busy")[0].job_id)


def cancel_a_run(runtime: Tenant) -> None:
    (claimed,) = occupy(runtime)
    hold(runtime, "g.held")
    runtime.cancel(claimed.job.job_id)


def cancel_a_manual_job(runtime: Tenant) -> None:
    runtime.add("g.busy", **ONE, first_run="after_interval")
    job_id = runtime.trigger("g.busy").job_id
    assert job_id is not None
    hold(runtime, "g.held")
    runtime.cancel(job_id)


def cancel_a_run_with_a_slot_that_needs_no_place(runtime: Tenant) -> None:
    occupy(runtime)
    runtime.edit("g.busy", **DAILY, if_running="cancel")
    runtime.wait("23h")
    hold(runtime, "g.held")
    runtime.wait("1h")


def lose_a_run_that_must_not_run_twice(runtime: Tenant) -> None:
    occupy(runtime, on_lost="fail")
    hold(runtime, "g.held")
    runtime.wait("31s")
    assert runtime.neighbour().rescue() == 1


def lose_a_run_for_the_last_time(runtime: Tenant) -> None:
    occupy(runtime)
    hold(runtime, "g.held")
    for number in range(4):
        runtime.wait("31s")
        other = runtime.neighbour(f"doomed-{number}")
        assert other.rescue() == 1
        other.claim()
    assert runtime.statuses("g.busy") == ["lost"]


def interrupt_a_run_that_must_not_run_twice(runtime: Tenant) -> None:
    (claimed,) = occupy(runtime, on_lost="fail")
    hold(runtime, "g.held")
    held = {(claimed.job.job_id, claimed.job.fence)}
    assert runtime.runtime.slots.give_back(runtime.now, node=runtime.node, held=held) == 1


def hand_over(runtime: Tenant) -> ClaimedJob:
    (claimed,) = occupy(runtime, timeout="1h")
    runtime.settle(claimed, outcome=Outcome("succeeded", awaits=sha256(TOKEN.encode()).hexdigest()))
    hold(runtime, "g.held")
    return claimed


def report_external_work(runtime: Tenant) -> None:
    claimed = hand_over(runtime)
    report_outcome(runtime.runtime, claimed.job.job_id, TOKEN, status="succeeded")


def give_up_external_work(runtime: Tenant) -> None:
    hand_over(runtime)
    runtime.wait("1h")
    assert runtime.runtime.slots.end_overdue(runtime.now) == 1


def open_the_breaker_of_a_catch_up_job(runtime: Tenant) -> None:
    shared: dict[str, Any] = {"command": "poll", "circuit_breaker": {"threshold": 1, "reset_after": "30m"}}
    runtime.add("g.fails", **DAILY, **shared)
    runtime.step()
    claimed = runtime.claim()
    runtime.add("g.busy", **ONE, **shared, catch_up="run_all")
    runtime.wait("1h")
    runtime.step()
    assert [job.origin for job in runtime.jobs("g.busy")] == ["catch_up"]
    hold(runtime, "g.held")
    runtime.settle(*claimed, outcome=FAILED)
    assert runtime.statuses("g.busy") == ["cancelled"]


def raise_the_limit(runtime: Tenant) -> None:
    occupy(runtime)
    hold(runtime, "g.held")
    runtime.edit("g.held", **DAILY, max_concurrent=2)


def remove_the_limit(runtime: Tenant) -> None:
    occupy(runtime)
    hold(runtime, "g.held")
    runtime.edit("g.held", **DAILY)


def join_another_group(runtime: Tenant) -> None:
    occupy(runtime)
    hold(runtime, "g.held")
    runtime.edit("g.held", **{**ONE, "group": "other"})


def let_slots_queue(runtime: Tenant) -> None:
    occupy(runtime)
    hold(runtime, "g.held")
    runtime.edit("g.held", **ONE, if_running="queue")


def end_a_run_while_the_system_is_paused(runtime: Tenant) -> None:
    claimed = occupy(runtime)
    hold(runtime, "g.held")
    runtime.pause_system()
    runtime.settle(*claimed)
    evaluate(runtime)
    assert runtime.statuses("g.held") == []
    runtime.resume_system()


WAYS: dict[str, Way] = {
    "a run succeeds": end(SUCCEEDED),
    "a run succeeds with a result": end(Outcome("succeeded", result="42")),
    "a run fails": end(FAILED),
    "a run fails and has a retry": end(FAILED, max_retries=1),
    "a run times out": end(Outcome("timed_out")),
    "a run times out and goes on": end(Outcome("timed_out", is_still_running=True)),
    "a run reports that it was cancelled": end(Outcome("cancelled")),
    "a run has lost its target": end(drifted("gone")),
    "a run is the last repeat": end_with_jobs_in_line(SUCCEEDED, total_repeats=1),
    "a run is the last failure": end_with_jobs_in_line(FAILED, max_retries=0, on_exhausted="stop"),
    **named(
        pause,
        delete,
        delete_and_kill,
        end_a_run_of_a_deleted_schedule,
        cancel_a_run_of_a_deleted_schedule,
        cancel_a_queued_job,
        cancel_a_run,
        cancel_a_manual_job,
        cancel_a_run_with_a_slot_that_needs_no_place,
        lose_a_run_that_must_not_run_twice,
        lose_a_run_for_the_last_time,
        interrupt_a_run_that_must_not_run_twice,
        report_external_work,
        give_up_external_work,
        open_the_breaker_of_a_catch_up_job,
        raise_the_limit,
        remove_the_limit,
        join_another_group,
        let_slots_queue,
        end_a_run_while_the_system_is_paused,
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_place_that_becomes_free_is_offered_to_the_slot_that_waits(runtime: Tenant, way: Way) -> None:
    way(runtime)
    evaluate(runtime)
    assert runtime.statuses("g.held") == ["queued"]


# -- the ways in which an offered place is declined --


def offer(runtime: Tenant, **fields: Any) -> None:
    """Let two slots be held for one place, and offer it to the first, which belongs to a schedule with these fields."""
    claimed = occupy(runtime)
    hold(runtime, "g.first", **fields)
    hold(runtime, "g.second")
    runtime.settle(*claimed)
    assert runtime.state("g.first").release_at is not None
    assert runtime.state("g.second").release_at is None


def offer_to_one_that_runs(runtime: Tenant, **fields: Any) -> list[ClaimedJob]:
    """Do the same; the first schedule has a run in flight that took no place, from before it had a limit."""
    common = {**DAILY, "every": "1h", "if_running": "allow", **fields}
    runtime.add("g.first", **common)
    runtime.step()
    running = runtime.claim()
    runtime.edit("g.first", **common, max_concurrent=1)
    claimed = occupy(runtime)
    runtime.wait_and_step("1h")
    hold(runtime, "g.second")
    runtime.settle(*claimed)
    assert runtime.state("g.first").release_at is not None
    assert runtime.state("g.second").release_at is None
    return running


def pause_the_first(runtime: Tenant) -> None:
    offer(runtime)
    runtime.pause("g.first")


def pause_the_first_after_the_clock_was_set_back(runtime: Tenant) -> None:
    runtime.wait("1m")
    offer(runtime)
    runtime.clock.set("2026-01-05T08:01:01Z")
    runtime.pause("g.first")
    runtime.wait("10s")


def delete_the_first(runtime: Tenant) -> None:
    offer(runtime)
    runtime.delete("g.first")


def invalidate_the_first(runtime: Tenant) -> None:
    offer(runtime)
    runtime.change("g.first", lambda s, now, shared: status.invalidate(s, now, shared, "gone"))


def give_the_first_other_times(runtime: Tenant) -> None:
    offer(runtime)
    runtime.edit("g.first", cron="0 9 * * *", group="g", max_concurrent=1)


def give_the_first_another_group(runtime: Tenant) -> None:
    offer(runtime)
    runtime.edit("g.first", **{**ONE, "group": "other"})


def give_the_first_another_group_and_pause_it(runtime: Tenant) -> None:
    give_the_first_another_group(runtime)
    runtime.pause("g.first")


def give_the_first_no_limit(runtime: Tenant) -> None:
    offer(runtime)
    runtime.edit("g.first", **DAILY)


def close_the_first(runtime: Tenant) -> None:
    runtime.put_quiet_hours("02:00-03:00", "skip")
    offer(runtime, quiet_hours="nights")
    runtime.put_quiet_hours("08:00-09:00", "skip")


def supersede_the_first_with_a_skipped_slot(runtime: Tenant) -> None:
    offer(runtime, every="1h", only_between="08:00-08:30")
    runtime.wait("1h")


def supersede_the_first_with_a_missed_slot(runtime: Tenant) -> None:
    offer(runtime, every="1h", catch_up="skip")
    runtime.wait("1h30m")


def supersede_the_first_with_a_job_that_waits_for_the_opening(runtime: Tenant) -> None:
    offer(runtime, every="1h", catch_up="run_once", only_between="08:00-09:30")
    runtime.wait("1h40m")


def open_the_breaker_of_the_first(runtime: Tenant) -> None:
    breaker = {"threshold": 1, "reset_after": "30m"}
    running = offer_to_one_that_runs(runtime, circuit_breaker=breaker)
    runtime.settle(*running, outcome=FAILED)


def end_the_first_with_its_last_repeat(runtime: Tenant) -> None:
    running = offer_to_one_that_runs(runtime, total_repeats=1)
    runtime.settle(*running)
    assert runtime.state("g.first").status == "done"


def end_the_first_with_its_last_failure(runtime: Tenant) -> None:
    running = offer_to_one_that_runs(runtime, max_retries=0, on_exhausted="stop")
    runtime.settle(*running, outcome=FAILED)
    assert runtime.state("g.first").status == "dead"


def invalidate_the_first_with_its_run(runtime: Tenant) -> None:
    running = offer_to_one_that_runs(runtime)
    runtime.settle(*running, outcome=drifted("gone"))
    assert runtime.state("g.first").status == "invalid"


def lose_the_last_run_of_the_first(runtime: Tenant) -> None:
    offer_to_one_that_runs(runtime, max_retries=0, on_exhausted="stop", on_lost="fail")
    runtime.wait("31s")
    assert runtime.neighbour().rescue() == 1
    assert runtime.state("g.first").status == "dead"


REFUSALS = named(
    pause_the_first,
    pause_the_first_after_the_clock_was_set_back,
    delete_the_first,
    invalidate_the_first,
    give_the_first_other_times,
    give_the_first_another_group,
    give_the_first_another_group_and_pause_it,
    give_the_first_no_limit,
    close_the_first,
    supersede_the_first_with_a_skipped_slot,
    supersede_the_first_with_a_missed_slot,
    supersede_the_first_with_a_job_that_waits_for_the_opening,
    open_the_breaker_of_the_first,
    end_the_first_with_its_last_repeat,
    end_the_first_with_its_last_failure,
    invalidate_the_first_with_its_run,
    lose_the_last_run_of_the_first,
)


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_a_place_that_the_first_slot_in_line_does_not_take_is_offered_to_the_second(
    runtime: Tenant, refuse: Way
) -> None:
    refuse(runtime)
    evaluate(runtime)
    assert runtime.statuses("g.second") == ["queued"]


def test_places_that_several_slots_decline_at_once_are_all_offered_again(runtime: Tenant) -> None:
    runtime.put_quiet_hours("02:00-03:00", "skip")
    runtime.add_many(["g.busy1", "g.busy2"], **DAILY, max_concurrent=2)
    runtime.step()
    claimed = runtime.claim()
    hold(runtime, "g.closed1", "g.closed2", max_concurrent=2, quiet_hours="nights")
    hold(runtime, "g.waits1", "g.waits2", max_concurrent=2)
    runtime.put_quiet_hours("08:00-09:00", "skip")
    runtime.settle(*claimed)
    evaluate(runtime)
    assert [runtime.statuses(f"g.waits{number}") for number in (1, 2)] == [["queued"], ["queued"]]


def test_an_offer_stands_while_the_clock_is_behind_it(runtime: Tenant) -> None:
    runtime.wait("1m")
    offer(runtime)
    release_at = runtime.state("g.first").release_at
    runtime.clock.set("2026-01-05T08:00:30Z")
    evaluate(runtime)
    assert runtime.state("g.first").release_at == release_at
    runtime.wait("1m")
    evaluate(runtime)
    assert (runtime.statuses("g.first"), runtime.statuses("g.second")) == (["queued"], [])
