"""Rows M1 and M6 over REST: a schedule in SYRIS's words, what it says, and what is on record of a window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.testing import ManualClock
from tests.api.serving import Service, serving

BODY = {
    "name": "Good morning",
    "type": "interval",
    "spec": "60",
    "timezone": "Europe/Paris",
    "catch_up_policy": "run_once",
    "payload": {"content": {"text": "Good morning!"}, "source": {"thread_id": "family"}},
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05T08:00:00Z")


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    with serving(tmp_path, clock=clock) as found:
        yield found


def tick(service: Service) -> None:
    for behind in (False, True):
        service.house.slots.tick(service.house.clock.now(), limit=500, behind=behind)


def test_m1_a_schedule_emits_message_events_that_are_in_the_database(
    service: Service, clock: ManualClock
) -> None:
    made = service.admin.post("/schedules/", BODY).words
    clock.advance("1m")
    tick(service)
    (said,) = service.admin.get("/messages/").words["items"]
    event = said["event"]
    assert (event["source"]["channel"], event["source"]["connector_id"]) == ("scheduler", made["id"])
    assert (event["content"]["text"], event["source"]["thread_id"]) == ("Good morning!", "family")
    assert event["context"]["timezone"] == "Europe/Paris"
    state = service.admin.get(f"/schedules/{made['id']}/").words
    assert state["last_fired_at"] is not None and state["next_run_at"] is not None


def test_m6_run_once_fires_once_for_the_window_and_the_audit_has_the_count(
    service: Service, clock: ManualClock
) -> None:
    made = service.admin.post("/schedules/", BODY).words
    clock.advance("10m45s")  # ten slots, the last of them 45 s ago
    tick(service)
    assert service.admin.get("/messages/").words["total"] == 1
    (event,) = service.admin.get(f"/audit/?schedule_id={made['id']}&type=schedule.caught_up").words["items"]
    assert event["slot_count"] == 10
    assert event["job_id"] is not None
