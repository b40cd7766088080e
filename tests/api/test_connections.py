"""What somebody who has no token can use up: heads, half requests and connections are bounded, and others are served.

Each test asks for /healthz on a connection of its own while the others are held.
"""

from __future__ import annotations

import fcntl
import logging
import resource
import socket
import ssl
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from everwhen.api.connections import ConnectionLimits
from tests.api.serving import Service, serving
from tests.api.test_postgres_and_tls import certificate_in
from tests.scheduler.waiting import until

# A second, so that what a test sends at once comes before it is over.
QUICK = ConnectionLimits(head_within=1, body_within=1, idle=1)
PATIENT = ConnectionLimits(head_within=600, body_within=600)
HEAD = b"POST /api/v1/session/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    parts = urlsplit(service.url)
    with socket.create_connection((parts.hostname, parts.port), 60) as peer:
        yield peer


def status_of(peer: socket.socket) -> int | None:
    """The status of what is answered; None when the connection is closed without a word."""
    with closing(HTTPResponse(peer)) as answer:
        try:
            answer.begin()
        except OSError:
            return None
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["connection"] == "close"
        return answer.status


def is_closed(peer: socket.socket) -> bool:
    """Wait until the server has closed it; return whether it has."""
    try:
        while peer.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def read_all(peer: socket.socket) -> bytes:
    found = b""
    while piece := peer.recv(65_536):
        found += piece
    return found


def assert_served(service: Service) -> None:
    assert _is_served(service)


# -- size --


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * 100_000,
        b"GET /" + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Many: 1\r\n" * 200 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        + (b"X-Many: " + b"x" * 1_000 + b"\r\n") * 90
        + b"\r\n",
    ],
    ids=["header", "url", "number", "sum"],
)
def test_a_head_beyond_its_bounds_is_431(service: Service, head: bytes) -> None:
    with connected(service) as peer:
        peer.sendall(head)
        assert status_of(peer) == 431
    assert_served(service)


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: ",
        b"GET /",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: ",
    ],
    ids=["header", "url", "chunk extension", "trailer"],
)
def test_what_never_ends_is_not_kept(tmp_path: Path, beginning: bytes) -> None:
    """64 MiB are offered: the server closes the connection when it has seen a fraction of them."""
    taken, piece = 0, b"x" * 65_536
    with serving(tmp_path, limits=PATIENT) as service, connected(service) as peer:
        peer.sendall(beginning)
        before = peak_memory()
        with suppress(OSError):
            while taken < 64 << 20:
                taken += peer.send(piece)
        assert taken < 32 << 20
        assert peak_memory() - before < 32 << 20
        assert_served(service)


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_ordinary_heads_and_pipelines_pass(service: Service) -> None:
    with connected(service) as peer:
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 8_000 + b"\r\n\r\n"
        last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        peer.sendall(request * 20 + last)
        assert read_all(peer).count(b"HTTP/1.1 200 OK") == 21


def test_thousands_of_pipelined_requests_are_not_queued(service: Service) -> None:
    with connected(service) as peer:
        with suppress(OSError):
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000)
        assert is_closed(peer)
    assert_served(service)


def test_what_is_not_http_is_a_problem_too(service: Service) -> None:
    with connected(service) as peer:
        peer.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert status_of(peer) == 400


# -- time --


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 408),
        (b"GET /heal", 408),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A", 408),
        (HEAD + b"Content-Length: 10\r\n\r\n{", 408),
        (HEAD + b"Content-Length: 10\r\n\r\n", 408),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 408),
    ],
    ids=["nothing", "method", "header", "body", "no body", "chunk"],
)
def test_half_a_request_is_closed_by_the_server(tmp_path: Path, sent: bytes, status: int) -> None:
    with serving(tmp_path, limits=QUICK) as service, ExitStack() as held:
        peers = []
        for _ in range(50):
            peer = held.enter_context(connected(service))
            peer.sendall(sent)
            peers.append(peer)
        until(lambda: _is_served(service))
        for peer in peers:
            assert status_of(peer) == status
            assert is_closed(peer)


