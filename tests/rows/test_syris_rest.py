"""Rows M1, M2, M6 and M7 over REST: a schedule in SYRIS's words, what it says, and what is on record of a window."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.testing import ManualClock
from tests.api.serving import Service, serving
from tests.rows.served import served

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
        service.runtime.slots.tick(service.runtime.clock.now(), limit=500, behind=behind)


def test_m1_a_schedule_emits_message_events_that_are_in_the_database(
    service: Service, clock: ManualClock
) -> None:
    made = service.admin.post("/schedules/", BODY).fields
    clock.advance("1m")
    tick(service)
    (said,) = service.admin.get("/messages/").fields["items"]
    event = said["event"]
    assert (event["source"]["channel"], event["source"]["connector_id"]) == ("scheduler", made["id"])
    assert (event["content"]["text"], event["source"]["thread_id"]) == ("Good morning!", "family")
    assert event["context"]["timezone"] == "Europe/Paris"
    state = service.admin.get(f"/schedules/{made['id']}/").fields
    assert state["last_fired_at"] is not None and state["next_run_at"] is not None


def test_m9_the_payload_is_read_as_the_json_text_that_its_column_has(
    service: Service, clock: ManualClock
) -> None:
    made = service.admin.post("/schedules/", {**BODY, "payload": json.dumps(BODY["payload"])}).fields
    assert made["run"] == service.admin.post("/schedules/", BODY).fields["run"]
    evening = json.dumps({"content": {"text": "Good evening!"}})
    changed = service.admin.call("PATCH", f"/schedules/{made['id']}/", {"payload": evening})
    assert (changed.status, changed.fields["run"]["message"]["content"]["text"]) == (200, "Good evening!")
    for text in ("{", "[]", "null", '"text"', "{" * 10_000, '{"content": 1}', ""):
        refused = service.admin.post("/schedules/", {**BODY, "payload": text})
        assert (refused.status, refused.fields["errors"][0]["path"].split(".")[0]) == (422, "payload"), text
    masked = json.dumps({"content": {"structured": {"api_token": "***"}}})
    refused = service.admin.patch(f"/schedules/{made['id']}/", {"payload": masked})
    assert refused.fields["errors"][0]["path"] == "payload.content.structured.api_token"
    general = {"every": "1h", "run": {"message": {"text": "hello"}}, "payload": '{"a": 1}'}
    assert service.admin.post("/schedules/", general).fields["errors"][0]["path"] == "payload"
    chosen = {**BODY, "run": {"message": {"text": "hello"}}, "payload": '{"a": 1}'}
    assert service.admin.post("/schedules/", chosen).fields["errors"][0]["path"] == "payload"


def test_m6_run_once_fires_once_for_the_window_and_the_audit_has_the_count(
    service: Service, clock: ManualClock
) -> None:
    made = service.admin.post("/schedules/", BODY).fields
    clock.advance("10m45s")  # ten slots, the last of them 45 s ago
    tick(service)
    assert service.admin.get("/messages/").fields["total"] == 1
    (event,) = service.admin.get(f"/audit/?schedule_id={made['id']}&type=schedule.caught_up").fields["items"]
    assert event["slot_count"] == 10
    assert event["job_id"] is not None


@pytest.mark.parametrize(("limit", "count"), [(3, 3), (None, 100)])
def test_m7_run_all_capped_fires_the_configured_number_and_the_remainder_on_no_later_tick(
    tmp_path: Path, limit: int | None, count: int
) -> None:
    with served(tmp_path, start="2026-01-05T08:00:00Z") as node:
        cap = {} if limit is None else {"catch_up_limit": limit}
        schedule = node.create({**BODY, "catch_up_policy": "run_all_capped", **cap})
        node.scheduler.sleep("150m45s")
        node.scheduler.advance("3m")
        jobs = node.admin.get(f"/jobs/?schedule_id={schedule['id']}&limit=500").fields["items"]
        origins = [job["origin"] for job in jobs]
        assert (origins.count("catch_up"), origins.count("schedule")) == (count, 3)
        record = node.admin.get(
            f"/audit/?schedule_id={schedule['id']}&type=schedule.missed&limit=200"
        ).fields["items"]
        assert {event["reason"] for event in record} == {"catch_up_limit"}
        assert sum(event["slot_count"] for event in record) == 150 - count


def test_m2_cron_fires_at_each_match_interval_from_its_last_run_and_one_shot_once_then_it_disables_itself(
    tmp_path: Path,
) -> None:
    with served(tmp_path, start="2026-01-05T08:00:00Z") as node:
        each = {"timezone": "Europe/Paris", "payload": BODY["payload"]}
        cron = node.create({"name": "cron", "type": "cron", "spec": "30 9,17 * * 1-5", **each})
        interval = node.create({"name": "interval", "type": "interval", "spec": "25200", **each})
        once = node.create({"name": "once", "type": "one_shot", "spec": "2026-01-05T09:10:00+01:00", **each})
        assert [made["spec"] for made in (cron, interval)] == ["30 9,17 * * 1-5", "25200"]
        node.scheduler.advance("25h")
        assert node.slots(cron["id"]) == [
            "2026-01-05T08:30:00Z",
            "2026-01-05T16:30:00Z",
            "2026-01-06T08:30:00Z",
        ]
        assert node.slots(interval["id"]) == [
            "2026-01-05T15:00:00Z",
            "2026-01-05T22:00:00Z",
            "2026-01-06T05:00:00Z",
        ]
        last = node.schedule(interval["id"])
        assert (last["last_run_at"], last["next_run_at"]) == ("2026-01-06T05:00:00Z", "2026-01-06T12:00:00Z")
        over = node.schedule(once["id"])
        assert node.slots(once["id"]) == ["2026-01-05T08:10:00Z"]
        assert (over["enabled"], over["status"], over["next_run_at"]) == (False, "done", None)
        said = [
            item["event"]["source"]["connector_id"] for item in node.admin.get("/messages/").fields["items"]
        ]
        assert sorted(said) == sorted([cron["id"]] * 3 + [interval["id"]] * 3 + [once["id"]])
