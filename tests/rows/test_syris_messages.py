"""Rows M: SYRIS's messages."""

from __future__ import annotations

import json
from typing import Any

from everwhen.model.message import message_target
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window

TEMPLATE = {
    "content": {"text": "Good morning.", "structured": {"kind": "greeting"}},
    "source": {"thread_id": "family"},
    "actor": "ann",
}


def said(s: ManualScheduler) -> list[dict[str, Any]]:
    return [json.loads(message.body) for message in store_of(s.runtime).messages.after(0, limit=1_000)]


def test_m1_a_schedule_emits_message_events_and_all_of_it_is_in_the_database() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("greeting", cron="0 9 * * 1-5", timezone="UTC", target=message_target(TEMPLATE))
    s.advance("2h")
    s.restart()
    (event,) = said(s)
    assert event["schema_version"] == "1.0"
    assert event["occurred_at"] == "2026-01-05T09:00:00Z"
    assert event["source"]["channel"] == "scheduler"
    assert event["source"]["connector_id"] == "greeting"
    assert event["source"]["thread_id"] == "family"
    assert event["actor"] == "ann"
    assert event["content"] == TEMPLATE["content"]
    s.advance("24h")
    assert len(said(s)) == 2


def test_m4_in_quiet_hours_nothing_is_said_and_the_skip_is_on_record() -> None:
    s = manual_scheduler("2026-01-05T21:30:00Z")
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window("22:00-07:00")),))
    store_of(s.runtime).catalogue.add_policy(
        s.clock.now(), QuietHoursPolicy("nights", "nights", hours, "skip")
    )
    s.add("greeting", cron="0 * * * *", quiet_hours="nights", target=message_target(TEMPLATE))
    s.advance("9h30m")
    assert [event["occurred_at"] for event in said(s)] == ["2026-01-06T07:00:00Z"]
    assert {event.reason for event in s.events("greeting", "schedule.skipped")} == {"quiet_hours"}
    assert s.check().is_clean


def test_m4_message_last_run_and_next_run_are_one_commit() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("greeting", every="1h", target=message_target(TEMPLATE))
    commits = s.stack.database.change_counter()
    s.tick()
    assert s.stack.database.change_counter() == commits + 1
    assert len(said(s)) == 1
    state = s.state("greeting")
    assert state.last_run_at == s.clock.now()
    assert state.next_run_at == s.clock.now() + 3_600_000_000


def test_m6_a_missed_window_is_said_once_with_its_number_on_record() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("greeting", every="10m", catch_up="run_once", target=message_target(TEMPLATE))
    s.step()
    s.sleep("1h6m")
    s.step()
    assert len(said(s)) == 2
    (caught,) = s.events("greeting", "schedule.caught_up")
    assert caught.slot_count == 6
    assert s.check().is_clean
