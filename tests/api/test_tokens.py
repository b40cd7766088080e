"""Tokens over REST, who is asking, and the sessions of browsers."""

from __future__ import annotations

from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from everwhen.model.instants import DAY
from everwhen.model.queries import EventFilter
from everwhen.operations.tokens import LASTS, create_token, find_session
from everwhen.testing.manual import ManualClock
from tests.api.browsing import BrowserSession
from tests.api.serving import HTTP_RUN, Client, Service, serving


def made(client: Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/tokens/", {"name": "a token", **fields})
    assert answer.status == 201, answer.raw
    assert answer.headers["cache-control"] == "no-store"
    found: dict[str, Any] = answer.fields
    return found


def with_token(service: Service, secret: str) -> Client:
    return replace(service.admin, secret=secret)


def test_a_token_is_shown_once_and_good_until_it_is_revoked(service: Service) -> None:
    token = made(service.admin, role="operator", limits={"min_interval": "5m"}, expires_in="1d")
    assert token["limits"]["min_interval"] == 300 and token["expires_at"] is not None
    client = with_token(service, token["token"])
    assert client.get("/schedules/").status == 200
    listed = service.admin.get("/tokens/").fields["items"]
    (found,) = [item for item in listed if item["id"] == token["id"]]
    assert found == {key: value for key, value in token.items() if key != "token"}
    assert service.admin.call("DELETE", f"/tokens/{token['id']}/").status == 204
    assert client.get("/schedules/").status == 401
    again = service.admin.call("DELETE", f"/tokens/{token['id']}/")
    assert (again.status, again.problem) == (404, "not-found")
    (revoked,) = [item for item in service.admin.get("/tokens/").fields["items"] if item["id"] == token["id"]]
    assert revoked["revoked_at"] is not None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "role": "king"},
        {"name": "x", "expires_in": "soon"},
        {"name": "x", "expires_in": 0},
        {"name": "x", "expires_in": 10**12},
        {"name": "x", "limits": {"max_schedules": -1}},
        {"name": "x", "limits": {"ttl": "5x"}},
        {"name": "x", "limits": {"speed": 3}},
        {"name": "x", "owner": ""},
        {"name": "x", "color": "red"},
    ],
)
def test_a_token_that_cannot_be_is_refused(service: Service, body: dict[str, Any]) -> None:
    before = service.admin.get("/tokens/").fields
    answer = service.admin.post("/tokens/", body)
    assert (answer.status, answer.problem) == (422, "invalid")
    assert service.admin.get("/tokens/").fields == before


def test_an_admin_with_an_owner_makes_and_sees_tokens_of_that_owner_only(service: Service) -> None:
    ada, other = service.client("admin", owner="ada"), made(service.admin, owner="bob")
    mine = made(ada)
    assert mine["owner"] == "ada"
    assert ada.post("/tokens/", {"name": "x", "owner": "bob"}).problem == "forbidden"
    assert {item["owner"] for item in ada.get("/tokens/").fields["items"]} == {"ada"}
    assert ada.call("DELETE", f"/tokens/{other['id']}/").status == 404
    assert ada.call("DELETE", f"/tokens/{mine['id']}/").status == 204


def test_tokens_are_an_admins_business_and_limits_cannot_be_shed(service: Service) -> None:
    for role in ("viewer", "operator"):
        client = service.client(role)
        assert client.get("/tokens/").status == 403
        assert client.post("/tokens/", {"name": "x"}).status == 403
        assert client.call("DELETE", "/tokens/tok_1/").status == 403
    limited = service.client("admin", owner="ada", max_schedules=1)
    assert limited.post("/tokens/", {"name": "x"}).problem == "forbidden"


def test_a_token_learns_who_it_is(service: Service) -> None:
    client = service.client("viewer", owner="ada")
    fields = client.get("/me/").fields
    assert (fields["role"], fields["owner"], fields["via"], fields["csrf_token"]) == (
        "viewer",
        "ada",
        "token",
        None,
    )
    assert service.nobody.get("/me/").status == 401


