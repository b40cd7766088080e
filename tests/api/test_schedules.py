"""Schedules over REST: made in every shape, listed by pages, edited at once, deleted."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from everwhen.api.payloads import model_of
from everwhen.views.schedules import Schedule
from tests.api.serving import HTTP_RUN, Service


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_schedule_has_every_documented_key_and_no_other(service: Service) -> None:
    made = service.admin.create(name="whole", jitter="5m", not_on=["sat"], only_between="08:00-18:00")
    model_of(Schedule).model_validate(made, strict=False)
    assert set(made) == set(model_of(Schedule).model_fields) - {
        "recent",
        "usual_seconds",
    }  # of lists, on request
    assert service.admin.get(f"/schedules/{made['id']}/").fields == made


def test_the_id_is_a_uuid_and_the_uid(service: Service) -> None:
    made = service.admin.create()
    assert made["id"] == made["uid"]
    assert len(made["id"]) == 36 and made["id"][14] == "7"


def test_paths_work_with_and_without_the_last_slash(service: Service) -> None:
    made = service.admin.create()
    assert service.admin.get(f"/schedules/{made['id']}").fields == made
    assert service.admin.get("/schedules").status == 200


def test_the_shape_with_a_spec_publishes_a_message(service: Service) -> None:
    body = {
        "name": "Good morning",
        "type": "interval",
        "spec": "300",
        "catch_up_policy": "run_all_capped",
        "payload": {"content": {"text": "Hello"}, "source": {"thread_id": "family"}},
    }
    made = service.admin.post("/schedules/", body).fields
    assert (made["type"], made["spec"], made["timezone"]) == ("interval", "300", "UTC")
    assert (made["catch_up_policy"], made["target"]) == ("run_all", "message")
    assert made["run"] == {"message": body["payload"]}
    edited = service.admin.patch(f"/schedules/{made['id']}/", {"name": "other"}).fields
    assert edited["run"] == made["run"]


def test_every_problem_of_a_body_is_reported_at_once_with_its_path(service: Service) -> None:
    answer = service.admin.post("/schedules/", {"every": "5x", "timezone": "Mars/Base", "jiter": "5s"})
    assert (answer.status, answer.problem) == (422, "invalid")
    found = {fault["path"]: fault["message"] for fault in answer.fields["errors"]}
    assert found["every"] == 'Invalid time unit "x". Valid units are: s, m, h, d'
    assert found["jiter"] == 'unknown key, did you mean "jitter"?'
    assert "timezone" in found


def test_an_unknown_workflow_is_404(service: Service) -> None:
    answer = service.admin.post("/schedules/", {"workflow_id": "77", "interval_seconds": 60})
    assert (answer.status, answer.fields["detail"]) == (404, "Workflow not found.")


def test_pages_go_through_all_newest_first_and_no_item_comes_twice(service: Service) -> None:
    made = [service.admin.create(name=f"page {number}", owner="pages")["id"] for number in range(7)]
    seen: list[str] = []
    path = "/schedules/?owner=pages&limit=3"
    while True:
        page = service.admin.get(path).fields
        assert (page["total"], page["total_is_approximate"]) == (7, False)
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        path = f"/schedules/?owner=pages&limit=3&cursor={page['next_cursor']}"
    assert seen == made[::-1]
    offset = service.admin.get("/schedules/?owner=pages&limit=2&offset=4").fields
    assert [item["id"] for item in offset["items"]] == made[::-1][4:6]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("q=NEEDLE", {"A needle here"}),
        ("type=cron", {"by cron"}),
        ("target=message", {"says something"}),
        ("workflow_id=1", {"of a workflow"}),
        ("group=1", {"of a workflow"}),
        ("status=paused", {"by cron"}),
        ("status=disabled", {"by cron"}),
        ("status=dead", set()),
    ],
)
def test_filters_are_joined(service: Service, query: str, names: set[str]) -> None:
    admin, owner = service.admin, f"filters {query}"
    admin.create(name="A needle here", owner=owner)
    admin.create(name="by cron", every=None, cron="0 2 * * *", enabled=False, owner=owner)
    admin.create(name="says something", run={"message": {"text": "x"}}, owner=owner)
    admin.create(name="of a workflow", run=None, workflow_id="1", owner=owner)
    quoted = owner.replace(" ", "%20").replace("=", "%3D")
    found = admin.get(f"/schedules/?owner={quoted}&{query}").fields
    assert {item["name"] for item in found["items"]} == names
    assert found["total"] == len(names)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "offset=-1", "cursor=nonsense", "status=lively", "limit=x", "q="]
)
def test_parameters_that_cannot_be_are_refused(service: Service, query: str) -> None:
    answer = service.admin.get(f"/schedules/?{query}")
    assert (answer.status, answer.problem) == (422, "invalid")


def test_an_edit_takes_effect_at_once_and_keeps_the_rest(service: Service) -> None:
    made = service.admin.create(every="1h", jitter="5m", name="before", payload={"a": 1})
    answer = service.admin.patch(f"/schedules/{made['id']}/", {"cron": "0 2 * * *", "jitter": None})
    edited = answer.fields
    assert (edited["type"], edited["every"], edited["jitter"], edited["name"]) == (
        "cron",
        None,
        None,
        "before",
    )
    assert (edited["revision"], answer.headers["etag"]) == (2, '"2"')
    assert when(edited["next_run_at"]).strftime("%H:%M") == "02:00"
    assert edited["payload"] == {"a": 1}


def test_an_edit_of_nothing_makes_no_revision(service: Service) -> None:
    made = service.admin.create(name="same")
    assert service.admin.patch(f"/schedules/{made['id']}/", {"name": "same"}).fields["revision"] == 1


def test_an_edit_of_another_revision_is_refused(service: Service) -> None:
    path = f"/schedules/{service.admin.create()['id']}/"
    assert service.admin.patch(path, {"name": "one"}, headers={"If-Match": '"1"'}).status == 200
    answer = service.admin.patch(path, {"name": "two"}, headers={"If-Match": '"1"'})
    assert (answer.status, answer.problem) == (412, "changed-meanwhile")
    assert service.admin.get(path).fields["name"] == "one"
    assert service.admin.patch(path, {"name": "x"}, headers={"If-Match": "one"}).status == 422
    assert service.admin.patch(path, {"name": "any"}, headers={"If-Match": "*"}).status == 200


def test_an_edit_with_mistakes_changes_nothing(service: Service) -> None:
    made = service.admin.create()
    path = f"/schedules/{made['id']}/"
    answer = service.admin.patch(path, {"name": "other", "timezone": "Mars/Base"})
    assert (answer.status, answer.fields["errors"][0]["path"]) == (422, "timezone")
    assert service.admin.get(path).fields == made


def test_enabled_is_a_switch(service: Service) -> None:
    made = service.admin.create(every="1h")
    path = f"/schedules/{made['id']}/"
    off = service.admin.patch(path, {"enabled": False, "name": "off"}).fields
    assert (off["status"], off["paused_by"], off["next_run_at"], off["name"]) == (
        "paused",
        "token",
        None,
        "off",
    )
    on = service.admin.patch(path, {"enabled": True}).fields
    assert (on["status"], on["enabled"]) == ("active", True)


def test_a_key_names_one_schedule_however_often_it_is_put(service: Service) -> None:
    body: dict[str, Any] = {"every": "1h", "run": HTTP_RUN, "name": "first"}
    first = service.admin.call("PUT", "/schedules/key/my.report/", body)
    again = service.admin.call("PUT", "/schedules/key/my.report/", {**body, "name": "second"})
    assert (first.status, again.status) == (201, 200)
    assert again.fields["id"] == first.fields["id"]
    assert (again.fields["key"], again.fields["name"], again.fields["revision"]) == ("my.report", "second", 2)


def test_a_deleted_schedule_is_gone(service: Service) -> None:
    made = service.admin.create()
    path = f"/schedules/{made['id']}/"
    assert service.admin.call("DELETE", path).status == 204
    answer = service.admin.get(path)
    assert (answer.status, answer.fields["detail"]) == (404, "Scheduled job not found.")
    assert service.admin.call("DELETE", path).status == 404


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_an_idempotency_key_of_no_or_too_many_characters_is_refused(service: Service, key: str) -> None:
    answer = service.admin.post(
        "/schedules/", {"every": "1h", "run": HTTP_RUN}, headers={"Idempotency-Key": key}
    )
    assert (answer.status, answer.problem) == (422, "invalid")
    assert [one["path"] for one in answer.fields["errors"]] == ["Idempotency-Key"]


def test_the_same_idempotency_key_makes_one_schedule(service: Service) -> None:
    body = {"every": "1h", "run": HTTP_RUN, "owner": "once"}
    headers = {"Idempotency-Key": "order-7"}
    first = service.admin.post("/schedules/", body, headers=headers)
    again = service.admin.post("/schedules/", body, headers=headers)
    assert (again.status, again.fields) == (201, first.fields)
    assert again.headers["idempotent-replayed"] == "true"
    other = service.admin.post("/schedules/", {**body, "name": "other"}, headers=headers)
    assert (other.status, other.problem) == (422, "idempotency-key-reused")
    assert service.admin.get("/schedules/?owner=once").fields["total"] == 1
    # Another token's keys are its own.
    assert service.client().post("/schedules/", body, headers=headers).fields["id"] != first.fields["id"]


def test_actions_by_hand(service: Service) -> None:
    made = service.admin.create(every="1h")
    path = f"/schedules/{made['id']}"
    until = when(made["created_at"]) + timedelta(hours=3)
    paused = service.admin.post(f"{path}/pause/", {"note": "away", "until": until.isoformat()}).fields
    assert (paused["status_reason"], when(paused["resume_at"])) == ("away", until)
    assert service.admin.post(f"{path}/resume/").fields["status"] == "active"
    fired = service.admin.post(f"{path}/trigger/", {"payload": {"by": "hand"}})
    assert fired.status == 202
    assert (fired.fields["job"]["origin"], fired.fields["job"]["payload"]) == ("manual", {"by": "hand"})
    revived = service.admin.post(f"{path}/revive/")
    assert (revived.status, revived.fields["detail"]) == (400, "Cannot revive job with status 'active'.")
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "dry_run": True}
    assert service.admin.post(f"{path}/backfill/", span).fields["count"] == 0
    coming = service.admin.get(f"{path}/upcoming/?limit=3").fields["items"]
    assert [when(b["slot_at"]) - when(a["slot_at"]) for a, b in pairwise(coming)] == [timedelta(hours=1)] * 2
    assert service.admin.get(f"{path}/why/").fields["sentence"]


def test_many_are_paused_each_by_itself(service: Service) -> None:
    ids = [service.admin.create()["id"] for _ in range(3)]
    service.admin.post(f"/schedules/{ids[0]}/pause/")
    found = service.admin.post("/schedules/batch-pause/", {"schedule_ids": [*ids, "unknown"]}).fields
    assert (found["total"], found["failed"]) == (4, 2)
    assert [one["schedule"] is not None for one in found["items"]] == [False, True, True, False]
    assert found["items"][0]["problem"]["detail"] == "Cannot pause job with status 'paused'."
    assert service.admin.post("/schedules/batch-resume/", {"schedule_ids": ids}).fields["failed"] == 0
    assert service.admin.post("/schedules/batch-delete/", {"schedule_ids": [*ids, "unknown"]}).status == 204
    assert {service.admin.get(f"/schedules/{each}/").status for each in ids} == {404}
