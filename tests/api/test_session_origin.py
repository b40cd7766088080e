"""A session is bound to its origin: scheme, host and port. Its cookie alone, which a browser sends to every port of the
host, opens nothing; a page of another origin changes nothing; a proxy tells the scheme only where it is trusted."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from everwhen.model.queries import EventFilter
from tests.api.browsing import BrowserSession
from tests.api.serving import Client, Service, serving

CERTIFICATE = Path(__file__).parents[1] / "targets" / "self_signed.pem"
PROXY = (ip_network("127.0.0.1"),)
PLAIN = (ip_network("203.0.113.0/24"),)


@dataclass(frozen=True, slots=True)
class Raw:
    """What a server answers to bytes: its status, its headers, its body."""

    status: int
    head: str
    body: str


def say(service: Service, text: str, *, is_tls: bool = False) -> Raw:
    """Send a request as it stands, for what no client of HTTP would send."""
    found = urlsplit(service.url)
    opened = socket.create_connection((found.hostname or "", found.port or 0), timeout=30)
    if is_tls:
        opened = ssl.create_default_context(cafile=CERTIFICATE).wrap_socket(
            opened, server_hostname="127.0.0.1"
        )
    with opened:
        opened.sendall(text.replace("\n", "\r\n").encode())
        raw = b""
        while piece := opened.recv(65_536):
            raw += piece
    head, _, body = raw.decode().partition("\r\n\r\n")
    return Raw(int(head.split()[1]), head.lower(), body)


def signed_in(service: Service, **headers: str) -> BrowserSession:
    return BrowserSession(service.nobody, {"token": service.admin.secret}, **headers)


# -- the cookie alone --


def test_the_cookie_alone_reads_nothing_and_does_not_tell_the_proof(service: Service) -> None:
    browser = signed_in(service)
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": browser.cookie.value}):
        for path in ("/me/", "/schedules/", "/system/status/", "/tokens/", "/events/stream/"):
            answer = browser.call("GET", path, **headers)
            assert (answer.status, answer.problem) == (401, "unauthenticated"), path
            assert browser.begun.fields["csrf_token"] not in answer.raw.decode()
    (last,) = service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1)
    assert (last.event.reason, last.event.detail["path"]) == ("csrf", "/api/v1/events/stream/")
    assert last.event.actor is not None
    assert browser.get("/me/").fields["csrf_token"] == browser.begun.fields["csrf_token"]


def test_the_proof_alone_opens_nothing_either(service: Service) -> None:
    browser = signed_in(service)
    assert service.nobody.get("/me/", **browser.proof).status == 401
    other = signed_in(service)
    assert browser.call("GET", "/me/", **other.proof).status == 401


def test_a_session_and_its_proof_hold_on_every_node_and_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as first, serving(tmp_path) as second:
        browser = signed_in(first)
        value = browser.cookie.value
        port = urlsplit(second.url).port
        browser.client = second.nobody
        here = {"Cookie": f"everwhen_session_{port}={value}"}
        assert browser.call("POST", "/system/pause/", **here, **browser.proof).status == 200
        assert browser.call("POST", "/system/resume/", **here).status == 403
    with serving(tmp_path) as third:
        browser.client = third.nobody
        here = {"Cookie": f"everwhen_session_{urlsplit(third.url).port}={value}"}
        assert browser.call("POST", "/system/resume/", **here, **browser.proof).status == 200
        assert browser.call("GET", "/me/", **here).status == 401


def test_two_services_of_one_host_do_not_overwrite_each_others_cookie(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    with serving(tmp_path / "a") as first, serving(tmp_path / "b") as second:
        one, other = signed_in(first), signed_in(second)
        assert one.name == f"everwhen_session_{urlsplit(first.url).port}" != other.name
        both = {"Cookie": "; ".join(browser.header["Cookie"] for browser in (one, other))}
        for browser in (one, other):
            assert browser.call("GET", "/me/", **both, **browser.proof).status == 200


# -- the name of the cookie --


def begin(service: Service, scheme: str) -> str:
    """A request that signs in from a page of that scheme."""
    body = f'{{"token": "{service.admin.secret}"}}'
    host = urlsplit(service.url).netloc
    return (
        f"POST /api/v1/session/ HTTP/1.1\nHost: {host}\nConnection: close\nOrigin: {scheme}://{host}\n"
        f"Content-Type: application/json\nContent-Length: {len(body)}\n\n{body}"
    )


def test_with_tls_no_other_host_and_no_page_without_tls_can_set_the_cookie(tmp_path: Path) -> None:
    with serving(tmp_path, tls=(str(CERTIFICATE), str(CERTIFICATE))) as service:
        begun = say(service, begin(service, "https"), is_tls=True)
        assert begun.status == 201
        (cookie,) = [line for line in begun.head.split("\r\n") if line.startswith("set-cookie: ")]
        assert cookie.startswith("set-cookie: __host-everwhen_session=")
        assert {"secure", "path=/", "httponly", "samesite=strict"} <= set(cookie.split("; "))
        assert "domain" not in cookie
        assert say(service, begin(service, "http"), is_tls=True).status == 403


@pytest.mark.parametrize(
    ("networks", "forwarded", "name"),
    [
        (PROXY, {}, "__Host-everwhen_session"),  # it is there to end TLS
        (PROXY, {"X-Forwarded-Proto": "https"}, "__Host-everwhen_session"),
        (PROXY, {"X-Forwarded-Proto": "https, http"}, "__Host-everwhen_session"),
        (PROXY, {"X-Forwarded-Proto": "gopher"}, "__Host-everwhen_session"),
        (PROXY, {"X-Forwarded-Proto": "http"}, "everwhen_session_PORT"),
        (PLAIN, {"X-Forwarded-Proto": "https"}, "everwhen_session_PORT"),
        ((), {"X-Forwarded-Proto": "https"}, "everwhen_session_PORT"),
    ],
)
def test_only_a_trusted_proxy_tells_the_scheme(
    tmp_path: Path, networks: tuple[object, ...], forwarded: dict[str, str], name: str
) -> None:
    with serving(tmp_path, trusted_proxies=networks) as service:
        browser = signed_in(service, **forwarded)
        assert browser.name == name.replace("PORT", str(urlsplit(service.url).port))
        assert bool(browser.cookie["secure"]) == name.startswith("__")
        assert browser.call("GET", "/me/", **browser.proof, **forwarded).status == 200
        own, other = ("https", "http") if name.startswith("__") else ("http", "https")
        host = urlsplit(service.url).netloc
        for scheme, status in ((own, 200), (other, 403)):
            sent = {**browser.proof, **forwarded, "Origin": f"{scheme}://{host}"}
            assert browser.call("POST", "/system/pause/", **sent).status == status


# -- the origin --


def test_the_origin_of_a_change_has_the_scheme_the_host_and_the_port_of_the_service(service: Service) -> None:
    browser = signed_in(service)
    host = urlsplit(service.url).netloc
    name, _, port = host.rpartition(":")
    others = (
        f"https://{host}",
        f"http://{name}",
        f"http://{name}:{int(port) + 1}",
        f"http://localhost:{port}",
        f"http://{host}.evil.example",
        f"http://user@{host}",
        f"//{host}",
        "null",
        "",
    )
    for origin in others:
        answer = browser.call("POST", "/system/pause/", **browser.proof, Origin=origin)
        assert (answer.status, answer.problem) == (403, "forbidden"), origin
    for origin in (f"http://{host}", f"HTTP://{host}"):
        assert browser.call("POST", "/system/resume/", **browser.proof, Origin=origin).status == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost", "http://localhost:80", 401),
        ("localhost:80", "http://localhost", 401),
        ("localhost:443", "http://localhost", 403),
        ("localhost", "https://localhost", 403),
        ("localhost:8750", "http://localhost:8750", 401),
    ],
)
def test_the_port_that_a_scheme_implies_may_be_left_out(
    service: Service, host: str, origin: str, status: int
) -> None:
    answer = service.nobody.post("/system/pause/", headers={"Host": host, "Origin": origin})
    assert answer.status == status


def test_of_two_origins_each_must_be_our_own(service: Service) -> None:
    host = urlsplit(service.url).netloc
    sent = f"Host: {host}\nOrigin: http://{host}\nOrigin: http://evil.example\nConnection: close\n"
    assert say(service, f"POST /api/v1/system/pause/ HTTP/1.1\n{sent}Content-Length: 0\n\n").status == 403


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/schedules/", "/", "/api/openapi.json"])
@pytest.mark.parametrize("second", ["localhost", "evil.example"])
def test_two_host_headers_are_refused(service: Service, path: str, second: str) -> None:
    answer = say(service, f"GET {path} HTTP/1.1\nHost: localhost\nHost: {second}\nConnection: close\n\n")
    assert answer.status == 400
    one = say(service, f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n")
    assert one.status in (200, 401, 404)


def test_a_session_of_the_previous_release_asks_to_sign_in_again(service: Service) -> None:
    browser = signed_in(service)
    old = Client(service.url, None).get("/me/", Cookie=f"everwhen_session={browser.cookie.value}")
    assert (old.status, old.fields["detail"].startswith("Send a token")) == (401, True)
