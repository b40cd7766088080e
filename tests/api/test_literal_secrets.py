"""Secrets that stand literally in a definition: no call answers with one, whoever of the same owner asks."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from everwhen.model.instants import DAY, to_datetime
from everwhen.model.token import ROLES, AccessRole
from tests.api.every_call import Call
from tests.api.serving import Client, Service, serving
from tests.api.working import FAILED, alerted, claimed_all, end

MARK = re.compile("hunter2-[a-z-]*")
URL = "https://ada:hunter2-user@example.com/?access_token=hunter2-query&page=2"
RUN = {
    "http": {
        "url": URL,
        "headers": {"Authorization": "Bearer hunter2-bearer", "X-Api-Key": "hunter2-header"},
        "body": {"password": "hunter2-body", "city": "Paris"},
    }
}
PAYLOAD = {"api_key": "hunter2-payload", "nested": [{"pwd": "hunter2-nested"}], "city": "Paris"}
PING = {"url": "https://hc:hunter2-ping@example.com/?token=hunter2-ping-query"}
MESSAGE = {"message": {"text": "hello", "structured": {"client_secret": "hunter2-message", "city": "Paris"}}}
NOBODYS = dict.fromkeys(("key", "name", "schedule", "group", "token_id", "policy_id", "rule", "q"), "nobodys")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("secrets")) as service:
        service.context.rates.unlimited = service.context.failures.unlimited = True
        yield service


@pytest.fixture(scope="module")
def things(service: Service) -> dict[str, str]:
    """One of each kind that a call can name, with a secret in every place that may hold one."""
    team, now = service.client("admin", owner="team-a"), service.runtime.clock.now()
    fields = {"run": RUN, "payload": PAYLOAD, "ping": PING, "every": "24h"}
    schedule = team.create(**fields, first_run="immediately")
    changed = {**RUN["http"], "headers": {"Authorization": "Bearer hunter2-changed"}}
    change = {"run": {"http": changed}, "payload": {**PAYLOAD, "token": "hunter2-new"}}
    assert team.patch(f"/schedules/{schedule['id']}/", change).status == 200
    team.create(run=MESSAGE, payload=PAYLOAD, first_run="immediately", every="24h")
    assert team.call("PUT", "/schedules/key/their-key/", fields).status == 201
    service.runtime.slots.tick(now, limit=100, behind=False)
    triggered = team.post(f"/schedules/{schedule['id']}/trigger/", {"payload": {"passwd": "hunter2-trigger"}})
    end(service, claimed_all(service)[schedule["id"]], FAILED)
    alerted(service, schedule["id"])
    (alert,) = team.get("/alerts/").fields["items"]
    waiting = service.client(owner="team-a", approval="required").create(**fields)
    silence = team.post("/alerts/silences/", {"subject": schedule["id"], "duration": "2h"}).fields
    webhook = team.post("/webhooks/", {"url": URL, "secret": "hunter2-of-the-webhook"}).fields
    return {
        "schedule_id": schedule["id"],
        "schedule_id of /api/v1/schedules/{schedule_id}/review/": waiting["id"],
        "job_id": triggered.fields["job"]["id"],
        "key of /api/v1/schedules/key/{key}/": "their-key",
        "alert_id": str(alert["id"]),
        "silence_id": str(silence["id"]),
        "webhook_id": webhook["id"],
        "last of /api/v1/events/stream/": "webhook.created",
        "last of /api/v1/messages/stream/": "hello",
        "from": to_datetime(now - DAY).isoformat(),
        "to": to_datetime(now + DAY).isoformat(),
    }


@pytest.fixture(scope="module")
def calls(service: Service) -> list[Call]:
    document = replace(service.admin, prefix="").get("/api/openapi.json").fields
    return [
        Call("get", path, methods["get"], document["components"]["schemas"])
        for path, methods in document["paths"].items()
        if "get" in methods
    ]


def read(client: Client, call: Call, things: dict[str, str]) -> str:
    """What a call answers; of a stream what it has, from its beginning to its last known line."""
    if not call.is_stream:
        named = NOBODYS if call.names("path") else {}
        return replace(client, prefix="").call("GET", call.target(named | things)).raw.decode()
    connection, text = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=60), ""
    try:
        connection.request(
            "GET", f"{call.path}?after=0", headers={"Authorization": f"Bearer {client.secret}"}
        )
        answer = connection.getresponse()
        while things[f"last of {call.path}"] not in text or not text.endswith("\n\n"):
            text += answer.read1(65_536).decode()
        return text
    finally:
        connection.close()


@pytest.mark.parametrize("role", ROLES)
def test_no_call_answers_with_a_secret_of_a_definition(
    service: Service, things: dict[str, str], calls: list[Call], role: AccessRole
) -> None:
    client = service.client(role, owner="team-a")
    texts = {call.path: read(client, call, things) for call in calls}
    shown = {path: set(MARK.findall(text)) for path, text in texts.items() if MARK.search(text)}
    # A message is for those who read it, and an operator does.
    said = {path for path in texts if "/messages/" in path}
    assert shown.keys() <= (set() if role == "viewer" else said), shown
    seen = {path for path, text in texts.items() if "Paris" in text}
    assert {f"/api/v1/{one}/" for one in ("schedules", "jobs/{job_id}", "messages/stream")} <= seen
    assert "https://ada:***@example.com/?access_token=***&page=2" in texts["/api/v1/webhooks/"]


def test_a_mask_that_comes_back_is_refused_wherever_answers_have_one(
    service: Service, things: dict[str, str]
) -> None:
    team = service.client(owner="team-a")
    path, webhook = f"/schedules/{things['schedule_id']}/", f"/webhooks/{things['webhook_id']}/"
    schedule, hook = team.get(path).fields, team.get(webhook).fields
    tries = {
        "payload": team.patch(path, {"payload": schedule["payload"]}),
        "ping": team.patch(path, {"ping": schedule["ping"]}),
        "trigger": team.post(f"{path}trigger/", {"payload": schedule["payload"]}),
        "url": team.patch(webhook, {"url": hook["url"]}),
    }
    for name, answer in tries.items():
        assert (answer.status, answer.problem) == (422, "invalid"), name
        assert "is the mask that answers show" in answer.fields["errors"][0]["message"], name
    assert [one["path"] for one in tries["payload"].fields["errors"]] == [
        "payload.api_key",
        "payload.nested[0].pwd",
        "payload.token",
    ]
    assert team.get(path).fields["revision"] == schedule["revision"]
