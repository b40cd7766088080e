"""Rows P3, P10 and P15 to P19: Pipelit's eight endpoints, asked as its document has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import FILE, Service, serving
from tests.rows.served import served

# Word for word from the document.
BODY = """
{
"name": "Daily report",
"workflow_id": 1,
"trigger_node_id": "trigger_schedule_abc123",
"interval_seconds": 86400,
"total_repeats": 0,
"max_retries": 3,
"timeout_seconds": 600,
"trigger_payload": {"report_type": "daily"}
}
"""


WORKFLOWS = """
workflows:
  "1": {name: Daily report, run: {command: ["true"]}, triggers: [trigger_schedule_abc123, trigger_other]}
  "2": {name: Other, run: {command: ["true"]}, triggers: [trigger_schedule_abc123]}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("pipelit"), file=WORKFLOWS) as service:
        yield service


def create(service: Service, **changes: Any) -> dict[str, Any]:
    answer = service.admin.post("/schedules/", {**json.loads(BODY), **changes})
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def seconds_until(later: str, earlier: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def test_p3_a_schedule_has_all_of_pipelits_columns(service: Service) -> None:
    made = create(service, description="For the team", user_profile_id=7)
    assert made["workflow_id"] == 1
    assert made["user_profile_id"] == "7"
    assert (made["current_repeat"], made["current_retry"], made["run_count"], made["error_count"]) == (
        0,
        0,
        0,
        0,
    )
    assert (made["last_run_at"], made["last_error"], made["description"]) == (None, None, "For the team")
    assert (made["interval_seconds"], made["timeout_seconds"], made["max_retries"]) == (86400, 600, 3)
    assert create(service, workflow_id="1")["workflow_id"] == "1"


def test_p3_defaults_are_pipelits(service: Service) -> None:
    made = service.admin.post(
        "/schedules/", {"name": "short", "workflow_id": 1, "interval_seconds": 300}
    ).fields
    assert (made["total_repeats"], made["max_retries"], made["timeout_seconds"]) == (0, 3, 600)
    assert (made["retry_delay"], made["on_exhausted"], made["trigger_payload"]) == ("5m", "stop", {})
    general = {"every": "5m", "max_retries": 3, "run": {"workflow": {"id": 1}}}
    assert service.admin.post("/schedules/", general).fields["on_exhausted"] == "continue"


def test_p10_the_payload_is_what_the_workflow_will_get(service: Service) -> None:
    made = create(service)
    schedule = service.runtime.catalogue.get(made["id"])
    assert schedule is not None
    assert json.loads(schedule.definition.payload) == {"report_type": "daily"}
    assert json.loads(schedule.definition.target.spec)["trigger_node_id"] == "trigger_schedule_abc123"


def test_p10_an_unknown_trigger_node_is_taken_and_fails_at_its_run(tmp_path: Path) -> None:
    with served(tmp_path, file=WORKFLOWS) as node:
        body = {"name": "early", "workflow_id": 1, "trigger_node_id": "not-yet", "interval_seconds": 60}
        schedule = node.create(body)
        node.scheduler.advance("1m")
        (job,) = node.jobs(schedule["id"])
        assert job["status"] == "failed"
        assert job["error"] == f"No matching trigger found for scheduled job {schedule['id']}"


def test_p15_the_eight_endpoints(service: Service) -> None:
    created = service.admin.post("/schedules/", raw=BODY.encode())
    assert created.status == 201
    path = f"/schedules/{created.fields['id']}/"
    assert created.fields["id"] in [
        i["id"] for i in service.admin.get("/schedules/?status=active").fields["items"]
    ]
    assert created.fields["id"] in [
        i["id"] for i in service.admin.get("/schedules/?workflow_id=1").fields["items"]
    ]
    assert service.admin.get("/schedules/?workflow_id=2").fields == {
        "items": [],
        "total": 0,
        "total_is_approximate": False,
        "next_cursor": None,
    }
    assert service.admin.get(path).fields == created.fields
    changed = service.admin.patch(path, {"interval_seconds": 3600})
    assert (changed.status, changed.fields["interval_seconds"], changed.fields["retry_delay"]) == (
        200,
        3600,
        "1h",
    )
    assert service.admin.post(f"{path}pause/").fields["status"] == "paused"
    assert service.admin.post(f"{path}resume/").fields["status"] == "active"
    assert service.admin.call("DELETE", path).status == 204
    ids = [create(service)["id"] for _ in range(2)]
    assert service.admin.post("/schedules/batch-delete/", {"schedule_ids": ids}).status == 204
    assert [service.admin.get(f"/schedules/{each}/").status for each in ids] == [404, 404]


@pytest.mark.parametrize(
    ("key", "value", "repeated_as"),
    [
        ("name", "Weekly report", "name"),
        ("description", "For the board", "description"),
        ("workflow_id", "2", "workflow_id"),
        ("trigger_node_id", "trigger_other", "trigger_node_id"),
        ("interval_seconds", 3600, "interval_seconds"),
        ("total_repeats", 5, "total_repeats"),
        ("max_retries", 7, "max_retries"),
        ("timeout_seconds", 45, "timeout_seconds"),
        ("trigger_payload", {"report_type": "weekly"}, "payload"),
    ],
)
def test_p15_patch_changes_each_of_the_nine_keys_and_no_other(
    service: Service, key: str, value: object, repeated_as: str
) -> None:
    # No value is the one that the key would have by default.
    before = create(service, description="For the team", total_repeats=9, max_retries=4, timeout_seconds=120)
    path = f"/schedules/{before['id']}/"
    patched = service.admin.patch(path, {key: value})
    assert patched.status == 200, patched.raw
    assert (patched.status, patched.fields[key], patched.fields[repeated_as]) == (200, value, value)
    assert service.admin.get(path).fields == patched.fields
    others = {*json.loads(BODY), "description"} - {key}
    assert {name: patched.fields[name] for name in others} == {name: before[name] for name in others}


def test_p15_create_enqueues_the_first_run_one_interval_from_now(service: Service) -> None:
    made = create(service)
    assert made["status"] == "active"
    assert 86400 <= seconds_until(made["next_run_at"], made["created_at"]) <= 86401


def test_p16_the_body_of_the_document_works_as_it_stands(service: Service) -> None:
    made = service.admin.post("/schedules/", raw=BODY.encode()).fields
    assert {key: made[key] for key in json.loads(BODY)} == json.loads(BODY)


def test_p17_resume_makes_it_active_and_its_next_run_is_one_interval_from_now(tmp_path: Path) -> None:
    with served(tmp_path, file=FILE, start="2026-01-05T08:00:00Z") as node:
        path = f"/schedules/{node.create({**json.loads(BODY), 'interval_seconds': 600})['id']}/"
        node.scheduler.advance("4m")
        assert node.admin.post(f"{path}pause/").fields["next_run_at"] is None
        node.scheduler.advance("33m", work=False)
        resumed = node.admin.post(f"{path}resume/").fields
        assert (resumed["status"], resumed["next_run_at"]) == ("active", "2026-01-05T08:47:00Z")
        assert node.schedule(resumed["id"]) == resumed
        node.scheduler.advance("9m59s", work=False)
        assert node.slots(resumed["id"]) == []  # neither the old grid nor what the pause has passed over
        node.scheduler.advance("1s", work=False)
        assert node.slots(resumed["id"]) == ["2026-01-05T08:47:00Z"]


def test_p18_only_active_is_paused_and_only_paused_resumed(service: Service) -> None:
    path = f"/schedules/{create(service)['id']}/"
    answer = service.admin.post(f"{path}resume/")
    assert (answer.status, answer.fields["detail"]) == (400, "Cannot resume job with status 'active'.")
    service.admin.post(f"{path}pause/")
    answer = service.admin.post(f"{path}pause/")
    assert (answer.status, answer.fields["detail"]) == (400, "Cannot pause job with status 'paused'.")


def test_p19_pause_keeps_the_counters_and_delete_is_for_ever(service: Service) -> None:
    made = create(service)
    path = f"/schedules/{made['id']}/"
    paused = service.admin.post(f"{path}pause/").fields
    assert paused["next_run_at"] is None
    for counter in ("run_count", "error_count", "current_repeat", "current_retry", "fire_count"):
        assert paused[counter] == made[counter]
    service.admin.call("DELETE", path)
    assert service.admin.get(path).fields["detail"] == "Scheduled job not found."
