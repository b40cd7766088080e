"""Messages over HTTP: a real server on loopback, the real client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from everwhen.engine.delivery import SubscriberDelivery
from everwhen.errors import SchedulerError
from everwhen.model.message import message_target
from everwhen.store.opened import store_of
from everwhen.targets.http import HttpTarget
from everwhen.targets.subscribers import HttpSubscriber
from everwhen.testing import ManualClock, manual_scheduler

EVENT = {
    "event_id": "6f1d9a0e",
    "occurred_at": "2026-01-05T08:00:00Z",
    "source": {"connector_id": "reminder"},
    "content": {"text": "Presents!"},
}


class Inbox:
    """What a server got, and what it answers."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.got: list[tuple[dict[str, str], Any]] = []


@contextmanager
def a_server(inbox: Inbox) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            inbox.got.append((dict(self.headers), body))
            self.send_response(inbox.answers.pop(0) if inbox.answers else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/inbox"
        server.shutdown()
        thread.join()


def subscriber(url: str) -> HttpSubscriber:
    clock = ManualClock()
    return HttpSubscriber("inbox", {"url": url}, lambda: HttpTarget(clock.now))


def test_an_event_is_the_body_and_its_id_the_idempotency_key() -> None:
    inbox = Inbox()
    with a_server(inbox) as url:
        subscriber(url).deliver(EVENT)
    ((headers, body),) = inbox.got
    assert body == EVENT
    assert headers["Idempotency-Key"] == "6f1d9a0e"


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_success_is_one(status: int) -> None:
    with a_server(Inbox(status)) as url:
        subscriber(url).deliver(EVENT)


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
def test_anything_else_is_a_refusal(status: int) -> None:
    with a_server(Inbox(status)) as url, pytest.raises(SchedulerError, match=str(status)):
        subscriber(url).deliver(EVENT)


def test_nobody_there_is_a_refusal() -> None:
    with a_server(Inbox()) as url:
        pass
    with pytest.raises(SchedulerError):
        subscriber(url).deliver(EVENT)


def test_a_message_comes_until_it_is_taken() -> None:
    inbox, scheduler = Inbox(500, 404), manual_scheduler("2026-01-05T08:00:00Z")
    with a_server(inbox) as url:
        delivery = SubscriberDelivery(
            store_of(scheduler.runtime).messages, scheduler.clock, subscriber(url), node="here"
        )
        delivery.subscribe()
        scheduler.add("reminder", every="1h", target=message_target({"text": "Presents!"}))
        scheduler.step()
        for _ in range(4):
            delivery.step()
            scheduler.clock.advance("10s")
    assert [body["content"]["text"] for _, body in inbox.got] == ["Presents!"] * 3
    assert len({body["event_id"] for _, body in inbox.got}) == 1
    scheduler.stack.close()
