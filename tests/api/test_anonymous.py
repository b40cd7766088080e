"""What answers without a token, whatever is sent there: no memory stays, no log grows, the event loop goes on.

`SURFACE` is found from the routes of the application; what stands beside it is how each is asked.
"""

from __future__ import annotations

import gzip
import json
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from everwhen.api.access import authenticate
from everwhen.api.connections import MOST_CHUNKS, SMALLEST_CHUNK
from everwhen.api.context import ANONYMOUS_BURST
from everwhen.api.rates import Line, Rates
from everwhen.api.request_guard import UNITS, UNITS_OF_LARGE
from everwhen.web import assets
from everwhen.web.assets import DEEPEST, FOLDER, digest_of_assets, first_modules, load_assets
from everwhen.web.routes import PAGES, dashboard_routes
from tests.api.serving import Answer, Client, Service, serving
from tests.api.test_access import denials
from tests.api.test_connections import HEAD, PATIENT, connected, is_closed, peak_memory, read_all
from tests.api.test_postgres_and_tls import certificate_in
from tests.api.test_shares import loop_time
from tests.scheduler.waiting import until

PATHS = {"schedule_id": "x", "job_id": "x", "digest": "0", "path": "main.js", "rest": "x"}
# A way in that has no route: what refuses, redirects or is not there.
OTHERS = ("/nowhere", "/api/v1/schedules", "/api/v1/nowhere/", "//", "/%00", "/api/v1/schedules/?limit=x")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("anonymous"), further=dashboard_routes()) as found:
        found.context.lift_rates()
        yield found


def is_open(route: BaseRoute) -> bool:
    """Whether a route answers without a token: all that asks for none, or for another proof."""
    if not isinstance(route, APIRoute):
        return True
    return authenticate not in [one.call for one in flattened(route.dependant)]


