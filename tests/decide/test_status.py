"""Pause, resume, revive, invalid and back, the end (X1–X8)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide.status import (
    delete,
    end_pause,
    invalidate,
    leave_system_span,
    pause,
    restore,
    resume,
    revive,
)
from everwhen.errors import StatusError, TimetableError
from everwhen.model.calendar import Calendar
from everwhen.model.instants import SECOND
from everwhen.model.limits import Limit, Shared
from everwhen.model.schedule import Plan, Schedule
from tests.decide.builders import (
    a_capacity,
    a_chain,
    a_guard,
    a_job,
    a_one_shot,
    a_schedule,
    a_waiting_retry,
    at,
    cancelled,
    entries,
    skips,
    span,
    types,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")
NOW = at("09:30:00.5")


def stopped(status: str = "paused", **fields: Any) -> Schedule:
    return a_schedule(**{"status": status, "next_slot_at": None, **fields})


# -- pause --


def test_a_paused_schedule_has_no_next_run() -> None:
    decision = pause(
        a_schedule(next_slot_at=at("10:00")), NOW, Shared(), by="anna", note="holiday", until=at("12:00")
    )
    after = decision.after
    assert (after.status, after.next_slot_at, after.next_run_at) == ("paused", None, None)
    assert (after.paused_by, after.status_reason, after.resume_at) == ("anna", "holiday", at("12:00"))
    (event,) = decision.events
    assert (event.type, event.at) == ("schedule.paused", NOW)
    assert event.detail == {"by": "anna", "note": "holiday", "until": at("12:00")}


def test_a_pause_that_ends_with_the_last_run_leaves_nothing_of_it_behind() -> None:
    world = World(NINE)
    world.add(a_schedule(total_repeats=1, next_slot_at=NINE))
    world.tick()
    job = world.start()
    world.pause()
    world.finish(job)
    state = world.state()
    assert (state.status, state.paused_by, state.resume_at) == ("done", None, None)


@pytest.mark.parametrize("status", ["paused", "invalid", "done", "dead"])
def test_only_an_active_schedule_can_be_paused(status: str) -> None:
    with pytest.raises(StatusError) as refused:
        pause(stopped(status), NOW, Shared(), by="anna")
    assert str(refused.value) == f"Cannot pause job with status '{status}'."


@pytest.mark.parametrize("status", ["active", "invalid", "done", "dead"])
def test_only_a_paused_schedule_can_be_resumed(status: str) -> None:
    with pytest.raises(StatusError) as refused:
        resume(stopped(status), NOW, Shared())
    assert str(refused.value) == f"Cannot resume job with status '{status}'."


def test_a_pause_cancels_queued_own_jobs_and_waiting_retries_and_no_others() -> None:
    schedule = a_schedule(next_slot_at=at("10:00"), guard=a_guard())
    jobs = (
        a_job(schedule, 1),
        a_job(schedule, 2, status="queued"),
        a_waiting_retry(schedule, 3),
        a_job(schedule, 4, status="queued", origin="manual", guard_key=None),
        a_job(schedule, 5, status="queued", origin="backfill", guard_key=None),
    )
    shared = Shared({"guard:withings:poll": Limit("guard:withings:poll", outstanding=2)})
    decision = pause(with_jobs(schedule, *jobs), NOW, shared, by="anna")
    assert cancelled(decision) == [(jobs[1].job_id, "pause"), (jobs[2].job_id, "pause")]
    after = decision.after
    assert (after.outstanding, after.running_jobs, after.waiting, after.retries_waiting) == (2, 1, 0, 0)
    assert shared.limit("guard:withings:poll").outstanding == 1


def test_a_slot_due_but_undecided_is_skipped_by_the_pause() -> None:
    decision = pause(a_schedule(next_slot_at=NINE), at("09:00:00.4"), Shared(), by="anna")
    assert skips(decision.events) == [(NINE, "paused")]


def test_a_slot_that_waits_for_its_jitter_is_skipped_by_the_pause() -> None:
    schedule = a_schedule(next_slot_at=NINE, jitter_ms=1_800_000)
    assert (schedule.state.next_run_at or 0) > NINE + SECOND
    assert skips(pause(schedule, NINE + SECOND, Shared(), by="anna").events) == [(NINE, "paused")]


def test_many_undecided_slots_are_one_range_of_the_pause() -> None:
    schedule = a_schedule(every="1m", anchor_at=NINE, next_slot_at=NINE)
    decision = pause(schedule, NOW, Shared(), by="anna")
    (event, _) = decision.events
    assert (event.reason, event.slot_count, event.detail) == (
        "paused",
        31,
        {"first": NINE, "last": at("09:30")},
    )


def test_a_planned_slot_that_newer_zone_data_moved_does_not_stop_a_pause() -> None:
    schedule = a_schedule(cron="0 9 * * *", next_slot_at=at("08:30"))
    assert pause(schedule, at("08:31"), Shared(), by="anna").after.status == "paused"


# -- resume --


def test_an_interval_starts_anew_one_interval_from_now() -> None:
    after = resume(stopped(every="1h", anchor_at=NINE), NOW, Shared(), by="anna").after
    assert (after.status, after.next_slot_at, after.anchor_at) == ("active", at("10:30:01"), at("10:30:01"))
    assert (after.paused_by, after.resume_at, after.status_reason) == (None, None, None)


def test_a_cron_schedule_goes_on_with_its_next_match() -> None:
    decision = resume(stopped(cron="0 * * * *"), NOW, Shared(), by="anna")
    assert decision.after.next_slot_at == at("10:00")
    (event,) = decision.events
    assert (event.type, event.actor) == ("schedule.resumed", "anna")


def test_a_month_goes_on_with_its_next_match() -> None:
    schedule = stopped(every="monthly", anchor_at=at("08:00", day=-7))
    after = resume(schedule, NOW, Shared()).after
    assert (after.next_slot_at, after.anchor_at) == (at("08:00", day=21), at("08:00", day=-7))


def test_a_pause_over_a_thousand_slots_is_one_span_and_resume_fires_none_of_them() -> None:
    """Case 10."""
    world = World(at("08:59"))
    world.add(a_schedule(cron="* * * * *", next_slot_at=NINE))
    world.pause()
    world.go_to(NINE + span("1000m"))
    world.resume()
    world.go_to(world.now)
    assert world.jobs == {}
    assert types(world.events) == ["schedule.paused", "schedule.resumed"]
    assert world.state().next_slot_at == NINE + span("1001m")


def test_a_one_shot_whose_instant_passed_during_the_pause_is_done() -> None:
    schedule = a_one_shot(NINE, status="paused", next_slot_at=None)
    decision = resume(schedule, NOW, Shared())
    assert (decision.after.status, decision.after.status_reason) == ("done", "in_the_past")
    assert decision.jobs == []
    assert types(decision.events) == ["schedule.resumed", "schedule.done"]


def test_a_one_shot_still_to_come_fires_after_the_pause() -> None:
    schedule = a_one_shot(at("12:00"), status="paused", next_slot_at=None)
    assert resume(schedule, NOW, Shared()).after.next_slot_at == at("12:00")


@pytest.mark.parametrize("on", ["webhook", "chat"])
def test_a_schedule_that_waits_for_requests_is_active_again(on: str) -> None:
    after = resume(stopped(on=on), NOW, Shared()).after
    assert (after.status, after.next_slot_at) == ("active", None)


def test_a_schedule_past_its_end_is_done_when_it_is_resumed() -> None:
    schedule = stopped(every="1h", created_at=at("08:00"), end_at=at("10:00"))
    assert resume(schedule, NOW, Shared()).after.status == "done"


@pytest.mark.parametrize("trigger", [{"cron": "0 * * * *"}, {"every": "10m", "anchor_at": NINE}])
def test_when_the_clock_went_back_a_resume_does_not_return_to_decided_slots(trigger: dict[str, Any]) -> None:
    schedule = stopped(**trigger, last_slot_at=at("11:00"))
    assert (resume(schedule, NOW, Shared()).after.next_slot_at or 0) > at("11:00")


# -- revive --


@pytest.mark.parametrize("status", ["dead", "done"])
def test_a_revived_schedule_starts_anew_with_counters_at_zero(status: str) -> None:
    schedule = stopped(status, every="1h", current_repeat=5, current_retry=4, run_count=9, error_count=8)
    decision = revive(schedule, NOW, Shared(), by="anna")
    after = decision.after
    assert (after.status, after.next_slot_at) == ("active", at("10:30:01"))
    assert (after.current_repeat, after.current_retry, after.run_count, after.error_count) == (0, 0, 9, 8)
    assert decision.before == schedule.state
    assert [(event.type, event.actor) for event in decision.events] == [("schedule.revived", "anna")]


@pytest.mark.parametrize("status", ["active", "paused", "invalid"])
def test_only_dead_and_done_schedules_can_be_revived(status: str) -> None:
    with pytest.raises(StatusError, match=f"Cannot revive job with status '{status}'"):
        revive(stopped(status), NOW, Shared())


def test_without_a_slot_to_come_a_revival_is_refused() -> None:
    with pytest.raises(StatusError, match="no slot to come"):
        revive(a_one_shot(NINE, status="done", next_slot_at=None), NOW, Shared())
    with pytest.raises(StatusError, match="no slot to come"):
        revive(stopped("done", every="1h", end_at=at("09:10")), NOW, Shared())


def test_a_dead_webhook_schedule_can_be_revived() -> None:
    assert revive(stopped("dead", on="webhook"), NOW, Shared()).after.status == "active"


# -- invalid and back --


def test_an_invalid_schedule_stops_with_its_reason() -> None:
    decision = invalidate(a_schedule(next_slot_at=at("10:00")), NOW, Shared(), "command left the manifest")
    assert (decision.after.status, decision.after.status_reason) == ("invalid", "command left the manifest")
    assert (decision.after.next_run_at, types(decision.events)) == (None, ["schedule.invalidated"])


def test_slots_open_when_it_turns_invalid_are_in_the_ledger_once() -> None:
    schedule = a_schedule(
        capacity=a_capacity(),
        next_slot_at=NINE,
        held_slot_at=at("08:00"),
        held_due_at=at("08:00"),
        held_reason="at_capacity",
    )
    decision = invalidate(schedule, at("09:00:00.2"), Shared(), "no such command")
    assert [entries(decision, slot_at) for slot_at in (at("08:00"), NINE)] == [1, 1]
    assert decision.after.held_slot_at is None


@pytest.mark.parametrize("status", ["paused", "done", "dead", "invalid"])
def test_only_an_active_schedule_turns_invalid(status: str) -> None:
    schedule = stopped(status)
    assert invalidate(schedule, NOW, Shared(), "no").after == schedule.state


def test_a_restored_schedule_goes_on_with_its_grid_and_fires_nothing_of_the_span() -> None:
    decision = restore(stopped("invalid", every="1h", anchor_at=at("08:15")), NOW, Shared())
    assert (decision.after.status, decision.after.next_slot_at) == ("active", at("10:15"))
    assert (decision.jobs, types(decision.events)) == ([], ["schedule.restored"])


def test_a_person_s_pause_is_not_ended_by_a_restore() -> None:
    schedule = stopped("paused")
    assert restore(schedule, NOW, Shared()).after == schedule.state


def test_a_restored_webhook_schedule_is_active() -> None:
    assert restore(stopped("invalid", on="webhook"), NOW, Shared()).after.status == "active"


def test_when_the_clock_went_back_a_restore_does_not_return_to_decided_slots() -> None:
    schedule = stopped("invalid", cron="0 * * * *", last_slot_at=at("11:00"))
    assert restore(schedule, NOW, Shared()).after.next_slot_at == at("12:00")


# -- the end --


def test_deleting_cancels_what_is_queued_whatever_its_origin_and_lets_the_rest_run() -> None:
    schedule = a_schedule(next_slot_at=at("10:00"))
    running = a_job(schedule, 1)
    queued = [
        a_job(schedule, 2, status="queued"),
        a_job(schedule, 3, status="queued", origin="manual"),
        a_job(schedule, 4, status="queued", origin="backfill"),
    ]
    decision = delete(with_jobs(schedule, running, *queued), NOW, Shared(), cancel_running=False, by="anna")
    assert cancelled(decision) == [(job.job_id, "deleted") for job in queued]
    assert (decision.events[-1].type, decision.events[-1].actor) == ("schedule.deleted", "anna")
    assert decision.after.outstanding == 1


def test_deleting_can_kill_what_runs() -> None:
    schedule = a_schedule(next_slot_at=at("10:00"))
    running = a_job(schedule, 1)
    decision = delete(with_jobs(schedule, running), NOW, Shared(), cancel_running=True, by=None)
    assert cancelled(decision) == [(running.job_id, "deleted")]


def test_a_slot_open_when_its_schedule_is_deleted_is_in_the_ledger() -> None:
    decision = delete(
        a_schedule(next_slot_at=NINE), at("09:00:00.1"), Shared(), cancel_running=False, by=None
    )
    assert entries(decision, NINE) == 1


def test_a_paused_schedule_can_be_deleted() -> None:
    decision = delete(stopped("paused"), NOW, Shared(), cancel_running=False, by=None)
    assert types(decision.events) == ["schedule.deleted"]


# -- chains --


def test_a_resumed_chain_starts_one_interval_from_now() -> None:
    after = resume(a_chain("5m", status="paused", next_slot_at=None), NOW, Shared()).after
    assert after.next_slot_at == at("09:35:01")


@pytest.mark.parametrize(("verb", "status"), [(resume, "paused"), (revive, "dead"), (restore, "invalid")])
def test_a_chain_with_a_run_in_flight_waits_for_its_end(verb: Any, status: str) -> None:
    schedule = a_chain("5m", status=status, next_slot_at=None)
    after = verb(with_jobs(schedule, a_job(schedule)), NOW, Shared()).after
    assert (after.status, after.next_slot_at, after.next_run_at) == ("active", None, None)


def test_a_chain_waits_for_a_queued_job_too_when_it_is_restored() -> None:
    schedule = a_chain("5m", status="invalid", next_slot_at=None)
    after = restore(with_jobs(schedule, a_waiting_retry(schedule)), NOW, Shared()).after
    assert (after.status, after.next_slot_at) == ("active", None)


def test_a_chain_does_not_wait_for_a_manual_run() -> None:
    schedule = a_chain("5m", status="paused", next_slot_at=None)
    after = resume(with_jobs(schedule, a_job(schedule, origin="manual")), NOW, Shared()).after
    assert after.next_slot_at == at("09:35:01")


def test_an_undecided_slot_of_a_chain_is_skipped_by_the_pause() -> None:
    decision = pause(a_chain("5m", next_slot_at=NINE), NOW, Shared(), by="anna")
    assert [(event.slot_at, event.slot_count) for event in decision.events[:-1]] == [(NINE, 1)]


# -- the end of a pause, and of a span --


@pytest.mark.parametrize(
    "schedule",
    [
        stopped("paused"),
        stopped("paused", resume_at=at("12:00")),
        a_schedule(next_slot_at=at("10:00"), resume_at=NINE),
    ],
)
def test_a_pause_that_has_no_end_yet_goes_on(schedule: Schedule) -> None:
    assert end_pause(schedule, NOW, Shared()).after == schedule.state


def test_a_pause_that_cannot_be_ended_says_why() -> None:
    good = stopped("paused", resume_at=NINE)

    class Broken(Plan):
        def calendar(self, anchor_at: int | None) -> Calendar:
            raise OverflowError("beyond the end of the calendar")

    broken = Schedule(good.state, Broken("reports", good.definition, None))
    after = end_pause(broken, NOW, Shared()).after
    assert (after.status, after.resume_at) == ("paused", None)
    assert after.status_reason == "cannot be resumed: beyond the end of the calendar"


def test_a_stopped_schedule_leaves_a_span_of_the_system_as_it_is() -> None:
    schedule = stopped("paused")
    assert leave_system_span(schedule, NINE, NOW, Shared()).after == schedule.state


def test_a_pause_until_an_instant_already_past_is_refused() -> None:
    with pytest.raises(TimetableError, match="until is already past"):
        pause(a_schedule(every="1h"), NOW, Shared(), by="person", until=NOW)


def test_a_pause_of_an_invalid_schedule_loses_its_until() -> None:
    decision = invalidate(stopped(resume_at=NOW + SECOND), NOW, Shared(), "no such plugin")
    assert (decision.after.status, decision.after.resume_at) == ("paused", None)
    assert decision.after.status_reason == "no such plugin"


def test_a_schedule_whose_last_slot_lay_in_a_system_pause_is_done() -> None:
    decision = leave_system_span(a_one_shot(NINE), NINE - SECOND, NOW, Shared())
    assert (decision.after.status, decision.after.status_reason) == ("done", "in_the_past")


def test_a_held_slot_keeps_a_schedule_active_whose_last_slot_lay_in_a_system_pause() -> None:
    held = {
        "held_slot_at": NINE - 60 * SECOND,
        "held_due_at": NINE - 60 * SECOND,
        "held_reason": "at_capacity",
    }
    decision = leave_system_span(a_one_shot(NINE, **held), NINE - SECOND, NOW, Shared())
    assert (decision.after.status, decision.after.next_slot_at) == ("active", None)
    assert (decision.after.held_slot_at, decision.events) == (NINE - 60 * SECOND, [])  # it waits on
