"""HTTP requests to a real server on loopback: what a status means, and servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from everwhen.model.addresses import Address
from everwhen.model.instants import SECOND
from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.http_addresses import ForbiddenAddressError, GuardedResolver, unresolved
from everwhen.targets.http_exchange import HttpExchange, retry_after
from everwhen.targets.lookups import MOST_LOOKUPS, MOST_WAITING
from tests.servers.ports import LOOPBACK, HeldPort
from tests.targets.http_server import NOW, Requests, Seen, Server, a_server, reset, status
from tests.targets.running import PATIENCE, Kept, a_run, perform, until_async


def send(
    server: Server | str, run: Run | None = None, allow_private_urls: bool = False, **fields: Any
) -> Outcome:
    url = server if isinstance(server, str) else f"{server.url}/hook"
    return perform(Requests(allow_private_urls=allow_private_urls), {"url": url, **fields}, run)


def test_the_run_is_the_body_and_stands_in_the_headers() -> None:
    with a_server(status(200, "done")) as server:
        assert send(server, a_run(user=7)) == Outcome("succeeded", result="done")
    (request,) = server.seen
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.json == {
        "job_id": "sched-abc-n1-rc0",
        "schedule_id": "backup",
        "schedule_name": "Backup",
        "slot_at": "2026-01-05T08:00:00+00:00",
        "attempt": 1,
        "origin": "schedule",
        "catch_up": False,
        "repeat_number": 0,
        "payload": {"user": 7},
        "deadline_at": None,
    }
    headers = request.headers
    assert headers["content-type"] == "application/json"
    assert headers["everwhen-job-id"] == headers["idempotency-key"] == "sched-abc-n1-rc0"
    assert headers["everwhen-slot-at"] == "2026-01-05T08:00:00+00:00"
    assert headers["everwhen-attempt"] == "1"
    version, trace, span, _ = headers["traceparent"].split("-")
    assert (version, len(trace), len(span)) == ("00", 32, 16)
    assert len(headers["everwhen-outcome-token"]) >= 43


def test_method_headers_and_body_are_those_that_were_given() -> None:
    with a_server(status(204)) as server:
        outcome = send(server, method="put", headers={"X-Own": "1", "content-type": "text/csv"}, body="a,b")
    (request,) = server.seen
    assert outcome.status == "succeeded"
    assert (request.method, request.body, request.headers["x-own"]) == ("PUT", b"a,b", "1")
    assert request.headers["content-type"] == "text/csv"


def test_a_body_of_words_is_json_and_a_get_has_none() -> None:
    with a_server(status(200)) as server:
        send(server, body={"a": [1]})
        send(server, method="GET")
    assert (server.seen[0].json, server.seen[1].body) == ({"a": [1]}, b"")


@pytest.mark.parametrize("code", [200, 201, 204, 299])
def test_every_2xx_but_202_succeeds(code: int) -> None:
    with a_server(status(code)) as server:
        assert send(server).status == "succeeded"


@pytest.mark.parametrize(
    ("code", "is_final"),
    [
        (400, True),
        (401, True),
        (404, True),
        (409, True),
        (408, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
def test_what_may_pass_may_be_retried_and_the_rest_is_final(code: int, is_final: bool) -> None:
    with a_server(status(code, "no")) as server:
        assert send(server) == Outcome("failed", error=f"HTTP {code}: no", is_final=is_final)


def test_a_202_awaits_its_outcome() -> None:
    with a_server(status(202, "queued")) as server:
        outcome = send(server)
    assert outcome.awaits is not None and len(outcome.awaits) == 64
    assert server.seen[0].headers["everwhen-outcome-token"] not in outcome.awaits


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("120", 120 * SECOND),
        ("Mon, 05 Jan 2026 08:05:00 GMT", 300 * SECOND),
        ("Mon, 05 Jan 2026 07:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("٣", None),
        ("9" * 5_000, 10**10 * SECOND),
        (None, None),
    ],
)
def test_a_server_may_ask_for_a_pause(header: str | None, pause: int | None) -> None:
    assert retry_after(header, NOW) == pause


def test_the_pause_is_in_the_outcome() -> None:
    with a_server(status(429, Retry_After="7")) as server:
        assert send(server).retry_after == 7 * SECOND


# -- redirects and addresses --


def test_a_redirect_is_not_followed_unless_asked_for() -> None:
    with a_server(status(302, Location="/elsewhere")) as server:
        assert send(server) == Outcome("failed", error="HTTP 302", is_final=True)
        assert len(server.seen) == 1


def test_a_redirect_that_is_followed_keeps_what_it_may() -> None:
    with (
        a_server(status(200, "there")) as other,
        a_server(status(307, Location=f"{other.url}/next")) as server,
    ):
        given = {"Authorization": "Bearer x", "X-Api-Key": "k", "Private-Token": "t", "Accept": "text/plain"}
        outcome = send(server, redirects=True, headers={**given, "Cookie": "c=1", "Host": "inside.example"})
    assert outcome == Outcome("succeeded", result="there")
    assert server.seen[0].headers["authorization"] == "Bearer x"
    (request,) = other.seen
    assert (request.method, request.path, request.json["job_id"]) == ("POST", "/next", "sched-abc-n1-rc0")
    lost = {"authorization", "x-api-key", "private-token", "cookie", "everwhen-outcome-token"}
    assert lost <= server.seen[0].headers.keys()
    assert not lost & request.headers.keys()
    assert (request.headers["accept"], request.headers["idempotency-key"]) == (
        "text/plain",
        "sched-abc-n1-rc0",
    )
    assert request.headers["host"] != "inside.example" == server.seen[0].headers["host"]


def test_a_see_other_asks_for_the_result() -> None:
    def answer(connection: socket.socket, request: Seen) -> None:
        where = status(200, "result") if request.path == "/result" else status(303, Location="/result")
        where(connection, request)

    with a_server(answer) as server:
        assert send(server, redirects=True).result == "result"
    assert [request.method for request in server.seen] == ["POST", "GET"]


@pytest.mark.parametrize(
    ("location", "fault"),
    [
        ("file:///etc/passwd", "'file:///etc/passwd', which is not an http or https URL"),
        ("http://[::bad/", "'http://[::bad/', which is not a URL: "),
    ],
)
def test_a_redirect_to_no_url_is_final_and_says_where_it_led(location: str, fault: str) -> None:
    with a_server(status(302, Location=location)) as server:
        outcome = send(server, redirects=True)
    assert outcome.is_final
    assert fault in (outcome.error or "")


def test_redirects_in_a_circle_end() -> None:
    with a_server(status(302, Location="/hook")) as server:
        outcome = send(server, redirects=True)
    assert outcome == Outcome("failed", error="redirected more than 10 times", is_final=True)


ODD_FORMS = [
    "127.1", "0", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.01", "127.0.0.1.",
    "256.0.0.1", "1.1", "1.1.1.1.1", "4294967297", "①②⑦.1", "１２７.１", "127.1%2e",
]  # fmt: skip


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fec0::1]",
        "192.88.99.1",
        *ODD_FORMS,
    ],
)
def test_a_url_from_outside_reaches_no_private_address_however_it_is_spelled(host: str) -> None:
    with a_server(status(200)) as server:
        outcome = send(f"http://{host}:{server.port}/", source="api")
        assert outcome.status == "failed" and outcome.is_final
        assert "is not a public address" in (outcome.error or "")  # refused by us, before the client reads it
        assert server.seen == []


def only_the_second(address: Address) -> bool:
    """Another idea of what is public, so that a request from outside has a first hop on this machine."""
    return str(address) == "127.0.0.2"


def send_from_outside(server: Server, **fields: Any) -> Outcome:
    spec = {"url": f"http://127.0.0.2:{server.port}/hook", "source": "api", **fields}
    return perform(Requests(may_reach=only_the_second), spec)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0177.0.0.1"])
@pytest.mark.parametrize("code", [302, 307])
def test_a_redirect_of_a_request_from_outside_reaches_no_private_address(code: int, host: str) -> None:
    with a_server(status(200, "private")) as private:
        location = f"http://{host}:{private.port}/"
        with a_server(status(code, Location=location), host="127.0.0.2") as server:
            outcome = send_from_outside(server, redirects=True)
        assert len(server.seen) == 1
        assert private.seen == []
    assert "is not a public address" in (outcome.error or "")


class Rebinding(AbstractResolver):
    """A name server that gives a name another address each time it is asked."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = self._addresses.pop(0)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None: ...