def flattened(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for one in dependant.dependencies:
        yield from flattened(one)


def surface(service: Service) -> list[tuple[str, str]]:
    """Return method and path of what answers without a token."""
    found = []
    for route in service.app.router.routes:
        assert isinstance(route, Route)
        if is_open(route):
            path = route.path.replace(":path", "")
            for name, value in PATHS.items():
                path = path.replace(f"{{{name}}}", value)
            found += [(method, path) for method in sorted(route.methods or ())]
    return found + [("GET", path) for path in OTHERS]


def test_what_answers_without_a_token_is_this(service: Service) -> None:
    pages = {"/", *(f"/{name}" for name in PAGES), *(f"/{name}/x" for name in PAGES)}
    calls = {"/api/v1/session/", "/api/v1/session/link/", "/api/v1/jobs/x/outcome/"}
    hooks = {"/api/v1/hooks/x/", "/api/v1/chat/x/"}
    documents = {"/api/openapi.json", "/api/docs", "/api/docs/style.css"}
    health = {"/healthz", "/readyz", "/metrics"}
    found = {path for _, path in surface(service)} - set(OTHERS)
    assert found == pages | calls | hooks | documents | health | {f"/{FOLDER}/0/main.js"}


def lines_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The lines of the log; those that pytest takes from a logger without a handler are in none."""
    return [one for one in caplog.records if one.name != "uvicorn.access"]


def send(service: Service, raw: bytes) -> bytes:
    """Send bytes and that nothing follows them; return what is answered until the connection is closed."""
    with connected(service) as peer, suppress(OSError):
        peer.sendall(raw)
        return read_all(peer)
    return b""


def leave(service: Service, raw: bytes) -> None:
    """Send bytes, and reset the connection."""
    with connected(service) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(OSError):
            peer.sendall(raw)


def requests_of(method: str, path: str, number: int) -> Iterator[bytes]:
    """Yield what anybody may send to a path; no two numbers send the same."""
    mark = f"x{number}"
    host = "Host: localhost\r\nConnection: close\r\n"
    odd = f"{path}{'&' if '?' in path else '?'}{mark}={mark}"
    for line in (f"{method} {odd} HTTP/1.1", f"{method} {odd} HTTP/1.0"):
        yield f"{line}\r\n{host}Cookie: {mark}={mark}\r\nAccept: {mark}/{mark}\r\n\r\n".encode()
    for other in ("HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", mark.upper()):
        yield f"{other} {odd} HTTP/1.1\r\n{host}\r\n".encode()
    for protocol in ("websocket", "h2c", mark):
        upgrade = f"Connection: Upgrade, close\r\nUpgrade: {protocol}\r\nSec-WebSocket-Key: {mark}\r\n"
        yield f"GET {odd} HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n".encode() + b"\x00" * 40
    yield f"CONNECT {mark}:443 HTTP/1.1\r\n{host}\r\n".encode()
    body = f"{host}Content-Type: application/json\r\nEverwhen-Outcome-Token: {mark}\r\n"
    for text in (f'{{"token": "{mark}"}}', f'{{"{mark}": 1}}', "[" * 90, mark):
        yield f"POST {odd} HTTP/1.1\r\n{body}Content-Length: {len(text)}\r\n\r\n{text}".encode()
    yield f"POST {odd} HTTP/1.1\r\n{body}Transfer-Encoding: chunked\r\n\r\nzz\r\n{mark}\r\n".encode()
    yield f"POST {odd} HTTP/1.1\r\n{body}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    yield f"GET {path} HTTP/9.9\r\n{host}\r\n".encode()
    yield f"GET {path} HTTP/1.1\r\n{host}\r\n\x16\x03\x01{mark}".encode()
    yield f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n\x16\x03\x01{mark}\r\n\r\n".encode()


def cut_off_requests_of(path: str, number: int) -> Iterator[bytes]:
    mark = f"x{number}"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Everwhen-Signature: {mark}\r\n"
    yield f"{head}Everwhen-Outcome-Token: {mark}\r\nContent-Length: 100\r\n\r\n{{".encode()
    yield f"{head}Everwhen-Outcome-Token: {mark}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{".encode()
    yield head.encode()
    yield (f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5).encode()


def test_whatever_is_sent_the_log_has_a_line_at_most_and_no_traceback(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service.context.lines = Rates(burst=1, per_second=0.001, monotonic=service.runtime.clock.monotonic)
    for method, path in surface(service):
        for number, request in enumerate(requests_of(method, path, 0)):
            send(service, request)
            assert [one for one in lines_of(caplog) if one.levelname != "INFO"] == [], (method, path, number)
    for _, path in surface(service):
        for request in cut_off_requests_of(path, 0):
            leave(service, request)
    assert send(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    until(lambda: not service.context.streams.count)
    assert [(one.levelname, one.exc_info) for one in lines_of(caplog)] in ([], [("INFO", None)])


def test_bodies_that_are_cut_off_leave_one_line_of_the_log(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A hundred lines of traceback each, before."""
    caplog.set_level(logging.INFO)
    service.context.lines = Rates(burst=1, per_second=0.001, monotonic=service.runtime.clock.monotonic)
    for _ in range(20):
        leave(service, HEAD + b"Content-Length: 100\r\n\r\n{")
        with connected(service) as peer:  # it leaves when its body is being read
            peer.sendall(HEAD + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n{")
            assert peer.recv(100).startswith(b"HTTP/1.1 100 ")
    until(lambda: lines_of(caplog))
    assert fetch(service, "/healthz").status == 200
    (line,) = lines_of(caplog)
    assert (line.levelname, line.exc_info) == ("INFO", None)
    assert line.getMessage() == "a client left before the body of its request was there"


def test_what_is_no_tls_leaves_nothing_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serving(tmp_path, tls=certificate_in(tmp_path)) as service:
        caplog.clear()
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\x02", b""):
            for _ in range(5):
                leave(service, garbage)
                with connected(service) as peer, suppress(OSError):
                    peer.sendall(garbage)
                    peer.shutdown(socket.SHUT_WR)
                    assert is_closed(peer)
        assert lines_of(caplog) == []


def test_a_client_that_leaves_while_its_requests_wait_leaves_nothing_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server told only the last of several requests that were sent at once; the first failed with a traceback."""
    caplog.set_level(logging.INFO)
    with serving(tmp_path) as service:
        few(service, 0)
        caplog.clear()
        for _ in range(5):
            with connected(service) as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                requests = (
                    f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in ("/healthz", "/a", "/b")
                )
                peer.sendall("".join(requests).encode())
                assert peer.recv(65_536).startswith(b"HTTP/1.1 200")  # and is gone while the others wait
        assert fetch(service, "/nowhere").status == 429  # as late as those before it
        assert fetch(service, "/nowhere").status == 429
        assert lines_of(caplog) == []


# -- memory --


def test_paths_of_any_depth_are_not_kept(service: Service) -> None:
    """Each was a page of its own, of several megabytes: 200 requests left half a gigabyte."""
    client = replace(service.nobody, prefix="")
    assert client.get("/jobs/a/b").status == 200
    before = peak_memory()
    for length in range(DEEPEST + 1, 31 << 10, 500):
        assert client.get("/jobs" + "/" * length).status == 404
    assert peak_memory() - before < 32 << 20
    assert assets._page.cache_info().currsize <= (DEEPEST + 1) * (len(assets.page_modules()) + 1)


def test_nothing_that_is_sent_stays(service: Service) -> None:
    """What the process keeps is the same after many different requests as after the first ones."""
    for number in range(2):
        send_everything(service, number)
    before = peak_memory()
    for number in range(2, 12):
        send_everything(service, number)
    assert peak_memory() - before < 16 << 20


def send_everything(service: Service, number: int) -> None:
    for method, path in surface(service):
        for request in requests_of(method, path, number):
            send(service, request)


# -- the documents --


def fetch(service: Service, path: str, **headers: str) -> Answer:
    return replace(service.nobody, prefix="").get(path, **headers)


@pytest.mark.parametrize("path", ["/api/openapi.json", "/api/docs", "/api/docs/style.css"])
def test_a_document_is_compressed_and_is_not_sent_again(service: Service, path: str) -> None:
    plain = fetch(service, path)
    packed = fetch(service, path, **{"Accept-Encoding": "gzip"})
    assert (plain.status, packed.status, packed.headers["content-encoding"]) == (200, 200, "gzip")
    assert gzip.decompress(packed.raw) == plain.raw and "content-encoding" not in plain.headers
    assert plain.headers["etag"] == packed.headers["etag"] and "accept-encoding" in plain.headers["vary"]
    same = fetch(service, path, **{"If-None-Match": plain.headers["etag"]})
    assert (same.status, same.raw, same.headers["etag"]) == (304, b"", plain.headers["etag"])
    assert fetch(service, path, **{"If-None-Match": '"another"'}).status == 200


def test_the_document_is_made_once_and_not_on_the_event_loop(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        with loop_time(service) as used:
            first = fetch(service, "/api/openapi.json")
        assert first.fields["openapi"] and used[0] < 0.2  # it takes twice that to make
        with loop_time(service) as used:
            for _ in range(40):
                assert fetch(service, "/api/openapi.json").raw == first.raw
        assert used[0] < 0.2


# -- how often --


def test_who_asks_for_documents_again_and_again_is_refused_and_its_other_requests_are_dropped(
    tmp_path: Path,
) -> None:
    """800 requests that were sent at once held everybody else for half a minute."""
    request = b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(tmp_path) as service:
        clock = service.runtime.clock.monotonic
        service.context.anonymous = Rates(burst=ANONYMOUS_BURST, per_second=0.1, monotonic=clock)
        document = len(fetch(service, "/api/openapi.json").raw)
        answers = b""
        with loop_time(service) as used:
            for _ in range(15):
                with connected(service) as peer, suppress(OSError):
                    peer.sendall(request * 20)
                    while piece := peer.recv(1 << 20):
                        answers += piece
        assert answers.count(b"HTTP/1.1 200 OK") < ANONYMOUS_BURST / UNITS_OF_LARGE["/api/openapi.json"]
        assert answers.count(b"HTTP/1.1 429 ") > 10 and len(answers) < 60 * document
        assert used[0] < 2
        assert fetch(service, "/healthz").status == 200


def few(service: Service, requests: int) -> None:
    """Let an address send so many requests, and no more for a while."""
    clock = service.runtime.clock.monotonic
    service.context.anonymous = Rates(burst=requests * UNITS, per_second=0.1, monotonic=clock)
    service.context.health_checks = Rates(burst=2, per_second=0.1, monotonic=clock)


def test_beyond_its_rate_an_address_is_refused_whatever_it_asks_but_not_a_health_check(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, further=dashboard_routes()) as service:
        few(service, 5)
        assert [fetch(service, "/nowhere").status for _ in range(5)] == [404] * 5
        for path in ("/", "/nowhere", "/api/docs", "/metrics", "/api/v1/schedules/"):
            answer = fetch(service, path)
            assert (answer.status, answer.problem) == (429, "too-many-requests"), path
            assert int(answer.headers["retry-after"]) > 0 and answer.headers["connection"] == "close"
        assert {fetch(service, path).status for path in ("/healthz", "/readyz") for _ in range(5)} == {200}
        assert service.admin.get("/schedules/").status == 200  # whoever has a token is counted by it


def test_a_wrong_token_does_not_lift_the_rate_of_files_and_documents(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        few(service, 1)
        headers = {"Authorization": "Bearer ew_a-guess", "Cookie": "everwhen_session=x"}
        assert fetch(service, "/nowhere", **headers).status == 404
        assert fetch(service, "/nowhere", **headers).status == 429


WITHOUT_TOKEN: dict[str, dict[str, str]] = {
    "another scheme": {"Authorization": "Basic dTpw"},
    "nothing behind the scheme": {"Authorization": "Bearer"},
    "a wrong token": {"Authorization": "Bearer ew_a-guess"},
    "a wrong key": {"X-API-Key": "ew_a-guess"},
    "an empty key": {"X-API-Key": ""},
    "the cookie of another service": {"Cookie": "theme=dark"},
    "the cookie of no session": {"Cookie": "everwhen_session_80=x"},
    "a signature": {"Everwhen-Signature": "t=1,v1=x", "Cookie": "everwhen_session_80=x"},
}


@pytest.mark.parametrize("name", WITHOUT_TOKEN)
def test_what_looks_like_a_token_does_not_lift_the_rate_of_an_address(tmp_path: Path, name: str) -> None:
    """It was enough to send any cookie, and 4,500 requests a second held the event loop."""
    headers = WITHOUT_TOKEN[name]
    asked = [
        ("GET", "/nowhere/"),
        ("GET", "/schedules/"),
        ("PUT", "/schedules/"),
        ("POST", "/schedules/"),
        ("POST", "/hooks/x/"),
        ("POST", "/session/"),
        ("POST", "/jobs/x/outcome/"),
    ]
    with serving(tmp_path, limits=PATIENT) as service:
        client = service.nobody
        for method, path in asked:
            few(service, 1)
            first, _, answer = [client.call(method, path, headers=headers) for _ in range(3)]
            assert first.status in (401, 404, 405, 422), path
            assert (answer.status, answer.headers.get("connection")) == (429, "close"), path
            assert service.admin.get("/schedules/").status == 200  # its token is known, from the same address


def test_beyond_its_rate_an_address_has_its_guesses_looked_up_one_after_the_other(tmp_path: Path) -> None:
    """400 connections with a wrong token each kept the event loop from others: 1,300 look-ups a second."""
    with serving(tmp_path) as service:
        assert service.admin.get("/schedules/").status == 200
        wrong, new = Client(service.url, "ew_a-guess"), service.client("viewer")
        few(service, 1)
        assert [wrong.get("/schedules/").status for _ in range(2)] == [401, 429]
        service.context.guesses = Line(per_second=1_000, most=0)
        looked_up = denials(service)
        assert {wrong.get("/schedules/").status for _ in range(3)} == {429}
        assert denials(service) == looked_up
        assert service.admin.get("/schedules/").status == 200  # it was known
        service.context.guesses = Line(per_second=1_000, most=1)
        assert new.get("/schedules/").status == 200  # in its turn


def test_large_answers_count_more(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        few(service, UNITS_OF_LARGE["/api/docs"] // UNITS)
        assert [fetch(service, path).status for path in ("/api/docs", "/nowhere")] == [200, 429]


def test_behind_a_trusted_proxy_each_caller_has_a_rate_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, trusted_proxies=(ip_network("127.0.0.0/8"),)) as service:
        few(service, 2)

        def status(address: str) -> int:
            return fetch(service, "/nowhere", **{"X-Forwarded-For": address}).status

        assert [status("203.0.113.9") for _ in range(3)] == [404, 404, 429]
        assert status("203.0.113.10") == 404
        # One network of IPv6 is one caller.
        assert [status(f"2001:db9::{number}") for number in range(1, 4)] == [404, 404, 429]


def test_probes_every_second_and_a_browser_with_all_its_files_pass(tmp_path: Path) -> None:
    """As many as come in a minute, at once: ten probes, and twenty people who open the dashboard at the same time."""
    with serving(tmp_path, further=dashboard_routes()) as service:
        files = [f"/{FOLDER}/{digest_of_assets()}/{path}" for path in load_assets()]
        assert len(first_modules()) > 10 and len(files) > 40
        for _ in range(15):
            assert {fetch(service, path).status for path in ("/", *files)} == {200}
        assert {fetch(service, "/readyz").status for _ in range(60)} == {200}


# -- what a connection may send --


def test_a_body_in_very_many_pieces_is_not_read(tmp_path: Path) -> None:
    """Each takes the event loop as long as some kilobytes; the connection is closed, although it waits for more."""
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    with serving(tmp_path, limits=PATIENT) as service, connected(service) as peer:
        with suppress(OSError):
            peer.sendall(head + b"1\r\n \r\n" * 2 * MOST_CHUNKS)
        with suppress(ConnectionError):
            assert peer.recv(65_536) == b""


def test_a_body_in_many_pieces_of_some_size_is_read(service: Service) -> None:
    text = json.dumps({"token": "ew_x", "more": "x" * SMALLEST_CHUNK * 2 * MOST_CHUNKS}).encode()
    pieces: Any = (text[start : start + SMALLEST_CHUNK] for start in range(0, len(text), SMALLEST_CHUNK))
    answer = Client(service.url, None).call("POST", "/session/", raw=pieces)
    assert answer.status == 422
