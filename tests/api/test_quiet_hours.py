"""Quiet hours and breakers over REST."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen.config.read import Host, read_configuration
from everwhen.model.limits import Breaker
from everwhen.model.queries import EventFilter
from everwhen.operations.apply import apply
from tests.api.serving import HTTP_RUN, Service, serving
from tests.api.working import FAILED, ran, triggered

NIGHTS = {
    "timezone": "Europe/Paris",
    "windows": [{"days": ["mon", "fri"], "between": "22:00-07:00"}],
    "dates": ["2026-12-25", {"from": "2026-12-31", "to": "2027-01-01"}],
    "action": "defer",
}


def made(service: Service, policy_id: str, **fields: Any) -> dict[str, Any]:
    answer = service.admin.post("/quiet-hours/", {"id": policy_id, **NIGHTS, **fields})
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def test_quiet_hours_are_made_listed_changed_and_deleted(service: Service) -> None:
    policy = made(service, "nights", name="At night")
    assert policy == {
        "id": "nights",
        "name": "At night",
        "timezone": "Europe/Paris",
        "windows": [{"days": ["monday", "friday"], "between": "22:00-07:00"}],
        "dates": ["2026-12-25", {"from": "2026-12-31", "to": "2027-01-01"}],
        "action": "defer",
        "source": "api",
    }
    assert service.admin.get("/quiet-hours/nights/").fields == policy
    assert policy in service.admin.get("/quiet-hours/").fields["items"]
    changed = service.admin.patch(
        "/quiet-hours/nights/", {"windows": [{"between": "21:00-08:00"}], "dates": None}
    )
    assert changed.fields["windows"] == [{"days": None, "between": "21:00-08:00"}]
    assert (changed.fields["dates"], changed.fields["action"]) == ([], "defer")
    assert service.admin.patch("/quiet-hours/nights/", {"name": None}).fields["name"] == "nights"
    assert service.admin.call("DELETE", "/quiet-hours/nights/").status == 204
    for method in ("GET", "DELETE"):
        assert service.admin.call(method, "/quiet-hours/nights/").problem == "not-found"
    assert service.admin.patch("/quiet-hours/nights/", {}).problem == "not-found"


def test_an_id_is_given_or_drawn_and_taken_once(service: Service) -> None:
    made(service, "once")
    again = service.admin.post("/quiet-hours/", {"id": "once", **NIGHTS})
    assert (again.status, again.problem) == (409, "duplicate")
    assert len(service.admin.post("/quiet-hours/", NIGHTS).fields["id"]) == 36


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"windows": [{"between": "7-8"}]}, "windows[0].between"),
        ({"windows": [{"days": ["someday"], "between": "22:00-07:00"}]}, "windows[0].days"),
        ({"dates": ["tomorrow"]}, "dates[0]"),
        ({"action": "sleep"}, "action"),
        ({"windos": []}, "windos"),
        ({"windows": None, "dates": None}, ""),
    ],
)
def test_what_is_wrong_is_reported_with_its_path_and_changes_nothing(
    service: Service, change: dict[str, Any], path: str
) -> None:
    if service.admin.get("/quiet-hours/steady/").status == 404:
        made(service, "steady")
    before = service.admin.get("/quiet-hours/steady/").fields
    for answer in (
        service.admin.patch("/quiet-hours/steady/", change),
        service.admin.post("/quiet-hours/", {"id": "bad", **NIGHTS, **change}),
    ):
        assert (answer.status, answer.problem) == (422, "invalid")
        assert [fault["path"] for fault in answer.fields["errors"]] == [path]
    assert service.admin.get("/quiet-hours/steady/").fields == before
    assert service.admin.get("/quiet-hours/bad/").status == 404


@pytest.mark.parametrize("body", [[], "text", 7, None])
def test_a_body_that_is_no_object_is_refused(service: Service, body: Any) -> None:
    assert service.admin.call("POST", "/quiet-hours/", raw=str(body).encode()).status in (400, 422)
    assert service.admin.post("/quiet-hours/", {"id": 7}).status == 422
    assert service.admin.post("/quiet-hours/", {"id": "a.b", **NIGHTS}).status == 422


def test_those_in_use_stay_and_say_who_uses_them(service: Service) -> None:
    made(service, "used")
    schedule = service.admin.create(quiet_hours="used")
    answer = service.admin.call("DELETE", "/quiet-hours/used/")
    assert (answer.status, answer.problem) == (409, "in-use")
    assert schedule["id"] in answer.fields["detail"]
    assert service.admin.get("/quiet-hours/used/").status == 200


def test_those_of_the_file_are_changed_there(tmp_path: Path) -> None:
    file = 'quiet_hours: {nights: {windows: [{between: "22:00-07:00"}]}}'
    with serving(tmp_path, file=file) as service:
        read = read_configuration(tmp_path / "everwhen.yaml", Host({}, lambda: "UTC", 0))
        apply(service.runtime, read.declared)
        assert service.admin.get("/quiet-hours/nights/").fields["source"] == "config"
        for answer in (
            service.admin.patch("/quiet-hours/nights/", {"action": "defer"}),
            service.admin.call("DELETE", "/quiet-hours/nights/"),
        ):
            assert (answer.status, answer.problem) == (409, "declared-elsewhere")


def test_only_tokens_without_an_owner_change_them(service: Service) -> None:
    made(service, "shared")
    for client in (service.client("viewer"), service.client("admin", owner="ada")):
        assert client.get("/quiet-hours/shared/").status == 200
        assert client.post("/quiet-hours/", {"id": "mine", **NIGHTS}).status == 403
        assert client.patch("/quiet-hours/shared/", {"action": "skip"}).status == 403
        assert client.call("DELETE", "/quiet-hours/shared/").status == 403
    assert service.client("operator").patch("/quiet-hours/shared/", {"action": "skip"}).status == 200


# -- breakers --


def test_a_breaker_tells_its_changes_and_is_closed_by_hand(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        fields = {"circuit_breaker": {"threshold": 1, "reset_after": "30m"}, "first_run": "immediately"}
        schedule = service.admin.create(**fields)
        key = schedule["id"]
        assert service.admin.get(f"/breakers/{key}/").fields["state"] == "closed"
        assert service.admin.get("/breakers/").fields == {"items": [], "total": 0}
        service.runtime.slots.tick(service.runtime.clock.now(), limit=10, behind=False)
        (job,) = service.admin.get("/jobs/").fields["items"]
        ran(service, job["id"], FAILED)
        found = service.admin.get(f"/breakers/{key}/").fields
        assert (found["state"], found["failure_count"]) == ("open", 1)
        opened_at, probes_at = map(datetime.fromisoformat, (found["opened_at"], found["probes_at"]))
        assert probes_at - opened_at == timedelta(minutes=30)
        for path, key_of_list in (("/breakers/", "items"), ("/system/status/", "breakers")):
            assert [one["probes_at"] for one in service.admin.get(path).fields[key_of_list]] == [
                found["probes_at"]
            ]
        assert [(t["to_state"], t["reason"]) for t in found["transitions"]] == [("open", "failure_threshold")]
        assert service.admin.get("/breakers/?state=open").fields["total"] == 1
        assert service.admin.get("/breakers/?state=closed").fields["total"] == 0
        assert service.client("viewer").post(f"/breakers/{key}/reset/").status == 403
        closed = service.admin.post(f"/breakers/{key}/reset/").fields
        assert (closed["state"], closed["transitions"][0]["reason"]) == ("closed", "manual_reset")
        assert closed["probes_at"] is None
        assert service.admin.post(f"/breakers/{key}/reset/").fields == closed  # again: nothing changes
        (event,) = service.runtime.ledger.events(EventFilter(types=["breaker.reset"]), limit=2)
        assert event.event.actor is not None
        assert service.runtime.ledger.breaker(key) == Breaker(key)


def test_someone_elses_breaker_and_none_look_the_same(service: Service) -> None:
    theirs = service.client(owner="them").create(circuit_breaker={"threshold": 1})
    assert service.client("viewer", owner="them").get(f"/breakers/{theirs['id']}/").status == 200
    mine = service.client(owner="me")
    for path, method in (("/breakers/{}/", "GET"), ("/breakers/{}/reset/", "POST")):
        answers = [mine.call(method, path.format(key)) for key in (theirs["id"], "nothing:poll")]
        assert [answer.status for answer in answers] == [404, 404]
    assert mine.get("/breakers/").fields["items"] == []
    assert service.admin.get("/breakers/nothing:poll/").status == 404
    without = service.admin.create(run=HTTP_RUN)
    triggered(service.admin, without)
    assert service.admin.get(f"/breakers/{without['id']}/").status == 404