def test_a_name_that_changes_its_address_reaches_what_was_checked() -> None:
    async def ask_twice(port: int) -> list[object]:
        resolver = GuardedResolver(only_the_second, Rebinding("127.0.0.2", "127.0.0.1"))
        connector = aiohttp.TCPConnector(resolver=resolver, force_close=True, use_dns_cache=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            asked = [session.get(f"http://rebinding.example:{port}/") for _ in range(2)]
            return [
                getattr(answer, "status", answer)
                for answer in await asyncio.gather(*asked, return_exceptions=True)
            ]

    with a_server(status(200), host="127.0.0.2") as server:
        first, second = asyncio.run(ask_twice(server.port))
        assert first == 200 and isinstance(second, ForbiddenAddressError)


@pytest.mark.parametrize("is_guarded", [False, True])
def test_names_of_one_owner_that_are_never_answered_keep_no_other_owner_waiting(
    monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    """Look-ups cannot be cancelled: those of runs whose time is up would take all threads of the event loop."""
    answered, asked, look_up = threading.Event(), threading.Semaphore(0), socket.getaddrinfo

    def look_up_slowly(host: str, *arguments: Any, **options: Any) -> Any:
        if host.startswith("never"):
            asked.release()
            assert answered.wait(PATIENCE)
        return look_up("127.0.0.2" if host == "well.example" else host, *arguments, **options)

    async def play(url: str) -> tuple[Outcome, list[Outcome]]:
        own = {"source": "api"} if is_guarded else {}
        target = HttpExchange(lambda: NOW, may_reach=only_the_second)
        ann, bob = replace(a_run(), owner="ann"), replace(a_run(), owner="bob")
        specs = [json.dumps({"url": f"http://never-{number}.example/", **own}) for number in range(200)]
        hanging = [asyncio.create_task(target.run(spec, ann)) for spec in specs]
        try:
            await until_async(lambda: asked.acquire(blocking=False))
            other = await asyncio.wait_for(target.run(json.dumps({"url": url, **own}), bob), PATIENCE / 4)
            assert await asyncio.to_thread(lambda: "a thread of the event loop")
        finally:
            answered.set()
        outcomes = await asyncio.gather(*hanging)
        await target.close()
        return other, outcomes

    monkeypatch.setattr(socket, "getaddrinfo", look_up_slowly)
    with a_server(status(200, "well"), host="127.0.0.2") as server:
        other, outcomes = asyncio.run(play(f"http://well.example:{server.port}/"))
    assert other == Outcome("succeeded", result="well")
    assert all(
        (one.status, one.is_final) == ("failed", False) for one in outcomes[MOST_LOOKUPS + MOST_WAITING :]
    )


def test_a_forbidden_hop_is_final_and_says_which() -> None:
    answer = status(302, Location="http://localhost:1/inside")
    with a_server(answer, host="127.0.0.2") as server:
        outcome = send_from_outside(server, redirects=True)
    assert outcome.is_final
    assert "localhost is not a public address" in (outcome.error or "")


def test_a_refusal_does_not_tell_what_a_name_resolves_to() -> None:
    refused = send("http://localhost:1/", source="api")
    with a_server(status(200)) as server:
        port = server.port
    unanswered = send(f"http://localhost:{port}/", source="api", allow_private_urls=True)
    for outcome in (refused, unanswered):
        assert "localhost" in (outcome.error or "")
        assert not {"127.0.0.1", "::1"} & set((outcome.error or "").replace("'", " ").split(" "))
    assert unanswered.error == f"http://localhost:{port}/: connection refused"


def test_a_refusal_does_not_tell_whether_a_name_resolves_to_anything() -> None:
    private, nothing = (send(f"http://{host}:1/", source="api") for host in ("localhost", "nowhere.invalid"))
    assert (private.error or "").replace("localhost", "nowhere.invalid") == nothing.error


@pytest.mark.parametrize(("fault", "is_final"), [(socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)])
def test_a_name_that_could_not_be_asked_for_is_asked_for_again(fault: int, is_final: bool) -> None:
    error = unresolved("example.com", socket.gaierror(fault, "why"))
    assert error.is_final == is_final
    assert "why" not in str(error)


def test_a_redirect_of_a_request_from_outside_is_followed_where_it_may_go() -> None:
    with a_server(status(200, "there"), host="127.0.0.2") as other:
        location = f"http://127.0.0.2:{other.port}/"
        with a_server(status(307, Location=location), host="127.0.0.2") as server:
            assert send_from_outside(server, redirects=True) == Outcome("succeeded", result="there")


def test_what_came_from_outside_reads_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "t0ken-value")
    with a_server(status(200), host="127.0.0.2") as server:
        outcome = send_from_outside(server, headers={"X-Token": "${HOOK_TOKEN}"}, body="${HOOK_TOKEN}")
    assert outcome.status == "succeeded"
    (request,) = server.seen
    assert (request.headers["x-token"], request.body) == ("${HOOK_TOKEN}", b"${HOOK_TOKEN}")


def test_a_private_address_is_refused_for_good_and_says_what_to_do() -> None:
    outcome = send("http://localhost:1/", source="api")
    assert outcome.is_final
    assert "is not a public address" in (outcome.error or "")
    assert "api.allow_private_urls" in (outcome.error or "")


def test_a_url_of_the_file_or_with_leave_goes_anywhere() -> None:
    with a_server(status(200)) as server:
        assert send(f"http://localhost:{server.port}/").status == "succeeded"
        assert send(server, source="api", allow_private_urls=True).status == "succeeded"


# -- servers and words that misbehave --


def hang(connection: socket.socket, _request: Seen) -> None:
    connection.recv(1)  # until the other side gives up


def drip(connection: socket.socket, _request: Seen) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b".")
        threading.Event().wait(0.02)


