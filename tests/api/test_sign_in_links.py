"""The link that signs a browser in: once, for ten minutes, as an admin whose token ends with the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from everwhen.api.sign_in_links import LASTS
from everwhen.testing.manual import ManualClock
from tests.api.browsing import BrowserSession
from tests.api.serving import Service, serving


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05T08:00:00Z")


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    with serving(tmp_path, clock=clock) as found:
        yield found


def test_a_link_begins_a_session_of_an_admin_once(service: Service) -> None:
    key = service.context.sign_in_links.create()
    browser = BrowserSession(service.nobody, {"key": key}, "/session/link/")
    begun = browser.begun
    assert (begun.status, begun.fields["role"], begun.fields["via"]) == (201, "admin", "session")
    assert "HttpOnly" in begun.headers["set-cookie"] and "SameSite=strict" in begun.headers["set-cookie"]
    me = browser.get("/me/").fields
    assert (me["name"], me["expires_at"]) == ("sign-in link", "2026-01-05T20:00:00Z")
    again = service.nobody.post("/session/link/", {"key": key})
    assert (again.status, again.problem) == (401, "unauthenticated")
    (denied,) = service.admin.get("/audit/?type=auth.denied").fields["items"]
    assert denied["reason"] == "sign-in link"


def test_a_link_is_good_for_ten_minutes(service: Service, clock: ManualClock) -> None:
    key = service.context.sign_in_links.create()
    clock.advance(int(LASTS))
    assert service.nobody.post("/session/link/", {"key": key}).status == 401


def test_a_link_works_in_the_process_that_printed_it_and_its_session_in_all(
    service: Service, tmp_path: Path, clock: ManualClock
) -> None:
    with serving(tmp_path, clock=clock) as other:
        key = service.context.sign_in_links.create()
        assert other.nobody.post("/session/link/", {"key": key}).status == 401
        browser = BrowserSession(service.nobody, {"key": key}, "/session/link/")
        browser.client = other.nobody
        of_other = {"Cookie": f"everwhen_session_{urlsplit(other.url).port}={browser.cookie.value}"}
        assert browser.call("GET", "/me/", **of_other, **browser.proof).fields["role"] == "admin"


@pytest.mark.parametrize("path", ["/session/link/", "/session/"])
def test_another_site_cannot_sign_a_browser_in(service: Service, path: str) -> None:
    key = service.context.sign_in_links.create()
    body = {"key": key} if "link" in path else {"token": service.admin.secret}
    refused = service.nobody.post(path, body, headers={"Origin": "https://evil.example"})
    assert (refused.status, "set-cookie" in refused.headers) == (403, False)
    assert service.nobody.post(path, body, headers={"Origin": service.url}).status == 201


def test_who_tries_keys_is_slowed_down(service: Service) -> None:
    answers = [
        service.nobody.post("/session/link/", {"key": f"guess {number}"}).status for number in range(22)
    ]
    assert answers[:20] == [401] * 20 and answers[-1] == 429
