"""Clients that send a request and leave: nothing is done for them but what changes something."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from everwhen.api.access import Viewer
from everwhen.api.calls import Context, answer, make_router
from everwhen.api.costs import cheap, expensive
from everwhen.api.rates import Rates
from everwhen.api.shares import EXPENSIVE, OF_CHEAP, OF_EXPENSIVE, Places
from everwhen.model.token import Token
from tests.api.serving import Service, serving
from tests.api.test_connections import connected, read_all
from tests.api.test_shares import loop_of, token_of
from tests.load.attacks import head
from tests.scheduler.waiting import until

MESSAGE = {"every": "1h", "run": {"message": {"text": "x"}}}


@contextmanager
def busy(service: Service) -> Iterator[None]:
    """Keep the event loop at work, so that what is sent meanwhile arrives together."""
    loop, released, began = loop_of(service), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        released.wait(60)

    loop.call_soon_threadsafe(work)
    assert began.wait(60)
    try:
        yield
    finally:
        released.set()


def send_and_leave(service: Service, *requests: bytes) -> None:
    sent: list[socket.socket] = []
    with ExitStack() as peers, ExitStack() as left:
        left.enter_context(busy(service))
        for request in requests:
            peer = peers.enter_context(connected(service))
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            sent.append(peer)
        left.close()
        for peer in sent:
            read_all(peer)


def few_requests(service: Service) -> None:
    """Let a token send one request, and no more for a while."""
    service.context.rates = Rates(burst=1, per_second=0.001, monotonic=service.runtime.clock.monotonic)


def test_a_request_whose_client_left_at_once_is_not_begun(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        client = service.client(owner="a")
        loop_of(service)
        few_requests(service)
        send_and_leave(service, *[head("GET", "/api/v1/schedules/", client.secret)] * 20)
        part = head("POST", "/api/v1/schedules/", client.secret, Content_Length=100)
        send_and_leave(service, *[part + b"{"] * 20)
        assert client.get("/schedules/").status == 200
        assert client.get("/schedules/").status == 429


def test_a_change_that_came_as_a_whole_is_made_though_its_client_left(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        body = json.dumps(MESSAGE).encode()
        request = head("POST", "/api/v1/schedules/", service.admin.secret, Content_Length=len(body)) + body
        send_and_leave(service, request)
        until(lambda: service.admin.get("/schedules/").fields["total"] == 1)


@contextmanager
def taken(service: Service, places: Places, token: Token, count: int) -> Iterator[None]:
    """Hold so many places on the server's own loop."""
    released = threading.Event()

    async def hold() -> None:
        async with places.hold(token):
            while not released.is_set():
                await asyncio.sleep(0.01)

    held = [asyncio.run_coroutine_threadsafe(hold(), loop_of(service)) for _ in range(count)]
    try:
        until(lambda: places.count_taken(token.token_id) == count)
        yield
    finally:
        released.set()
        for one in held:
            one.result()


@pytest.mark.parametrize(
    ("declare", "kind", "count"),
    [(expensive(EXPENSIVE), "expensive", OF_EXPENSIVE.of_token), (cheap, "cheap", OF_CHEAP.of_token)],
)
def test_a_client_that_left_while_it_waited_for_its_turn_gets_nothing_read(
    tmp_path: Path, declare: Any, kind: str, count: int
) -> None:
    done: list[str] = []
    router = make_router("slow")

    def read_slowly(context: Context, caller: Viewer) -> Response:
        done.append(caller.token.token_id)
        return answer({})

    router.get("/slow/")(declare(read_slowly))
    with serving(tmp_path, further=router.routes) as service:
        client = service.client(owner="a")
        token, places = token_of(service, "a"), getattr(service.context.shares, kind)
        with taken(service, places, token, count):
            with connected(service) as peer:
                peer.sendall(head("GET", "/api/v1/slow/", client.secret))
                until(lambda: places.count_waiting(token.token_id) == 1)
            assert service.admin.get("/me/").status == 200  # the loop has seen it leave
        until(lambda: places.is_idle)
        assert done == []
        assert client.get("/slow/").status == 200
        assert done == [token.token_id]
