"""`expect`: by when a success is due, over zones, clock changes, closed times, pauses and downtimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.errors import ConfigError, TimetableError
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import instant_of
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.operations import quiet_hours
from everwhen.store.opened import store_of
from everwhen.testing.manual import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window

FAILED = Outcome("failed", error="no")
SUCCEEDED = Outcome("succeeded")


def a_scheduler(start: str = "2026-01-05T00:00:00Z", *, fails: bool = False) -> ManualScheduler:
    scheduler = manual_scheduler(start)
    scheduler.outcome = lambda _claimed: FAILED if fails else SUCCEEDED
    return scheduler


def set_failing(scheduler: ManualScheduler, is_failing: bool) -> None:
    def outcome(_claimed: ClaimedJob) -> Outcome:
        return FAILED if is_failing else SUCCEEDED

    scheduler.outcome = outcome


def silent(scheduler: ManualScheduler) -> list[str]:
    found = scheduler.events(None, "schedule.silent")
    return [f"{datetime.fromtimestamp(one.at / 1e6, UTC):%d %H:%M}" for one in found]


def test_each_slot_needs_a_success_within_its_grace_and_a_silence_is_reported_once() -> None:
    s = a_scheduler()
    s.add("s", cron="0 9 * * *", expect={"each": "slot", "grace": "30m"})
    s.advance("2d")
    assert silent(s) == []
    set_failing(s, True)
    s.advance("3d")
    assert silent(s) == ["07 09:30"]
    s.restart()
    s.advance("2d")
    assert silent(s) == ["07 09:30"]
    set_failing(s, False)
    s.advance("1d")
    set_failing(s, True)
    s.advance("1d")
    assert silent(s) == ["07 09:30", "13 09:30"]
    assert s.check().is_clean


@pytest.mark.parametrize("start", ["2026-01-05T08:00:00Z", "2026-01-05T08:00:00.400Z"])
def test_the_first_slot_which_is_that_of_the_creation_is_expected_too(start: str) -> None:
    scheduler = a_scheduler(start, fails=True)
    scheduler.add("a", every="1d", expect=True)
    scheduler.advance("70m")
    assert silent(scheduler) == ["05 09:00"]
    scheduler = a_scheduler(start)
    scheduler.add("a", every="1d", expect=True)
    scheduler.advance("3d")
    assert silent(scheduler) == []


def test_true_means_each_slot_with_an_hour_of_grace() -> None:
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect=True)
    s.advance("1d")
    assert silent(s) == ["05 10:00"]


def test_a_job_that_still_runs_at_the_deadline_is_late_and_the_text_says_so() -> None:
    s = a_scheduler()
    s.add("s", cron="0 9 * * *", expect={"each": "slot", "grace": "30m"}, timeout="12h")
    s.run_until("2026-01-05T09:00:00Z", work=False)
    s.claim()
    s.advance("1h", work=False)
    (event,) = s.events(None, "schedule.silent")
    assert event.detail["text"] == (
        "no success by Mon 2026-01-05 09:30:00 UTC, after a slot that should have had one; a job is still running"
    )


@pytest.mark.parametrize("fails", [False, True])
def test_clock_changes_make_no_false_alarm(fails: bool) -> None:
    s = a_scheduler("2026-03-28T00:00:00Z", fails=fails)
    s.add("s", cron="30 2 * * *", timezone="Europe/Berlin", expect={"each": "slot", "grace": "10m"})
    s.advance("3d")
    assert silent(s) == (["28 01:40"] if fails else [])


def test_closed_time_is_not_expected_and_a_deferred_slot_is_at_its_opening() -> None:
    s = a_scheduler(fails=True)
    s.add("skips", every="1h", only_between="09:00-10:00", expect=True)
    s.advance("8h")
    assert silent(s) == []
    s.advance("3h")
    assert silent(s) == ["05 10:00"]
    s = a_scheduler()
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("22:00-07:00")),))
    quiet_hours.create_quiet_hours(s.runtime, QuietHoursPolicy("nights", "nights", hours, "defer"))
    s.add("deferred", cron="30 5 * * *", quiet_hours="nights", expect={"each": "slot", "grace": "10m"})
    s.advance("3d")
    assert silent(s) == []
    set_failing(s, True)
    s.advance("1d")
    assert silent(s) == ["08 07:10"]


def test_a_span_counts_open_time_only() -> None:
    s = a_scheduler()
    s.add("hook", type="webhook", only_between="08:00-18:00", expect={"within": "12h", "grace": "30m"})
    s.run_until("2026-01-05T12:00:00Z")
    s.fire("hook")
    s.advance("1d")
    assert silent(s) == []
    s.advance("1d")
    assert silent(s) == ["06 14:30"]


def test_a_chain_is_expected_within_a_span() -> None:
    s = a_scheduler()
    s.add("chain", every="1h", interval_from="completion", expect={"within": "3h"})
    s.advance("12h")
    assert silent(s) == []
    set_failing(s, True)
    s.advance("12h")
    assert silent(s) == ["05 15:00"]


def test_a_pause_of_the_schedule_or_the_system_stops_the_clock_and_its_end_starts_it() -> None:
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect=True)
    s.pause("s")
    s.advance("3d")
    s.resume("s")
    assert silent(s) == []
    s.pause_system()
    s.advance("3d")
    assert silent(s) == []
    s.resume_system()
    s.advance("1d")
    assert silent(s) == ["11 10:00"]


def test_an_edit_of_expect_starts_the_clock_and_another_one_does_not() -> None:
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect=True)
    s.run_until("2026-01-05T09:30:00Z")
    s.edit("s", cron="0 9 * * *", expect=True, name="other")
    s.advance("1h")
    assert silent(s) == ["05 10:00"]
    s.edit("s", cron="0 9 * * *", expect={"each": "slot", "grace": "2h"})
    s.advance("25h")
    assert silent(s) == ["05 10:00", "06 11:00"]
    s.edit("s", cron="0 9 * * *")
    s.advance("3d")
    assert len(silent(s)) == 2


def test_a_downtime_does_not_count_and_what_was_due_before_it_keeps_its_grace() -> None:
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect=True)
    s.run_until("2026-01-05T08:00:00Z")
    s.sleep("6h")  # over the slot
    s.restart()
    s.advance("18h")
    assert silent(s) == []  # the slot was missed, which tells of it
    s.run_until("2026-01-06T09:20:00Z")
    s.sleep("5h")
    s.restart()
    s.advance("30m")
    assert silent(s) == []
    s.advance("20m")
    assert silent(s) == ["06 15:00"]  # forty minutes were left


def test_a_downtime_of_seconds_does_not_count_either() -> None:
    s = a_scheduler()
    s.add("s", cron="0 9 * * *", expect={"each": "slot", "grace": "20s"}, timeout="12h")
    s.run_until("2026-01-05T09:00:00Z", work=False)
    s.claim()
    s.advance("10s", work=False)
    s.sleep("45s")  # a restart; the job runs on beside it
    s.restart()
    s.advance("9s", work=False)
    assert silent(s) == []
    s.advance("1s", work=False)
    (event,) = s.events(None, "schedule.silent")
    assert event.at == instant_of(datetime(2026, 1, 5, 9, 1, 5, tzinfo=UTC))


def test_a_slot_of_a_downtime_that_fires_late_is_expected_from_then_on() -> None:
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect={"each": "slot", "grace": "10m"})
    s.add("closed", cron="0 9 * * *", only_between="08:00-09:01", expect={"each": "slot", "grace": "10m"})
    s.run_until("2026-01-05T08:59:50Z")
    s.sleep("2m")
    s.restart()
    s.advance("1h")
    assert [event.schedule_id for event in s.events(None, "schedule.silent")] == ["s"]
    assert silent(s) == ["05 09:11"]


@pytest.mark.parametrize(
    ("length", "silences"), [("6m", []), ("4m45s", []), ("4m25s", ["06 09:14"]), ("10s", ["06 09:10"])]
)
def test_a_slot_of_a_downtime_that_is_missed_or_nearly_so_is_not_expected(
    length: str, silences: list[str]
) -> None:
    s = a_scheduler()
    s.add("s", cron="0 9 * * *", expect={"each": "slot", "grace": "10m"})
    s.run_until("2026-01-06T08:59:59Z")
    set_failing(s, True)
    s.sleep(length)
    s.restart()
    s.advance("1h")
    assert silent(s) == silences


def test_a_closed_slot_that_is_the_newest_of_a_downtime_is_not_expected() -> None:
    s = a_scheduler(fails=True)
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("08:55-09:00")),))
    quiet_hours.create_quiet_hours(s.runtime, QuietHoursPolicy("break", "break", hours, "skip"))
    s.add("s", cron="50,59 8 * * *", quiet_hours="break", expect={"each": "slot", "grace": "10m"})
    s.run_until("2026-01-05T08:49:00Z")
    s.sleep("12m")
    s.restart()
    s.advance("1h")
    assert silent(s) == []


def test_a_deadline_that_passed_before_a_downtime_is_a_silence() -> None:
    s = a_scheduler()
    s.add("s", type="webhook", expect={"within": "2h", "grace": "1s"})
    s.clock.advance("2h")
    s.clock.advance("2s")
    s.beat()  # the node ends before it looks
    s.sleep("3h")
    s.restart()
    assert silent(s) == ["05 05:00"]


def test_a_clock_that_has_started_after_a_downtime_is_not_moved_by_it() -> None:
    s = a_scheduler()
    s.add("early", type="webhook", expect={"within": "2h", "grace": "1s"})
    s.add("late", type="webhook", expect={"within": "2h", "grace": "1s"})
    s.add("slot", cron="0 * * * *", expect={"each": "slot", "grace": "5m"})
    s.add("resumed", cron="20,50 * * * *", expect={"each": "slot", "grace": "5m"})
    s.fire("early")
    s.work()
    s.pause("resumed")
    start = s.clock.now()
    s.clock.advance("30m")
    s.beat()
    s.fire("late")
    s.work()
    s.resume("resumed")
    before = {key: s.state(key).expect_at for key in ("early", "late", "slot", "resumed")}
    store_of(s.runtime).slots.move_deadlines(
        start, start + 600_000_000
    )  # by a node that had to find out first
    moved = {key: (s.state(key).expect_at or 0) - (before[key] or 0) for key in before}
    assert moved == {"early": 600_000_000, "late": 0, "slot": 0, "resumed": 0}


def test_a_manual_success_ends_the_silence_and_starts_the_clock() -> None:
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect=True)
    s.advance("12h")
    assert silent(s) == ["05 10:00"]
    set_failing(s, False)
    s.trigger("s")
    s.step()
    set_failing(s, True)
    assert s.state("s").last_success_at is None  # it counts for nothing else
    s.advance("1d")
    assert silent(s) == ["05 10:00", "06 10:00"]


def test_a_backfilled_success_ends_no_silence() -> None:
    """It is a run of the past, and says nothing of whether the schedule works now."""
    s = a_scheduler(fails=True)
    s.add("s", cron="0 9 * * *", expect=True)
    s.advance("12h")
    assert silent(s) == ["05 10:00"]
    s.sleep("1d")
    s.tick()
    set_failing(s, False)
    s.backfill("s", "2026-01-06T00:00:00Z", "2026-01-07T00:00:00Z")
    s.step()
    assert [job.status for job in s.jobs("s") if job.origin == "backfill"] == ["succeeded"]
    assert s.state("s").expect_at is None


def test_a_process_that_moves_no_deadline_makes_no_false_alarm() -> None:
    s = a_scheduler()
    s.add("s", cron="0 9 * * *", expect=True)
    s.run_until("2026-01-05T09:10:00Z")
    state = s.state("s")
    assert state.expect_at == int((datetime(2026, 1, 6, 10, tzinfo=UTC)).timestamp() * 1e6)
    assert timedelta(microseconds=state.expect_at - s.clock.now()) > timedelta(days=1)


def test_a_schedule_that_is_over_is_not_expected() -> None:
    s = a_scheduler()
    s.add("once", at="2026-01-05T09:00:00Z", expect=True)
    s.add("twice", cron="0 9 * * *", total_repeats=2, expect=True)
    s.advance("9d")
    assert silent(s) == []
    assert s.state("twice").expect_at is None


@pytest.mark.parametrize(
    "keys",
    [
        {"type": "webhook", "expect": True},
        {"every": "1h", "interval_from": "completion", "expect": {"each": "slot"}},
        {"every": "1h", "expect": {"grace": "1h"}},
        {"every": "1h", "expect": {"each": "slot", "within": "1h"}},
        {"every": "1h", "expect": False},
    ],
)
def test_an_expectation_that_means_nothing_is_refused(keys: dict[str, object]) -> None:
    with pytest.raises((ConfigError, TimetableError)):
        a_scheduler().add("s", **keys)


def test_without_expect_nothing_is_on_the_row() -> None:
    s = a_scheduler()
    s.add("s", every="1h")
    s.advance("3h")
    assert s.state("s").expect_at is None
