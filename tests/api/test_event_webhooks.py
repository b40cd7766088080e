"""Event webhooks over REST: what a caller may create, see and change, and what no answer shows."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.operations.tokens import find_token
from tests.api.serving import Client, Service

URL = "https://example.com/everwhen-events"


def created(client: Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/webhooks/", {"url": URL, **fields})
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def test_a_webhook_is_created_listed_changed_and_deleted(service: Service) -> None:
    made = created(service.admin, on=["job.failed", "breaker.*", "job.failed"])
    assert (made["state"], made["on"], made["owner"]) == ("active", ["job.failed", "breaker.*"], None)
    path = f"/webhooks/{made['id']}/"
    assert service.admin.get(path).fields["url"] == URL
    changed = service.admin.patch(path, {"on": ["all"], "url": f"{URL}/2"}).fields
    assert (changed["on"], changed["url"]) == (["all"], f"{URL}/2")
    off = service.admin.patch(path, {"active": False}).fields
    assert (off["state"], off["off_reason"]) == ("off", "person")
    assert service.admin.patch(path, {"url": URL}).fields["state"] == "off"
    on = service.admin.patch(path, {"active": True}).fields
    assert (on["state"], on["off_at"], on["off_reason"]) == ("active", None, None)
    assert made["id"] in [one["id"] for one in service.admin.get("/webhooks/").fields["items"]]
    assert service.admin.call("DELETE", path).status == 204
    assert service.admin.get(path).problem == "not-found"
    assert service.admin.call("DELETE", path).status == 404
    audit = service.admin.get("/audit/").fields["items"]
    said = [one for one in audit if one["detail"].get("webhook") == made["id"]]
    assert [one["type"].partition(".")[2] for one in reversed(said)] == [
        "created",
        "updated",
        "updated",
        "disabled",
        "updated",
        "updated",
        "deleted",
    ]


def test_a_secret_is_shown_once_where_it_was_made_and_never_where_it_was_chosen(service: Service) -> None:
    made = created(service.admin)
    assert made["secret"].startswith("whsec_")
    chosen = created(service.admin, secret="a secret of the caller")
    assert chosen["secret"] is None
    other = service.admin.patch(f"/webhooks/{made['id']}/", {"secret": "another of the caller"})
    assert "secret" not in other.fields
    for path in ("/webhooks/", f"/webhooks/{made['id']}/", f"/webhooks/{chosen['id']}/", "/audit/"):
        raw = service.admin.get(path).raw
        assert not any(text in raw for text in (made["secret"].encode(), b"of the caller"))


def test_another_owners_webhook_does_not_exist(service: Service) -> None:
    ada, bob = service.client(owner="ada"), service.client(owner="bob")
    made = created(ada)
    assert made["owner"] == "ada"
    path = f"/webhooks/{made['id']}/"
    for answer in (bob.get(path), bob.patch(path, {"active": False}), bob.call("DELETE", path)):
        assert (answer.status, answer.problem) == (404, "not-found")
    assert made["id"] not in [one["id"] for one in bob.get("/webhooks/").fields["items"]]
    assert service.client("viewer", owner="ada").get(path).status == 200
    assert service.client("viewer", owner="ada").patch(path, {"active": False}).status == 403
    assert bob.post("/webhooks/", {"url": URL, "owner": "ada"}).problem == "forbidden"
    assert created(service.admin, owner="ada")["owner"] == "ada"


def test_a_token_has_at_most_twenty(service: Service) -> None:
    client = service.client(owner="many")
    made = [created(client) for _ in range(20)]
    refused = client.post("/webhooks/", {"url": URL})
    assert (refused.status, refused.problem) == (403, "limit-reached")
    assert client.call("DELETE", f"/webhooks/{made[0]['id']}/").status == 204
    created(client)
    off = service.client(owner="many")
    path = f"/webhooks/{made[1]['id']}/"
    off.patch(path, {"active": False})
    token = find_token(service.runtime, off.secret or "")
    assert token is not None
    assert off.patch(path, {"active": True}).fields["token_id"] == token.token_id
    created(client)
    other = f"/webhooks/{made[2]['id']}/"
    off.patch(other, {"active": False})
    assert client.patch(other, {"active": True}).fields["state"] == "active"  # it is one of them already


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8080/x",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://169.254.169.254/latest/meta-data",
        "https://example.com/\r\nX-Injected: 1",
        "https://example.com/ two",
        "https://exa\u00e4mple.com/",
        "ftp://example.com/",
        "https://",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://[half",
        "javascript:alert(1)",
        "https://example.com/" + "a" * 2_000,
        "",
    ],
)
def test_a_url_that_cannot_or_must_not_be_reached_is_refused(service: Service, url: str) -> None:
    answer = service.admin.post("/webhooks/", {"url": url})
    assert answer.status in (413, 422), answer.raw
    made = created(service.admin)
    assert service.admin.patch(f"/webhooks/{made['id']}/", {"url": url}).status in (413, 422)
    assert service.admin.call("DELETE", f"/webhooks/{made['id']}/").status == 204


@pytest.mark.parametrize(
    "fields",
    [
        {"on": []},
        {"on": ["job.fialed"]},
        {"on": ["schedule.held"]},
        {"on": "all"},
        {"on": ["nothing.*"]},
        {"secret": "short"},
        {"secret": "x" * 201},
        {"secret": "a NUL \0 in a secret"},
        {"active": True},
        {"headers": {"X": "y"}},
    ],
)
def test_a_body_that_means_nothing_is_refused(service: Service, fields: dict[str, Any]) -> None:
    answer = service.admin.post("/webhooks/", {"url": URL, **fields})
    assert (answer.status, answer.problem) == (422, "invalid")


def test_an_unknown_type_names_the_nearest(service: Service) -> None:
    (fault,) = service.admin.post("/webhooks/", {"url": URL, "on": ["job.fialed"]}).fields["errors"]
    assert "job.failed" in fault["message"]