# -- sessions --


def signed_in(service: Service, secret: str | None = None) -> BrowserSession:
    return BrowserSession(service.nobody, {"token": secret or service.admin.secret})


def test_a_session_stands_for_its_token_in_a_cookie_that_scripts_cannot_read(service: Service) -> None:
    browser = signed_in(service)
    assert browser.begun.status == 201
    morsel = browser.cookie
    assert (morsel["httponly"], morsel["samesite"].lower(), morsel["path"]) == (True, "strict", "/")
    assert not morsel["secure"] and int(morsel["max-age"]) == LASTS // 1_000_000
    assert browser.begun.headers["cache-control"] == "no-store"
    fields = browser.get("/me/").fields
    assert (fields["via"], fields["csrf_token"]) == ("session", browser.begun.fields["csrf_token"])
    assert browser.get("/schedules/").status == 200


def test_a_session_changes_something_only_with_the_proof_of_its_page(service: Service) -> None:
    browser = signed_in(service)
    body = {"every": "1h", "run": HTTP_RUN}
    before = service.admin.get("/schedules/").fields["total"]
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "0" * 64}):
        answer = browser.call("POST", "/schedules/", body, **headers)
        assert (answer.status, answer.problem) == (403, "forbidden")
    assert service.admin.get("/schedules/").fields["total"] == before
    assert browser.call("POST", "/schedules/", body, **browser.proof).status == 201
    (last,) = service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1)
    assert last.event.reason == "csrf"
    other = signed_in(service)
    assert browser.call("POST", "/schedules/", body, **other.proof).status == 403


def test_a_session_ends_by_hand_and_its_token_stays_good(service: Service) -> None:
    browser = signed_in(service)
    assert browser.call("DELETE", "/session/").status == 403
    ended = browser.call("DELETE", "/session/", **browser.proof)
    assert ended.status == 204
    assert SimpleCookie(ended.headers["set-cookie"])[browser.name]["max-age"] == "0"
    assert browser.get("/me/").status == 401
    assert service.admin.get("/me/").status == 200


def test_a_session_ends_with_its_token(service: Service) -> None:
    token = made(service.admin, role="viewer")
    browser = signed_in(service, token["token"])
    assert browser.get("/me/").status == 200
    service.admin.call("DELETE", f"/tokens/{token['id']}/")
    assert browser.get("/me/").status == 401


def test_nobody_begins_a_session_with_a_wrong_token(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        assert service.nobody.post("/session/", {}).status == 422
        found = [service.nobody.post("/session/", {"token": "guess"}) for _ in range(25)]
        assert (found[0].status, found[-1].status) == (401, 429)
        assert "set-cookie" not in found[0].headers
        port = urlsplit(service.url).port
        cookies = [
            service.nobody.call("GET", "/me/", headers={"Cookie": f"everwhen_session_{port}=x"})
            for _ in range(2)
        ]
        assert cookies[-1].status == 429


def test_the_secret_of_a_session_is_no_token_and_not_in_the_database(service: Service) -> None:
    browser = signed_in(service)
    secret = browser.cookie.value
    assert browser.get("/me/").status == 200
    assert with_token(service, secret).get("/me/").status == 401
    cookie = {"Cookie": f"{browser.name}={service.admin.secret}", **browser.proof}
    assert service.nobody.call("GET", "/me/", headers=cookie).status == 401


def test_a_session_is_over_after_its_time_and_no_later_than_its_token(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-05T08:00:00Z")
    with serving(tmp_path, clock=clock) as service:
        long = signed_in(service)
        short = signed_in(service, create_token(service.runtime, "brief", "viewer", lasts=60).secret)
        assert int(short.cookie["max-age"]) == 60
        clock.advance("61s")
        assert short.get("/me/").status == 401
        assert long.get("/me/").status == 200
        clock.advance("12h")
        assert find_session(service.runtime, long.cookie.value) is None
        assert DAY > LASTS
