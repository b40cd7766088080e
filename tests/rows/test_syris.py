"""Rows M: SYRIS's durable schedules, as far as deciding and storing go."""

from __future__ import annotations

from typing import Any

from everwhen.model.schedule import QuietHoursPolicy
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window


def scheduler(start: str = "2026-01-05T08:00:00Z") -> ManualScheduler:
    return manual_scheduler(start)


def put_quiet_hours(s: ManualScheduler, between: str, action: Any = "skip") -> None:
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window(between)),))
    store_of(s.runtime).catalogue.add_policy(
        s.clock.now(), QuietHoursPolicy("nights", "nights", hours, action)
    )


def test_m4_quiet_hours_skip_on_record_and_advance_in_the_same_commit() -> None:
    s = scheduler("2026-01-05T21:30:00Z")
    put_quiet_hours(s, "22:00-07:00")
    s.add("a", cron="0 * * * *", quiet_hours="nights")
    s.advance("1h")
    (skipped,) = s.events("a", "schedule.skipped")
    assert (skipped.reason, f"{s.jobs('a')}") == ("quiet_hours", "[]")
    assert skipped.slot_at is not None
    assert s.state("a").next_run_at == skipped.slot_at + 3_600_000_000
    s.advance("9h")
    assert [f"{job.slot:%H:%M}" for job in s.jobs("a")] == ["07:00"]
    assert s.check().is_clean


def test_m4_a_fired_slot_its_row_and_its_next_time_are_one_commit() -> None:
    s = scheduler()
    s.add("a", every="1h")
    commits = s.stack.database.change_counter()
    store_of(s.runtime).slots.tick(s.clock.now(), limit=10, behind=False)
    assert s.stack.database.change_counter() == commits + 1
    assert (len(s.jobs("a")), s.state("a").next_run_at) == (1, s.clock.now() + 3_600_000_000)


def test_m5_skip_advances_to_the_next_future_slot_with_one_event_per_missed_slot() -> None:
    s = scheduler()
    s.add("a", every="10m", first_run="after_interval", catch_up="skip")
    s.sleep("66m")
    s.restart()
    s.step()
    missed = s.events("a", "schedule.missed")
    assert [event.slot_count for event in missed] == [1] * 6
    assert (s.state("a").next_run_at or 0) > s.clock.now()
    assert s.jobs("a") == []


def test_m5_past_a_hundred_the_rest_is_one_event() -> None:
    s = scheduler()
    s.add("a", every="1m", catch_up="skip")
    s.sleep("5h30s")
    s.restart()
    s.step()
    missed = s.events("a", "schedule.missed")
    assert len(missed) == 101
    assert sum(event.slot_count for event in missed) == 300
    assert s.check().is_clean


def test_m6_run_once_fires_once_for_the_window_and_notes_the_count() -> None:
    s = scheduler()
    s.add("a", every="10m", first_run="after_interval", catch_up="run_once")
    s.sleep("66m")
    s.step()
    (job,) = s.jobs("a")
    assert (job.origin, f"{job.slot:%H:%M}") == ("catch_up", "09:00")
    (caught_up,) = s.events("a", "schedule.caught_up")
    assert (caught_up.slot_count, caught_up.job_id) == (6, job.job_id)
    assert s.check().is_clean


def test_m7_run_all_capped_fires_up_to_n_and_skips_the_remainder() -> None:
    s = scheduler()
    s.add("a", every="10m", first_run="after_interval", catch_up="run_all_capped", catch_up_limit=2)
    s.sleep("66m")
    s.step()
    assert [f"{job.slot:%H:%M}" for job in s.jobs("a")] == ["08:50", "09:00"]
    assert [event.reason for event in s.events("a", "schedule.missed")] == ["catch_up_limit"] * 4
    s.advance("4m")
    assert len(s.jobs("a")) == 3  # only the regular slot: the remainder stays missed
    assert s.check().is_clean


def test_m9_the_columns_of_the_schedules_table() -> None:
    s = scheduler()
    s.add("a", cron="0 9 * * 1-5", timezone="Europe/Paris", payload={"text": "hi"}, name="Morning")
    with s.stack.database.read() as connection:
        row = connection.execute(
            """SELECT schedule_id, name, enabled, type, spec, next_run_at, last_run_at, timezone,
            quiet_hours_policy_id, catch_up_policy, payload, created_at, updated_at FROM schedules"""
        ).fetchone()
    assert row[:5] == ("a", "Morning", 1, "cron", "0 9 * * 1-5")
    assert row[6:11] == (None, "Europe/Paris", None, "skip", '{"text": "hi"}')
    assert s.pause("a").status == "paused"
    with s.stack.database.read() as connection:
        assert connection.execute("SELECT enabled FROM schedules").fetchone() == (0,)
