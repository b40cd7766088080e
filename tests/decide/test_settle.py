"""What the end of a run means for its schedule (R0–R5, T6, T10)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide.budgets import Refusal
from everwhen.decide.draft import Draft
from everwhen.decide.failing import OFTEN
from everwhen.decide.settle import put_off_retry, settle
from everwhen.model.changes import Decision
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.job import Job, Origin, is_own
from everwhen.model.limits import Limit, Shared
from everwhen.model.outcome import SUCCEEDED, Outcome, OutcomeStatus
from everwhen.model.schedule import Schedule
from everwhen.model.spending import Usage
from tests.decide.builders import (
    FAILED,
    MONDAY,
    a_budget,
    a_capacity,
    a_definition,
    a_guard,
    a_job,
    a_one_shot,
    a_plan,
    a_schedule,
    a_waiting_retry,
    at,
    cancelled,
    entries,
    quiet_hours,
    skips,
    span,
    state_of,
    types,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")
NOW = at("09:03")


def ended(
    schedule: Schedule,
    outcome: Outcome = SUCCEEDED,
    *others: Job,
    origin: Origin = "schedule",
    now: int = NOW,
    shared: Shared | None = None,
    **job: Any,
) -> Decision:
    """The decision when a running job of the schedule ends."""
    running = a_job(schedule, 1, origin=origin, slot_at=NINE, **job)
    settled = settle(running, outcome, with_jobs(schedule, running, *others), now, shared or Shared())
    assert settled.job == running and settled.outcome == outcome
    assert settled.decision is not None
    return settled.decision


# -- the table of R0 --


def test_an_own_success_moves_the_counters_of_success() -> None:
    schedule = a_schedule(run_count=4, current_repeat=2, current_retry=2, failed_slots=3, last_error="old")
    after = ended(schedule).after
    assert (after.run_count, after.current_repeat, after.current_retry, after.failed_slots) == (5, 3, 0, 0)
    assert (after.last_success_at, after.last_success_job_id) == (NOW, "sched-a1b2c3d4e5f6-n1-rc0")
    assert after.last_completed_at == NOW
    assert (after.last_error, after.error_count) == ("old", 0)
    assert (after.outstanding, after.running_jobs) == (0, 0)


@pytest.mark.parametrize("status", ["failed", "timed_out", "lost"])
def test_an_own_failure_moves_the_counters_of_failure(status: OutcomeStatus) -> None:
    schedule = a_schedule(run_count=4, current_retry=2, error_count=7, max_retries=3)
    after = ended(schedule, Outcome(status, error="no")).after
    assert (after.error_count, after.current_retry, after.last_error) == (8, 3, "no")
    assert (after.run_count, after.last_success_at, after.failed_slots) == (4, None, 0)


def test_without_max_retries_a_failure_ends_the_slot_and_current_retry_stays_zero() -> None:
    after = ended(a_schedule(run_count=4, failed_slots=1), FAILED).after
    assert (after.current_retry, after.failed_slots) == (0, 2)
    assert (after.run_count, after.last_success_at, after.last_completed_at) == (4, None, NOW)


def test_a_failure_without_words_is_named_by_its_status() -> None:
    assert ended(a_schedule(), Outcome("timed_out")).after.last_error == "timed_out"


def test_a_cancelled_run_is_neither_success_nor_failure_and_is_not_retried() -> None:
    decision = ended(a_schedule(max_retries=3, current_retry=1), Outcome("cancelled"))
    after = decision.after
    assert (after.run_count, after.error_count, after.current_retry) == (0, 0, 1)
    assert (after.last_completed_at, decision.jobs) == (NOW, [])


@pytest.mark.parametrize("origin", ["manual", "backfill"])
@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED])
def test_manual_and_backfill_runs_change_nothing_but_the_places_they_held(
    origin: Origin, outcome: Outcome
) -> None:
    schedule = a_schedule(max_retries=0, total_repeats=1)
    decision = ended(schedule, outcome, origin=origin)
    assert decision.after == schedule.state._replace(fire_count=1)
    assert (decision.jobs, decision.events) == ([], [])


def test_a_manual_job_that_fails_four_times_leaves_the_schedule_active() -> None:
    """Case 12."""
    schedule = a_schedule(max_retries=1)
    for number in range(4):
        decision = ended(schedule, FAILED, origin="manual", now=NOW + number)
        schedule = Schedule(decision.after, schedule.plan)
    assert (schedule.state.status, schedule.state.error_count) == ("active", 0)


@pytest.mark.parametrize("origin", ["schedule", "catch_up", "retry", "webhook", "chat"])
def test_all_other_origins_are_own(origin: Origin) -> None:
    assert is_own(origin)
    assert ended(a_schedule(), origin=origin).after.run_count == 1


def test_an_end_never_moves_the_next_slot() -> None:
    schedule = a_schedule(next_slot_at=at("10:00"))
    for outcome in (SUCCEEDED, FAILED):
        after = ended(schedule, outcome).after
        assert (after.next_slot_at, after.next_run_at) == (at("10:00"), at("10:00"))


# -- places --


def test_an_end_gives_its_places_back() -> None:
    shared = Shared(
        {
            "guard:withings:poll": Limit("guard:withings:poll", outstanding=2),
            "capacity:agent": Limit("capacity:agent", outstanding=2, running=1),
        }
    )
    ended(a_schedule(guard=a_guard(), capacity=a_capacity()), shared=shared)
    assert shared.limit("guard:withings:poll").outstanding == 1
    assert shared.limit("capacity:agent") == Limit("capacity:agent", outstanding=1, running=0)


def test_a_run_whose_work_goes_on_keeps_its_place_among_the_running() -> None:
    """Past its deadline the job is over, and whoever works for it is not free yet (R9)."""
    shared = Shared({"capacity:agent": Limit("capacity:agent", outstanding=2, running=1)})
    ended(a_schedule(capacity=a_capacity()), Outcome("timed_out", is_still_running=True), shared=shared)
    assert shared.limit("capacity:agent") == Limit("capacity:agent", outstanding=1, running=1)


def test_a_run_that_never_took_a_place_gives_none_back() -> None:
    shared = Shared({"guard:withings:poll": Limit("guard:withings:poll", outstanding=2)})
    ended(a_schedule(guard=a_guard()), shared=shared, is_counted=False)
    assert shared.limit("guard:withings:poll").outstanding == 2


@pytest.mark.parametrize("origin", ["schedule", "manual"])
def test_a_run_whose_schedule_is_deleted_gives_its_places_back_and_writes_its_job_only(
    origin: Origin,
) -> None:
    schedule = a_schedule(guard=a_guard(), capacity=a_capacity())
    job = a_job(schedule, origin=origin)
    key = "capacity:agent"
    shared = Shared({key: Limit(key, outstanding=1, running=1)})
    settled = settle(job, SUCCEEDED, None, NOW, shared)
    assert settled.decision is None
    assert shared.limit(key) == Limit(key)


def test_a_run_of_a_predecessor_of_the_same_name_does_not_touch_its_successor() -> None:
    """Case 8, the other half: ids and ledgers hang on the uid."""
    old, new = a_schedule(uid="old"), a_schedule(uid="new")
    assert settle(a_job(old), SUCCEEDED, new, NOW, Shared()).decision is None


def test_a_schedule_deleted_and_added_again_fires_its_first_slot_under_another_id() -> None:
    """Case 8."""
    world = World(NINE)
    world.create(a_plan("withings.hourly", every="1h"), "old")
    world.tick()
    world.delete("old")
    world.now = at("09:00:30")
    world.create(a_plan("withings.hourly", every="1h"), "new")
    world.tick()
    assert list(world.jobs) == ["sched-old-n1-rc0", "sched-new-n1-rc0"]


# -- retries --


def test_without_max_retries_the_slot_is_over_and_the_schedule_goes_on() -> None:
    decision = ended(a_schedule(current_retry=50), FAILED)
    assert (decision.jobs, decision.after.status) == ([], "active")


def test_a_retry_is_a_further_job_of_the_same_slot() -> None:
    decision = ended(a_schedule(max_retries=3, retry_delay=MINUTE, fire_count=5), FAILED, payload='{"a": 1}')
    (job,) = decision.jobs
    assert (job.job_id, job.number, job.retry) == ("sched-a1b2c3d4e5f6-n1-rc1", 1, 1)
    assert (job.origin, job.slot_at, job.due_at, job.not_before) == ("retry", NINE, NINE, NOW + MINUTE)
    assert (job.payload, job.is_counted, job.is_ready) == ('{"a": 1}', False, True)
    after = decision.after
    assert (after.outstanding, after.waiting, after.retries_waiting, after.running_jobs) == (1, 1, 1, 0)
    assert (after.fire_count, after.last_completed_at) == (5, None)


def test_the_delay_doubles_up_to_ten_times_the_base() -> None:
    delays = []
    for current_retry in range(7):
        schedule = a_schedule(max_retries=100, retry_delay=MINUTE, current_retry=current_retry)
        (job,) = ended(schedule, FAILED).jobs
        delays.append(((job.not_before or 0) - NOW) // SECOND)
    assert delays == [60, 120, 240, 480, 600, 600, 600]


@pytest.mark.parametrize(
    ("fields", "base"),
    [
        ({"every": "10s"}, "10s"),
        ({"every": "1h"}, "60s"),
        ({"cron": "0 9 * * *"}, "60s"),
        ({"every": "1h", "retry_delay": span("2m")}, "2m"),
    ],
)
def test_the_base_is_the_retry_delay_else_the_interval_up_to_a_minute(
    fields: dict[str, Any], base: str
) -> None:
    assert a_definition(**fields).retry_base == span(base)


@pytest.mark.parametrize(("asked", "given"), [("1s", "1m"), ("5m", "5m"), ("1h", "10m")])
def test_a_target_may_ask_for_a_longer_pause_within_the_cap(asked: str, given: str) -> None:
    outcome = Outcome("failed", retry_after=span(asked))
    (job,) = ended(a_schedule(max_retries=3, retry_delay=MINUTE), outcome).jobs
    assert job.not_before == NOW + span(given)


def test_a_retry_never_begins_in_a_closed_time() -> None:
    schedule = a_schedule(max_retries=3, retry_delay=MINUTE, quiet=quiet_hours("09:04-12:00"))
    (job,) = ended(schedule, FAILED).jobs
    assert job.not_before == at("12:00")


def test_without_an_opening_there_is_no_retry_and_the_slot_is_over() -> None:
    today = MONDAY.date().toordinal() - 719_163
    schedule = a_schedule(max_retries=3, quiet=quiet_hours(dates=[(today, today + 500)]))
    decision = ended(schedule, FAILED)
    assert (decision.jobs, decision.after.last_completed_at) == ([], NOW)


def test_a_failure_that_is_final_counts_and_is_not_repeated() -> None:
    final = Outcome("failed", error="404", is_final=True)
    for rule, counted in (("stop", 1), ("continue", 0)):
        decision = ended(a_schedule(max_retries=3, on_exhausted=rule), final)
        assert decision.jobs == []
        assert (decision.after.error_count, decision.after.current_retry) == (1, counted)
        assert (decision.after.failed_slots, decision.after.status) == (1, "active")
        assert decision.after.last_completed_at == NOW


@pytest.mark.parametrize("status", ["paused", "invalid", "dead"])
def test_a_schedule_that_was_stopped_gets_no_retry(status: str) -> None:
    schedule = a_schedule(max_retries=3, status=status, next_slot_at=None)
    assert ended(schedule, FAILED).jobs == []


def test_retries_of_one_slot_are_numbered_and_end_with_success() -> None:
    world = World(NINE)
    world.add(a_schedule(every="1d", anchor_at=NINE, next_slot_at=NINE, max_retries=3, retry_delay=MINUTE))
    world.tick()
    world.run(FAILED)
    for minutes in (1, 2):
        assert world.claimable() == []
        world.now += minutes * MINUTE
        world.run(FAILED if minutes == 1 else SUCCEEDED)
    assert [job.job_id[-3:] for job in world.jobs.values()] == ["rc0", "rc1", "rc2"]
    state = world.state()
    assert (state.current_retry, state.run_count, state.error_count, state.outstanding) == (0, 1, 2, 0)
    assert (state.waiting, state.retries_waiting) == (0, 0)


# -- retries that are used up --


def test_with_continue_a_slot_whose_retries_are_used_up_is_given_up_and_the_schedule_goes_on() -> None:
    schedule = a_schedule(max_retries=2, current_retry=2, failed_slots=1, next_slot_at=at("10:00"))
    queued = a_job(schedule, 2, status="queued")
    decision = ended(schedule, FAILED, queued, retry=2)
    after = decision.after
    assert (after.status, after.next_slot_at) == ("active", at("10:00"))
    assert (after.current_retry, after.failed_slots) == (0, 2)
    assert (decision.jobs, decision.cancelled, decision.events) == ([], [], [])


def test_with_continue_each_slot_has_all_its_retries() -> None:
    world = World(NINE)
    fields: dict[str, Any] = {"every": "1h", "max_retries": 1, "retry_delay": MINUTE}
    world.add(a_schedule(anchor_at=NINE, next_slot_at=NINE, **fields))
    for hour in range(3):
        world.go_to(NINE + hour * span("1h"))
        world.run(FAILED)
        world.now += MINUTE
        world.run(FAILED)
    assert [job.job_id[-6:] for job in world.jobs.values()] == [
        f"n{number}-rc{retry}" for number in (1, 2, 3) for retry in (0, 1)
    ]
    state = world.state()
    assert (state.status, state.current_retry, state.failed_slots, state.error_count) == ("active", 0, 3, 6)


def test_a_slot_has_no_more_retries_than_max_retries_whatever_succeeds_beside_it() -> None:
    """A success of another slot (if_running: allow) sets current_retry back, and gives this slot no further retry."""
    for rule in ("continue", "stop"):
        schedule = a_schedule(max_retries=2, current_retry=0, on_exhausted=rule, if_running="allow")
        decision = ended(schedule, FAILED, retry=2)
        assert (decision.jobs, decision.after.status, decision.after.failed_slots) == ([], "active", 1)


def test_a_retry_that_is_cancelled_ends_its_slot_and_counts_neither_way() -> None:
    for rule, counted in (("stop", 1), ("continue", 0)):
        schedule = a_schedule(max_retries=3, current_retry=1, on_exhausted=rule)
        after = ended(schedule, Outcome("cancelled"), retry=1).after
        assert (after.current_retry, after.failed_slots) == (counted, 0)


def test_with_stop_more_failures_in_a_row_than_max_retries_kill_the_schedule() -> None:
    schedule = a_schedule(max_retries=2, on_exhausted="stop", current_retry=2, next_slot_at=at("10:00"))
    queued = a_job(schedule, 2, status="queued")
    waiting = a_waiting_retry(schedule, 3)
    manual = a_job(schedule, 4, status="queued", origin="manual")
    running = a_job(schedule, 5)
    decision = ended(schedule, FAILED, queued, waiting, manual, running)
    assert (decision.after.status, decision.after.status_reason) == ("dead", "dead")
    assert (decision.after.next_slot_at, decision.after.next_run_at) == (None, None)
    assert cancelled(decision) == [(queued.job_id, "dead"), (waiting.job_id, "dead")]
    assert decision.jobs == []
    assert types(decision.events) == ["schedule.died", "job.cancelled", "job.cancelled", "schedule.failing"]
    assert (decision.after.outstanding, decision.after.waiting, decision.after.retries_waiting) == (2, 0, 0)


@pytest.mark.parametrize(
    ("fields", "outcome", "kind"),
    [
        ({"max_retries": 0, "on_exhausted": "stop"}, FAILED, "schedule.died"),
        ({"total_repeats": 1}, SUCCEEDED, "schedule.done"),
        ({}, Outcome("failed", error="it is gone", invalidates=True), "schedule.invalidated"),
    ],
)
def test_the_event_of_a_schedule_that_ends_with_a_job_names_the_job(
    fields: dict[str, Any], outcome: Outcome, kind: str
) -> None:
    (event,) = [event for event in ended(a_schedule(**fields), outcome).events if event.type == kind]
    assert event.job_id == "sched-a1b2c3d4e5f6-n1-rc0"


def test_exactly_max_retries_failures_do_not() -> None:
    decision = ended(a_schedule(max_retries=2, on_exhausted="stop", current_retry=1), FAILED)
    assert decision.after.status == "active"
    assert len(decision.jobs) == 1


def test_with_no_retries_at_all_the_first_failure_is_one_too_many() -> None:
    assert ended(a_schedule(max_retries=0, on_exhausted="stop"), FAILED).after.status == "dead"


def test_a_dead_schedule_dies_once() -> None:
    fields: dict[str, Any] = {"max_retries": 0, "on_exhausted": "stop", "status": "dead", "current_retry": 1}
    decision = ended(a_schedule(next_slot_at=None, **fields), FAILED)
    assert "schedule.died" not in types(decision.events)


def test_a_slot_held_when_the_schedule_dies_is_over() -> None:
    schedule = a_schedule(
        max_retries=0,
        on_exhausted="stop",
        held_slot_at=NINE,
        held_due_at=NINE,
        held_reason="at_capacity",
        next_slot_at=at("10:00"),
    )
    decision = ended(schedule, FAILED)
    assert entries(decision, NINE) == 1
    assert decision.after.held_slot_at is None


@pytest.mark.parametrize(("outcome", "status"), [(FAILED, "dead"), (SUCCEEDED, "done")])
def test_a_slot_due_and_undecided_when_the_schedule_ends_is_in_the_ledger_once(
    outcome: Outcome, status: str
) -> None:
    fields: dict[str, Any] = {"max_retries": 0, "on_exhausted": "stop", "total_repeats": 1}
    schedule = a_schedule(next_slot_at=at("10:00"), **fields)
    decision = ended(schedule, outcome, now=at("10:00:00.3"))
    assert decision.after.status == status
    assert entries(decision, at("10:00")) == 1


# -- total_repeats --


def test_the_last_of_total_repeats_makes_the_schedule_done() -> None:
    decision = ended(a_schedule(total_repeats=3, current_repeat=2, next_slot_at=at("10:00")))
    assert (decision.after.status, decision.after.next_slot_at) == ("done", None)
    assert types(decision.events) == ["schedule.done"]


def test_before_the_last_it_goes_on_and_zero_is_no_limit() -> None:
    assert ended(a_schedule(total_repeats=3, current_repeat=1)).after.status == "active"
    assert ended(a_schedule(total_repeats=0, current_repeat=99)).after.status == "active"


def test_a_queue_is_cancelled_when_the_last_repeat_succeeds() -> None:
    """Case 11."""
    world = World(NINE)
    schedule = a_schedule(
        every="1m", anchor_at=NINE, next_slot_at=NINE, if_running="queue", total_repeats=5, current_repeat=4
    )
    world.add(schedule)
    world.go_to(at("09:02"))
    first, second, third = world.jobs.values()
    world.run()
    assert world.state().status == "done"
    assert [
        (world.jobs[job.job_id].status, world.jobs[job.job_id].reason) for job in (first, second, third)
    ] == [
        ("succeeded", None),
        ("cancelled", "done"),
        ("cancelled", "done"),
    ]
    assert (world.state().outstanding, world.claimable()) == (0, [])


def test_failures_do_not_count_as_repeats() -> None:
    assert ended(a_schedule(total_repeats=1), FAILED).after.status == "active"


@pytest.mark.parametrize("status", ["paused", "invalid"])
def test_the_last_repeat_ends_a_schedule_that_was_stopped_meanwhile_too(status: str) -> None:
    """Otherwise coming back would fire beyond total_repeats."""
    schedule = a_schedule(total_repeats=1, status=status, next_slot_at=None)
    assert ended(schedule).after.status == "done"


def test_a_schedule_that_reached_its_repeats_retries_nothing() -> None:
    schedule = a_schedule(total_repeats=1, current_repeat=1, max_retries=3, status="done", next_slot_at=None)
    assert ended(schedule, FAILED).jobs == []


def test_a_slot_held_when_the_last_repeat_succeeds_is_over() -> None:
    schedule = a_schedule(
        total_repeats=1,
        held_slot_at=NINE,
        held_due_at=NINE,
        held_reason="at_capacity",
        next_slot_at=at("10:00"),
    )
    decision = ended(schedule)
    assert skips(decision.events) == [(NINE, "paused")]  # no later slot came first
    assert decision.after.held_slot_at is None


@pytest.mark.parametrize(("next_run_at", "waits"), [("09:59:59", False), ("10:00", True), ("10:00:01", True)])
def test_a_retry_that_a_budget_refuses_waits_for_a_refill_that_comes_no_later_than_the_next_slot(
    next_run_at: str, waits: bool
) -> None:
    budget = a_budget(per_hour=1)
    schedule = a_schedule(max_retries=3, budgets=(budget,), next_slot_at=at(next_run_at))
    retry = a_waiting_retry(schedule)
    usage = Usage("fires_per_hour", 1, 1, 0, NINE, ends_at=at("10:00"))
    decided = put_off_retry(with_jobs(schedule, retry), retry, Refusal(budget, usage), NOW, Shared())
    assert (decided == at("10:00")) is waits


def test_a_cancelled_job_that_never_ran_completes_nothing() -> None:
    schedule = a_schedule(total_repeats=1, last_completed_at=NINE - MINUTE)
    waiting = a_job(schedule, 2, status="queued", started_at=None)
    running = a_job(schedule, 3)
    for other, last in ((waiting, NINE - MINUTE), (running, NOW)):
        draft = Draft(with_jobs(schedule, other), NOW, Shared())
        draft.cancel(other, "done")
        assert draft.state.last_completed_at == last


# -- one-shots and ended schedules --


def a_fired_one_shot(**fields: Any) -> Schedule:
    return state_of(a_one_shot(NINE, **fields), status="done", next_slot_at=None, next_run_at=None)


def test_a_fired_one_shot_is_retried_all_the_same() -> None:
    decision = ended(a_fired_one_shot(max_retries=2, retry_delay=MINUTE), FAILED)
    assert (decision.after.status, len(decision.jobs)) == ("done", 1)


def test_a_one_shot_that_keeps_failing_becomes_dead_with_stop_and_stays_done_otherwise() -> None:
    for rule, status in (("stop", "dead"), ("continue", "done")):
        schedule = a_fired_one_shot(max_retries=2, current_retry=2, on_exhausted=rule)
        decision = ended(schedule, FAILED, retry=2)
        assert (decision.after.status, decision.jobs) == (status, [])


def test_a_one_shot_without_max_retries_stays_done_when_it_fails() -> None:
    assert ended(a_fired_one_shot(), FAILED).after.status == "done"


def test_a_one_shot_that_succeeds_stays_done() -> None:
    decision = ended(a_fired_one_shot(total_repeats=1))
    assert (decision.after.status, decision.events) == ("done", [])


# -- a job ends once --


def test_a_late_result_of_a_cancelled_job_changes_nothing() -> None:
    world = World(NINE)
    world.add(a_schedule(every="1m", anchor_at=NINE, next_slot_at=NINE, if_running="cancel"))
    world.tick()
    slow = world.start()
    world.go_to(at("09:01"))
    assert (world.jobs[slow.job_id].status, world.jobs[slow.job_id].reason) == ("cancelled", "overlap")
    before = world.state()
    world.finish(slow)
    assert world.jobs[slow.job_id].status == "cancelled"
    assert world.state() == before._replace(running_jobs=0)


def test_after_an_overlap_cancel_the_next_run_waits_until_the_killed_one_has_let_go() -> None:
    """Except with `allow`, jobs of one schedule run one after another."""
    world = World(NINE)
    world.add(a_schedule(every="1m", anchor_at=NINE, next_slot_at=NINE, if_running="cancel"))
    world.tick()
    killed = world.start()
    world.go_to(at("09:01"))
    assert world.state().running_jobs == 1
    assert world.claimable() == []
    world.finish(killed)
    assert [job.slot_at for job in world.claimable()] == [at("09:01")]


def test_a_target_that_cannot_run_any_more_makes_its_schedule_invalid() -> None:
    schedule = a_schedule(every="1h", outstanding=1, running_jobs=1)
    outcome = Outcome("failed", error="no such plugin", is_final=True, invalidates=True)
    decision = settle(a_job(schedule), outcome, schedule, at("08:30"), Shared()).decision
    assert decision is not None
    assert (decision.after.status, decision.after.status_reason) == ("invalid", "no such plugin")
    assert decision.after.next_slot_at is None


def test_a_schedule_on_request_is_failing_after_as_many_runs_as_a_frequent_one() -> None:
    schedule = a_schedule(on="webhook", outstanding=1, running_jobs=1, failed_slots=OFTEN - 1)
    decision = settle(a_job(schedule, origin="webhook"), FAILED, schedule, at("08:30"), Shared()).decision
    assert decision is not None
    assert "schedule.failing" in [event.type for event in decision.events]
