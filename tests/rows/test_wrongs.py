"""Rows W: what the source systems got wrong, kept as tests."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.schedule import QuietHoursPolicy
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window


def scheduler(start: str = "2026-01-05T08:00:00Z") -> ManualScheduler:
    return manual_scheduler(start)


def walls(s: ManualScheduler, schedule_id: str) -> list[str]:
    return [f"{job.slot:%H:%M}" for job in s.jobs(schedule_id)]


def test_w1_a_faster_schedule_of_the_same_command_does_not_push_the_slower() -> None:
    s = scheduler()
    shared: dict[str, Any] = {"group": "withings", "command": "poll", "max_outstanding": 1}
    s.add("withings.fast", every="5m", **shared)
    s.add("withings.slow", every="30m", **shared)
    s.advance("1h")
    assert walls(s, "withings.slow") == ["08:00", "08:30", "09:00"]
    assert len(walls(s, "withings.fast")) == 13
    assert s.check().is_clean


def test_w2_a_dedupe_key_does_not_outlive_the_job_in_flight() -> None:
    s = scheduler()
    s.add("withings.poll", group="withings", command="poll", every="20m", max_outstanding=1)
    s.advance("24h")
    assert len(s.jobs()) == 73


def test_w3_a_new_cron_schedule_fires_at_its_first_slot_and_at_its_second() -> None:
    s = scheduler("2026-01-05T08:59:30Z")
    s.add("a", cron="0 * * * *")
    s.advance("2h")
    assert walls(s, "a") == ["09:00", "10:00"]


def test_w7_a_paused_schedule_never_fires_and_a_manual_run_never_shifts_it() -> None:
    s = scheduler()
    s.add("a", every="1h", first_run="after_interval")
    before = s.state("a").next_run_at
    s.advance("10m")
    s.trigger("a")
    s.step()
    state = s.state("a")
    assert (state.next_run_at, state.run_count, state.fire_count) == (before, 0, 1)
    s.pause("a")
    s.advance("5h")
    assert [job.origin for job in s.jobs("a")] == ["manual"]
    assert s.check().is_clean


@pytest.mark.parametrize(
    ("policy", "expected"), [("run_once", ["09:00"]), ("run_all", ["09:00"]), ("skip", [])]
)
def test_w9_after_an_outage_a_daily_job_runs_by_its_policy_at_once(policy: str, expected: list[str]) -> None:
    s = scheduler("2026-01-05T08:00:00Z")
    s.add("a", cron="0 9 * * *", catch_up=policy)
    s.sleep("6h")
    s.restart()
    s.step()
    assert walls(s, "a") == expected
    assert all(job.created_at == s.clock.now() for job in s.jobs("a"))


@pytest.mark.parametrize(
    "fields",
    [
        {"every": "1h"},
        {"cron": "0 * * * *"},
        {"at": "2026-01-05T23:00:00Z"},
        {"every": "1h", "interval_from": "completion"},
    ],
)
def test_w11_quiet_hours_are_kept_by_every_kind_of_trigger(fields: dict[str, Any]) -> None:
    s = scheduler("2026-01-05T22:00:00Z")
    hours = QuietHours(zone("Europe/Paris"), (QuietWindow(parse_window("22:00-08:00")),))
    store_of(s.runtime).catalogue.add_policy(s.clock.now(), QuietHoursPolicy("nights", "nights", hours))
    s.add("a", quiet_hours="nights", **fields)
    s.advance("8h30m")  # until 07:30 in Paris
    assert s.jobs("a") == []
    assert {event.reason for event in s.events("a", "schedule.skipped")} == {"quiet_hours"}
    assert s.check().is_clean


def test_w11_what_is_past_the_cap_does_not_fire_on_later_ticks() -> None:
    s = scheduler()
    s.add("a", every="10m", catch_up="run_all", catch_up_limit=2, first_run="after_interval")
    s.sleep("2h5s")
    s.step()
    fired = len(s.jobs("a"))
    for _ in range(10):
        s.step()
    assert len(s.jobs("a")) == fired == 3
    assert s.check().is_clean


def test_w12_a_changed_time_changes_the_next_run_in_the_same_commit() -> None:
    s = scheduler()
    s.add("a", cron="0 9 * * *")
    assert s.edit("a", cron="30 8 * * *").next_run_at == s.clock.now() + 1_800_000_000
    s.advance("2h")
    assert walls(s, "a") == ["08:30"]
    assert s.check().is_clean
