"""What a person can do, beyond creating and pausing."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

import pytest

from everwhen.decide.edit import edit
from everwhen.errors import (
    BackfillError,
    DuplicateScheduleError,
    PolicyInUseError,
    UnknownJobError,
)
from everwhen.model.changes import Decision
from everwhen.model.instants import to_datetime
from everwhen.model.limits import Shared
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import Plan, QuietHoursPolicy, Schedule, Target
from everwhen.operations.breakers import get_breaker, reset_breaker
from everwhen.operations.jobs import backfill, cancel_job, fire_schedule
from everwhen.operations.maintenance import prune
from everwhen.operations.quiet_hours import create_quiet_hours, delete_own_quiet_hours, list_entries
from everwhen.operations.schedules import pause_system, resume_system, uids_from
from everwhen.operations.upcoming import upcoming
from everwhen.store.opened import store_of
from everwhen.store.sqlite.database import Lane
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import Every
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from tests.submissions import Submission, create_schedules


def scheduler(start: str = "2026-01-05T08:00:00Z") -> ManualScheduler:
    return manual_scheduler(start)


def nights() -> QuietHoursPolicy:
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("22:00-07:00")),))
    return QuietHoursPolicy("nights", "Nights", hours)


def test_creating_many_is_all_or_nothing() -> None:
    s = scheduler()
    submissions = [Submission(name, {"every": "1h"}, Target("command")) for name in ("a", "b", "a")]
    with pytest.raises(DuplicateScheduleError, match='duplicate schedule id "a"'):
        create_schedules(s.runtime, submissions)
    assert store_of(s.runtime).catalogue.states(ScheduleFilter(), limit=10) == []


def test_uids_drawn_for_many_are_twelve_hexadecimal_digits_each_its_own() -> None:
    s = scheduler()
    submissions = [Submission(f"s{n}", {"every": "1h"}, Target("command")) for n in range(50)]
    uids = {
        state.uid
        for call in (submissions[:25], submissions[25:])
        for state in create_schedules(s.runtime, call)
    }
    assert len(uids) == 50
    assert all(re.fullmatch("[0-9a-f]{12}", uid) for uid in uids)


def test_a_run_of_uids_goes_on_at_the_front_when_it_reaches_the_end() -> None:
    assert list(islice(uids_from(2**48 - 1), 2)) == ["f" * 12, "0" * 12]


def test_schedules_are_listed_by_id_and_filter() -> None:
    s = scheduler()
    for name in ("c", "a", "b"):
        s.add(name, every="1h")
    s.pause("b")
    catalogue = store_of(s.runtime).catalogue
    assert [state.schedule_id for state in catalogue.states(ScheduleFilter(), limit=2)] == ["a", "b"]
    assert [state.schedule_id for state in catalogue.states(ScheduleFilter(), limit=9, after="b")] == ["c"]
    assert [state.schedule_id for state in catalogue.states(ScheduleFilter(status="paused"), limit=9)] == [
        "b"
    ]


def test_upcoming_shows_exact_slots_with_jitter_and_predicted_skips() -> None:
    s = scheduler()
    s.add("a", every="1h", jitter="10m", only_between="08:00-10:00")
    found = upcoming(s.runtime, "a", 3)
    s.advance("1h30m")
    assert [job.due_at for job in s.jobs("a")] == [slot.due_at for slot in found[:2]]
    assert [slot.skip_reason for slot in found] == [None, None, "outside_window"]


def test_upcoming_of_a_chain_is_one_exact_slot_and_estimates() -> None:
    s = scheduler()
    s.add("a", every="1h", interval_from="completion")
    assert [slot.is_estimate for slot in upcoming(s.runtime, "a", 3)] == [False, True, True]
    s.tick()
    assert upcoming(s.runtime, "a") == []  # the next slot does not exist while one is in flight


def test_a_person_cancels_a_queued_job_and_the_next_in_line_runs() -> None:
    s = scheduler()
    s.add("a", every="1m", if_running="queue")
    s.advance("1m", work=False)
    first, second = s.jobs("a")
    cancel_job(s.runtime, first.job_id)
    assert (s.jobs("a")[0].status, s.jobs("a")[0].reason) == ("cancelled", "person")
    (claimed,) = s.claim()
    assert claimed.job.job_id == second.job_id
    s.settle(claimed)
    assert s.check().is_clean
    with pytest.raises(UnknownJobError):
        cancel_job(s.runtime, "sched-nobody-n1-rc0")


def test_cancelling_the_job_of_a_chain_lets_the_chain_go_on() -> None:
    s = scheduler()
    s.add("a", every="10m", interval_from="completion")
    s.tick()
    cancel_job(s.runtime, s.jobs("a")[0].job_id)
    assert s.state("a").next_run_at == s.clock.now() + 600_000_000
    assert s.check().is_clean


def test_an_edit_after_a_cancelled_run_counts_from_the_runs_end() -> None:
    s = scheduler()
    s.add("a", every="10m", interval_from="completion")
    s.tick()
    s.claim()
    s.advance("8m", work=False)
    cancel_job(s.runtime, s.jobs("a")[0].job_id)
    assert s.edit("a", every="5m", interval_from="completion").next_run_at == s.clock.now() + 300_000_000


def test_backfill_fills_the_slots_that_have_no_job_and_moves_nothing() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.sleep("3h30m")
    s.step()  # three are missed
    before = s.state("a")
    start, end = s.clock.moment.replace(hour=8, minute=0), s.clock.moment
    assert len(backfill(s.runtime, "a", start, end, dry_run=True).slots) == 3
    assert s.jobs("a") == []
    slots = list(backfill(s.runtime, "a", start, end).slots)
    s.step()
    assert [job.origin for job in s.jobs("a")] == ["backfill"] * 3
    assert [job.slot_at for job in s.jobs("a")] == slots
    after = s.state("a")
    assert (after.next_run_at, after.run_count, after.outstanding) == (before.next_run_at, 0, 0)
    assert backfill(s.runtime, "a", start, end).slots == ()
    assert s.check().is_clean


def test_backfill_follows_the_grid_that_was_in_force() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.advance("10m")
    s.pause("a")
    s.advance("30m")
    s.resume("a")  # from now on at forty past
    start = s.clock.moment
    s.sleep("3h10m")
    s.step()
    s.edit("a", every="2h")
    slots = backfill(s.runtime, "a", start, s.clock.moment, dry_run=True).slots
    assert [f"{to_datetime(slot):%H:%M}" for slot in slots] == ["09:40", "10:40", "11:40"]


def test_backfill_is_refused_for_chains_and_for_too_many_slots() -> None:
    s = scheduler()
    s.add("chain", every="1m", interval_from="completion")
    s.add("many", every="1s")
    start = s.clock.moment
    s.sleep("1h")
    with pytest.raises(BackfillError, match="no past slots"):
        backfill(s.runtime, "chain", start, s.clock.moment)
    with pytest.raises(BackfillError, match="3,600 slots, and at most 1,000 are filled"):
        backfill(s.runtime, "many", start, s.clock.moment)


def test_a_breaker_is_closed_by_hand() -> None:
    s = scheduler()
    s.add("a", every="1m", circuit_breaker={"threshold": 2, "reset_after": "1h"})
    s.outcome = lambda claimed: Outcome("failed", error="no")
    s.advance("3m")
    assert get_breaker(s.runtime, "a")[0].state == "open"
    assert reset_breaker(s.runtime, "a") is True
    breaker, transitions = get_breaker(s.runtime, "a")
    assert (breaker.state, transitions[0].reason) == ("closed", "manual_reset")
    assert reset_breaker(s.runtime, "a") is False
    s.advance("1m")
    assert len(s.jobs("a")) == 3


def test_quiet_hours_in_use_cannot_be_deleted() -> None:
    s = scheduler()
    create_quiet_hours(s.runtime, nights())
    s.add("a", every="1h", quiet_hours="nights")
    with pytest.raises(PolicyInUseError, match="used by 1 schedule"):
        delete_own_quiet_hours(s.runtime, "nights")
    s.delete("a")
    delete_own_quiet_hours(s.runtime, "nights")
    assert list_entries(s.runtime) == []


def test_a_system_pause_is_a_span_for_everybody() -> None:
    s = scheduler()
    s.add("a", every="10m", first_run="after_interval")
    pause_system(s.runtime)
    s.advance("1h")
    assert s.jobs("a") == []
    resume_system(s.runtime)
    s.advance("10m")
    assert [f"{job.slot:%H:%M}" for job in s.jobs("a")] == ["09:10"]
    assert s.check().is_clean


def test_pruning_forgets_what_is_old_and_keeps_what_is_outstanding() -> None:
    s = scheduler()
    s.add("a", every="1d")
    s.add("endless", every="1000d")
    s.step(work=False)
    for claimed in s.claim():
        if claimed.job.schedule_id == "a":
            s.settle(claimed)
    s.advance("100d")
    before = len(s.jobs())
    deleted = prune(s.runtime)
    assert deleted["jobs"] == before - len(s.jobs()) > 0
    assert {job.status for job in s.jobs()} >= {"running"}


def test_a_definition_that_cannot_be_read_stops_nobody_else() -> None:
    s = scheduler()
    s.add("spoilt", every="10m")
    s.add("other", every="10m")
    s.stack.database.write(
        Lane.API,
        lambda c: c.execute(
            """UPDATE schedule_revisions SET words = '{"trigger": {}}' WHERE schedule_id = 'spoilt'"""
        ),
    )
    s.restart()
    s.advance("30m")
    assert len(s.jobs("other")) == 4
    state = s.state("spoilt")
    assert state.status == "invalid" and "cannot be read" in (state.status_reason or "")


def test_an_own_job_by_request_takes_and_gives_back_its_places() -> None:
    s = scheduler()
    s.add("g.hook", group="g", type="webhook", max_outstanding=1, max_concurrent=2)
    fire_schedule(s.runtime, "g.hook")
    assert s.state("g.hook").last_fired_at == s.clock.now()
    s.step()
    assert s.state("g.hook").run_count == 1
    assert s.check().is_clean


def test_a_change_that_waited_for_its_turn_counts_from_its_turn() -> None:
    """Its clock was read, then a slot fired, then it was written: the slot stays with the revision that fired it."""
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1s")
    s.step()
    asked_at = s.clock.now()
    s.clock.advance(1)
    s.step()

    def slower(schedule: Schedule, now: int, shared: Shared) -> Decision:
        definition = replace(schedule.definition, trigger=Every(3, "3s"))
        return edit(schedule, Plan("a", definition, None), now, shared)

    store_of(s.runtime).catalogue.change(asked_at, "a", slower)
    s.advance("10s")
    report = s.check()
    assert report.is_clean, report


def test_a_switch_of_the_system_that_waited_for_its_turn_counts_from_its_turn() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1s")
    s.step()
    asked_at = s.clock.now()
    s.clock.advance(1)
    s.step()
    store_of(s.runtime).catalogue.set_system_paused(asked_at, is_paused=True)
    s.advance("5s")
    s.resume_system()
    s.advance("5s")
    report = s.check()
    assert report.is_clean, report


# -- what is said when it happens --


@pytest.mark.parametrize(("every", "failures"), [("1h", 1), ("59m", 3)])
def test_slots_that_fail_in_a_row_are_said_once_until_the_next_success(every: str, failures: int) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.add("a", every=every)
    for slots in range(1, 6):
        s.step()
        assert len(s.events("a", "schedule.failing")) == (slots >= failures)
        s.advance(every)
    (event,) = s.events("a", "schedule.failing")
    assert (event.detail["failed_slots"], event.detail["last_error"]) == (failures, "no luck")
    s.outcome = lambda claimed: SUCCEEDED
    s.advance(every)
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.advance("5h")
    assert len(s.events("a", "schedule.failing")) == 2
    assert s.check().is_clean


@pytest.mark.parametrize("status", ["active", "paused"])
def test_an_edit_to_fewer_failures_reports_slots_that_have_failed_already(status: str) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.outcome = lambda claimed: Outcome("failed", error="no luck")
    s.add("a", every="10m")
    s.advance("10m")
    assert (s.state("a").failed_slots, s.events("a", "schedule.failing")) == (2, [])
    if status == "paused":
        s.pause("a")
    s.edit("a", every="2h")
    (event,) = s.events("a", "schedule.failing")
    assert event.detail == {"failed_slots": 2, "last_error": "no luck"}
    s.edit("a", every="3h")
    s.advance("1d")
    assert len(s.events("a", "schedule.failing")) == 1
    assert s.check().is_clean


def test_the_last_firing_that_a_budget_allows_is_reported() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    for name in ("a", "b"):
        s.add(name, every="10m", owner="team", budgets={"team": {"fires_per_hour": 3}})
    s.advance("2h")
    reached = s.events(None, "budget.reached")
    assert {one.detail["key"] for one in reached} == {"budget:team"}
    refills = [str(to_datetime(one.detail["refill_at"])) for one in reached]  # type: ignore[arg-type]
    assert refills == ["2026-01-05 09:00:00+00:00", "2026-01-05 10:00:00+00:00"]  # once in an hour


def test_the_last_error_is_a_message_and_the_traceback_stays_with_the_job() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: no luck'
    s.outcome = lambda claimed: Outcome("failed", error=trace, error_type="ValueError")
    s.add("a", every="1h", max_retries=0, on_exhausted="stop")
    s.step()
    assert (s.state("a").last_error, s.state("a").last_error_type) == ("no luck", "ValueError")
    assert s.jobs("a")[0].error == trace
    for event in s.events("a", "schedule.died", "schedule.failing"):
        assert (event.detail["last_error"], event.detail["last_error_type"]) == ("no luck", "ValueError")
    assert "its job failed: ValueError: no luck" in s.why("a").sentence
    assert s.check().is_clean


def test_a_failure_that_is_no_exception_has_no_type() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    outcomes = iter(
        [Outcome("failed", error="boom", error_type="ValueError"), Outcome("failed", error="exit code 1")]
    )
    s.outcome = lambda claimed: next(outcomes)
    s.add("a", every="1h")
    s.advance("1h")
    assert (s.state("a").last_error, s.state("a").last_error_type) == ("exit code 1", None)
    assert s.check().is_clean


@pytest.mark.parametrize("column", ["last_error", "last_error_type"])
def test_the_checker_refuses_another_last_error_than_that_of_the_last_failure(column: str) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.outcome = lambda claimed: Outcome(
        "failed", error="Traceback (most recent call last):\nE: x", error_type="E"
    )
    s.add("a", every="1h")
    s.step()
    assert s.check().is_clean
    s.stack.database.write(Lane.API, lambda tx: tx.execute(f"UPDATE schedules SET {column} = 'y'"))
    assert ["last_error" in fault.sentence for fault in s.check().faults] == [True]