@pytest.mark.parametrize("answer", [hang, drip])
def test_a_server_that_hangs_or_drips_is_ended_by_the_deadline(answer: Any) -> None:
    with a_server(answer) as server:
        outcome = send(server, a_run(seconds=0.5))
    assert outcome.status == "timed_out"
    assert (outcome.error or "").startswith("timed out after 0.5s")


def half(connection: socket.socket, _request: Seen) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def garbage(connection: socket.socket, _request: Seen) -> None:
    connection.sendall(b"\x00\x01 this is no HTTP \r\n\r\n")


@pytest.mark.parametrize("answer", [reset, half, garbage])
def test_a_broken_connection_may_be_retried(answer: Any) -> None:
    with a_server(answer) as server:
        outcome = send(server)
        assert (outcome.status, outcome.is_final) == ("failed", False)
        assert outcome.error is not None and outcome.error.startswith(server.url)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_error_does_not_show_the_password_of_its_url(scheme: str) -> None:
    with a_server(garbage) as server:
        url = f"{scheme}://app:s3cret@127.0.0.1:{server.port}/"
        outcome = send(url, connect_timeout=0.5)
    assert f"{scheme}://app@127.0.0.1:" in (outcome.error or "")
    assert "s3cret" not in (outcome.error or "")


def test_the_time_to_connect_may_be_said_as_in_the_file() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it never answers the first word of TLS
        outcome = send(f"https://127.0.0.1:{silent.getsockname()[1]}/", a_run(20), connect_timeout="1s")
    assert (outcome.status, outcome.is_final) == ("failed", False)
    assert "no connection in time" in (outcome.error or "")