def test_a_byte_now_and_then_does_not_keep_a_connection(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as service:
        for sent in (b"GET / HTTP/1.1\r\nX-A: ", HEAD + b"Content-Length: 100000\r\n\r\n"):
            with connected(service) as peer:
                peer.settimeout(0.05)  # a byte as often as that
                peer.sendall(sent)
                assert _is_ended_while_dripping(peer, b"1")


def _is_ended_while_dripping(peer: socket.socket, drop: bytes) -> bool:
    for _ in range(1_000):
        try:
            peer.sendall(drop)
            if not peer.recv(65_536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_an_idle_connection_is_closed_and_blank_lines_do_not_keep_it(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as service, connected(service) as idle, connected(service) as blank:
        for peer in (idle, blank):
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        blank.settimeout(0.05)
        assert is_closed(idle)
        assert _is_ended_while_dripping(blank, b"\r\n")


def test_the_rest_of_a_body_that_was_answered_already_is_not_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as service, connected(service) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        peer.settimeout(0.05)
        assert _is_ended_while_dripping(peer, b"x")


def test_an_answer_that_nobody_takes_does_not_keep_a_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quick = ConnectionLimits(connections=3, taken_within=0.3)
    with serving(tmp_path, limits=quick) as service, ExitStack() as held:
        whole = 30 * len(replace(service.nobody, prefix="").get("/api/openapi.json").raw)
        peers = []
        for _ in range(3):
            peer = held.enter_context(connected(service))
            peers.append(peer)
            peer.sendall(b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30)
            assert peer.recv(15) == b"HTTP/1.1 200 OK"
        until(lambda: _is_served(service))
        # One of them was cut off to make room, and does not get everything any more.
        assert any(_taken(peer, whole) < whole for peer in peers)
        assert [one for one in caplog.records if one.levelno > logging.INFO] == []


def test_of_answers_that_nobody_takes_so_many_bytes_wait_and_the_last_to_come_gets_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A list of large schedules has a hundred megabytes, and each connection could keep one for half an hour."""
    limits = ConnectionLimits(taken_within=600, untaken=300_000)
    with serving(tmp_path, limits=limits) as service, ExitStack() as held:
        service.context.lift_rates()
        whole = 30 * len(replace(service.nobody, prefix="").get("/api/openapi.json").raw)
        parts, peers = urlsplit(service.url), []
        for _ in range(10):
            peer = held.enter_context(closing(socket.socket()))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            peer.settimeout(60)
            peer.connect((parts.hostname, parts.port))
            peers.append(peer)
            peer.sendall(b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30)
            assert peer.recv(15) == b"HTTP/1.1 200 OK"
        arrived: list[list[int]] = [[], []]

        def has_come_to_rest() -> bool:
            arrived.append([count_arrived(peer) for peer in peers])
            return arrived[-1] == arrived[-2] == arrived[-20:][0]

        until(has_come_to_rest)
        complete = sum(_taken(peer, whole) >= whole - 15 for peer in peers)
        assert 1 <= complete <= 4
        assert_served(service)
        assert [one for one in caplog.records if one.levelno > logging.INFO] == []


def count_arrived(peer: socket.socket) -> int:
    """Return how many bytes the kernel has for a client that takes none."""
    found = bytearray(4)
    fcntl.ioctl(peer, termios.FIONREAD, found)
    return int.from_bytes(found, sys.byteorder)


def _taken(peer: socket.socket, most: int) -> int:
    length = 0
    with suppress(OSError):
        while length < most and (piece := peer.recv(1 << 20)):
            length += len(piece)
    return length


def _is_served(service: Service) -> bool:
    with connected(service) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with suppress(OSError):
            return read_all(peer).startswith(b"HTTP/1.1 200 OK")
        return False


# -- number --


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX-A", HEAD + b"Content-Length: 10\r\n\r\n"])
def test_beyond_the_number_of_connections_the_oldest_that_owes_something_makes_space(
    tmp_path: Path, sent: bytes
) -> None:
    few = ConnectionLimits(connections=20, head_within=600, body_within=600)
    with serving(tmp_path, limits=few) as service, ExitStack() as held:
        peers = [held.enter_context(connected(service)) for _ in range(60)]
        for peer in peers:
            with suppress(OSError):
                peer.sendall(sent)
        assert_served(service)
        assert is_closed(peers[0])


def test_where_all_connections_are_at_work_another_gets_that_answer(tmp_path: Path) -> None:
    few = ConnectionLimits(connections=3)
    with serving(tmp_path, limits=few) as service, ExitStack() as held:
        for _ in range(3):
            peer = held.enter_context(connected(service))
            head = "GET /api/v1/events/stream/ HTTP/1.1\r\nHost: localhost\r\n"
            peer.sendall(f"{head}X-API-Key: {service.admin.secret}\r\n\r\n".encode())
            assert peer.recv(15) == b"HTTP/1.1 200 OK"
        with connected(service) as peer:
            assert status_of(peer) == 503


def test_the_number_of_connections_leaves_files_to_the_process() -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, most))
    try:
        assert ConnectionLimits().most_connections == 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


# -- handshakes --


def is_served_with_tls(service: Service, cert: str) -> bool:
    context = ssl.create_default_context(cafile=cert)
    with connected(service) as peer, context.wrap_socket(peer, server_hostname="127.0.0.1") as encrypted:
        encrypted.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return read_all(encrypted).startswith(b"HTTP/1.1 200 OK")


def is_open(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return bool(peer.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a greeting"])
def test_those_who_begin_no_handshake_keep_a_part_of_the_connections_and_the_oldest_makes_space(
    tmp_path: Path, sent: bytes
) -> None:
    """Each kept a descriptor for a minute, beyond every bound: a thousand of them, and the node could start nothing."""
    few = ConnectionLimits(connections=20, head_within=600, body_within=600)
    cert, key = certificate_in(tmp_path)
    with serving(tmp_path, limits=few, tls=(cert, key)) as service, ExitStack() as held:
        peers = [held.enter_context(connected(service)) for _ in range(60)]
        for peer in peers:
            peer.settimeout(20)
            with suppress(OSError):
                peer.sendall(sent)
        assert is_served_with_tls(service, cert)
        assert is_closed(peers[0])
        until(lambda: sum(map(is_open, peers)) <= 5, 20)


def test_a_handshake_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    cert, key = certificate_in(tmp_path)
    with serving(tmp_path, limits=QUICK, tls=(cert, key)) as service, connected(service) as peer:
        peer.settimeout(20)
        assert is_closed(peer)
        assert is_served_with_tls(service, cert)


def test_connections_with_tls_are_counted_with_the_handshakes(tmp_path: Path) -> None:
    few = ConnectionLimits(connections=8, head_within=600, body_within=600)
    cert, key = certificate_in(tmp_path)
    context = ssl.create_default_context(cafile=cert)
    with serving(tmp_path, limits=few, tls=(cert, key)) as service, ExitStack() as held:
        peers = []
        for _ in range(20):
            peer = held.enter_context(connected(service))
            peers.append(held.enter_context(context.wrap_socket(peer, server_hostname="127.0.0.1")))
        assert is_served_with_tls(service, cert)
        assert is_closed(peers[0])
