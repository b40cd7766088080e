"""The manual scheduler has what a person has: everything a test may want to do or ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.errors import SubmissionError
from everwhen.model.instants import to_datetime
from everwhen.model.schedule import Target
from everwhen.testing import ManualScheduler, manual_scheduler
from tests.submissions import Submission, create_schedule

START = "2026-01-05T08:00:00Z"


def scheduler() -> ManualScheduler:
    return manual_scheduler(START)


def test_a_pause_with_an_end_is_over_when_the_clock_has_come_there() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *")
    s.pause("a", until="2026-01-05T10:30:00Z", note="release")
    s.advance("4h")
    assert [f"{job.slot:%H:%M}" for job in s.jobs("a")] == ["11:00", "12:00"]
    (resumed,) = s.events("a", "schedule.resumed")
    assert (f"{to_datetime(resumed.at):%H:%M}", resumed.actor) == ("10:30", "until")
    assert s.check().is_clean


def test_a_pause_without_an_end_stays() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.pause("a")
    s.advance("4h")
    assert s.jobs("a") == []


def test_a_slot_found_late_begins_in_no_closed_time_and_is_in_the_ledger_once() -> None:
    s = scheduler()
    s.add("skips", cron="59 9 * * *", only_between="09:00-10:00")
    s.add("defers", cron="59 9 * * *", only_between="09:00-10:00", outside_window="defer")
    s.add("on_time", cron="59 9 * * *")
    s.run_until("2026-01-05T09:58:00Z")
    s.sleep("3m")
    s.step()
    assert [job.schedule_id for job in s.jobs()] == ["on_time"]
    assert s.why("skips").reason == "outside_window"
    assert "is held until Tue 2026-01-06 09:00:00 UTC" in s.why("defers", "2026-01-05T09:59:00Z").sentence
    assert s.check().is_clean
    s.run_until("2026-01-06T09:00:00Z")
    assert [f"{job.slot:%d %H:%M}" for job in s.jobs("defers")] == ["05 09:59"]
    assert s.check().is_clean


def test_past_slots_are_filled() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    s.sleep("3h30m")
    s.step()
    assert len(s.backfill("a", START, s.clock.moment, dry_run=True).slots) == 3
    s.backfill("a", START, s.clock.moment)
    s.step()
    assert [job.origin for job in s.jobs("a")] == ["backfill"] * 3


def test_it_tells_what_comes_and_why_something_did_not() -> None:
    s = scheduler()
    s.add("a", cron="0 * * * *", only_between="09:00-10:00")
    assert [slot.skip_reason for slot in s.upcoming("a", 2)] == [None, "outside_window"]
    s.advance("2h")
    assert s.why("a").reason == "outside_window"
    assert s.why("a", "2026-01-05T09:00:00Z").fate == "fired"


def test_a_paused_system_fires_nothing() -> None:
    s = scheduler()
    s.add("a", every="10m")
    s.pause_system()
    s.advance("1h")
    s.resume_system()
    s.advance("9m")
    assert s.jobs("a") == []
    assert s.check().is_clean


def test_the_jobs_of_a_process_that_died_are_taken_over() -> None:
    s = scheduler()
    s.add("a", every="1h")
    s.tick()
    (claimed,) = s.claim()
    s.restart()
    assert s.rescue() == 0  # its lease runs still
    s.sleep("31s")
    s.beat()
    assert s.rescue() == 1
    (again,) = s.claim()
    assert (again.job.job_id, again.job.attempt) == (claimed.job.job_id, 2)
    s.cancel_job(again.job.job_id)
    assert s.jobs("a")[0].reason == "person"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_restart_finds_what_the_last_process_left_in_the_database(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_sqlite = kind == "sqlite"
    url = f"sqlite:///{tmp_path}/a.db" if is_sqlite else request.getfixturevalue("everwhen_on_18").empty()
    s = manual_scheduler(START, database=url)
    s.add("a", every="1h")
    s.step()
    before = s.stack.database
    s.restart()
    assert s.stack.database is not before
    s.advance("1h")
    assert [job.status for job in s.jobs("a")] == ["succeeded", "succeeded"]
    assert s.check().is_clean
    s.close()


def test_a_month_from_now_by_default_is_distinguished_from_now() -> None:
    s = scheduler()
    fields = {"every": "monthly"}
    create_schedule(s.runtime, Submission("m", fields, Target("command"), first_run="after_interval"))
    create_schedule(s.runtime, Submission("n", fields, Target("command")))
    s.advance("40d")
    assert [f"{job.slot:%d %B}" for job in s.jobs("m")] == ["05 February"]
    assert [f"{job.slot:%d %B}" for job in s.jobs("n")] == ["05 January", "05 February"]
    report = s.check()
    assert report.is_clean, str(report)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"if_runing": "queue"}, 'if_runing: unknown key, did you mean "if_running"?'),
        ({"catch_up_limit": 500_000}, "catch_up_limit: must be a whole number from 1 to 100,000, not 500000"),
        ({"interval_seconds": 60}, 'interval_seconds: unknown key, did you mean "interval_from"?'),
        ({"quiet_hours": "nights"}, 'quiet_hours: there are no quiet hours "nights"'),
    ],
)
def test_a_schedule_of_a_test_is_checked_as_one_of_a_file(keys: dict[str, Any], problem: str) -> None:
    s = manual_scheduler()
    s.add("a", every="1m")
    for call in (s.add, s.edit):
        with pytest.raises(SubmissionError) as caught:
            call("a" if call == s.edit else "b", every="1m", **keys)
        assert str(caught.value) == problem
    assert s.state("a").revision == 1