def test_nobody_who_listens_may_be_retried() -> None:
    port = HeldPort()  # nobody else comes to listen there
    try:
        outcome = send(f"http://{LOOPBACK}:{port.number}/")
    finally:
        port.release()
    assert (outcome.status, outcome.is_final) == ("failed", False)


def endless(connection: socket.socket, _request: Seen) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65_536)


def test_an_answer_without_end_is_read_only_so_far() -> None:
    with a_server(endless) as server:
        outcome = send(server)
    assert outcome.status == "succeeded"
    assert len(outcome.result or "") == 4_096


def test_a_plain_server_behind_https_is_no_success() -> None:
    with a_server(status(200)) as server:
        outcome = send(f"https://127.0.0.1:{server.port}/", connect_timeout=0.5)
    assert (outcome.status, outcome.is_final) == ("failed", False)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://example.com/"},
        {"url": "nonsense"},
        {"url": "http://"},
        {"url": "http://127.0.0.1:1/", "headers": {"X": "a\r\nEvil: 1"}},
        {"url": "http://127.0.0.1:1/", "headers": {"Transfer-Encoding": "chunked"}, "body": "0\r\n\r\n"},
        {"url": "http://127.0.0.1:1/", "headers": {"content_length": 0}},
    ],
)
def test_words_that_make_no_request_are_final(fields: dict[str, Any]) -> None:
    outcome = perform(Requests(), fields)
    assert outcome.is_final
    assert "this is not a valid request" in (outcome.error or "")


def test_a_long_answer_is_output_and_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "t0ken-value")
    output = Kept()
    headers = {"Authorization": "Bearer ${HOOK_TOKEN}"}
    with a_server(status(403, "bad token t0ken-value")) as server:
        assert send(server, a_run(output=output), headers=headers).error == "HTTP 403: bad token ***"
    assert server.seen[0].headers["authorization"] == "Bearer t0ken-value"
    assert output.pieces == []
    with a_server(status(403, "t0ken-value" + "." * 5_000)) as server:
        send(server, a_run(output=output), headers=headers)
    assert output.text() == "***" + "." * 5_000
