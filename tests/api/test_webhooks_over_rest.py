"""Webhook and chat schedules that are created over REST: their keys, their secret, and how they are fired."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any

import pytest

from tests.api.serving import HTTP_RUN, Service

SECRET = "only the sender knows this"
HOOK = {"type": "webhook", "secret": SECRET, "signature": "github", "run": HTTP_RUN, "if_running": "allow"}


def create(service: Service, **fields: Any) -> dict[str, Any]:
    answer = service.admin.post("/schedules/", {"run": HTTP_RUN, **fields})
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def githubs(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}"}


def test_a_webhook_is_fired_by_a_token_and_by_its_signature(service: Service) -> None:
    made = create(service, **HOOK)
    assert (made["type"], made["signature"], made["next_run_at"]) == ("webhook", "github", None)
    by_token = service.admin.post(f"/hooks/{made['id']}/", {"ref": "main"})
    assert (by_token.status, by_token.fields["job"]["origin"]) == (202, "webhook")
    body = b'{"ref": "next"}'
    signed = service.nobody.post(f"/hooks/{made['id']}/", raw=body, headers=githubs(body))
    assert (signed.status, signed.fields["job"]["payload"]) == (202, {"body": {"ref": "next"}})
    wrong = service.nobody.post(f"/hooks/{made['id']}/", raw=body, headers=githubs(body, "another"))
    assert wrong.status == 401


def test_a_chat_is_fired_by_a_token(service: Service) -> None:
    made = create(service, type="chat", run={"message": {"text": "hello"}})
    assert service.admin.post(f"/chat/{made['id']}/", "how are you?").status == 202
    assert service.admin.post(f"/hooks/{made['id']}/").problem == "not-requestable"


def test_the_secret_is_never_answered(service: Service) -> None:
    made = create(service, **HOOK)
    paths = (f"/schedules/{made['id']}/", f"/schedules/{made['id']}/revisions/", "/schedules/", "/audit/")
    for path in paths:
        assert SECRET.encode() not in service.admin.get(path).raw
    assert made["secret"] == "***"
    refused = service.admin.patch(f"/schedules/{made['id']}/", {"secret": "***"})
    assert [one["path"] for one in refused.fields["errors"]] == ["secret"]


def test_a_change_keeps_the_secret_unless_it_names_it(service: Service) -> None:
    made = create(service, **HOOK)
    path = f"/schedules/{made['id']}/"
    body = b"{}"
    assert service.admin.patch(path, {"name": "on push"}).fields["secret"] == "***"
    assert service.nobody.post(f"/hooks/{made['id']}/", raw=body, headers=githubs(body)).status == 202
    assert service.admin.patch(path, {"secret": "the next one"}).status == 200
    assert service.nobody.post(f"/hooks/{made['id']}/", raw=b"1", headers=githubs(b"1")).status == 401
    signed = githubs(b"2", "the next one")
    assert service.nobody.post(f"/hooks/{made['id']}/", raw=b"2", headers=signed).status == 202
    assert service.admin.patch(path, {"secret": None}).fields["secret"] is None
    assert service.nobody.post(f"/hooks/{made['id']}/", raw=b"3", headers=githubs(b"3", "")).status == 401


def test_one_trigger_replaces_the_other(service: Service) -> None:
    made = create(service, **HOOK)
    path = f"/schedules/{made['id']}/"
    timed = service.admin.patch(path, {"cron": "0 2 * * *"}).fields
    assert (timed["type"], timed["secret"], timed["signature"]) == ("cron", None, "everwhen")
    assert timed["next_run_at"] is not None
    asked = service.admin.patch(path, {"type": "chat"}).fields
    assert (asked["type"], asked["cron"], asked["next_run_at"]) == ("chat", None, None)


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"type": "webhook", "cron": "0 2 * * *"}, "cron", "is not allowed with type webhook"),
        ({"type": "webhook", "interval_seconds": 60}, "interval_seconds", "is not allowed with type webhook"),
        ({"type": "chat", "spec": "60"}, "spec", "is not allowed with type chat"),
        ({"type": "chat", "secret": "x"}, "secret", "is only for a webhook"),
        ({"every": "1h", "signature": "github"}, "signature", "is only for a webhook"),
        ({"type": "webhook", "signature": "github"}, "signature", "requires secret"),
        ({"type": "webhook", "secret": "${HOME}"}, "secret", "refers to the environment"),
        ({"type": "webhook", "run": None}, "", "run is required"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(
    service: Service, fields: dict[str, Any], path: str, message: str
) -> None:
    answer = service.admin.post("/schedules/", {"run": HTTP_RUN, **fields})
    assert answer.problem == "invalid"
    assert answer.fields["errors"][0]["path"] == path
    assert answer.fields["errors"][0]["message"].startswith(message)


def test_someone_elses_webhook_is_not_there(service: Service) -> None:
    made = service.client(owner="ada").post("/schedules/", HOOK).fields
    stranger = service.client(owner="bob")
    assert stranger.post(f"/hooks/{made['id']}/", {}).status == 404
    assert json.loads(stranger.get("/schedules/").raw)["total"] == 0
