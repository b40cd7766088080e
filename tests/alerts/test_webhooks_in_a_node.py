"""Event webhooks of a real node, and receivers that are not well-behaved."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from everwhen.alerts.webhook import WebhookPoster
from everwhen.engine import webhooks as engine
from everwhen.engine.webhooks import WebhookSender
from everwhen.model.alerts import Sent
from everwhen.model.webhooks import WebhookDelivery
from everwhen.operations.access import Caller
from everwhen.operations.tokens import create_token
from everwhen.operations.webhooks import create_webhook
from everwhen.store.opened import store_of
from everwhen.testing.manual import manual_scheduler
from everwhen.wiring import open_stack
from tests.cli.test_up import lines_until
from tests.targets.http_server import Seen, a_server, status
from tests.targets.running import until

COMMAND = Path(sys.executable).parent / "everwhen"
FILE = """
service: {lease: 3s}
api: {allow_private_urls: true}
schedules:
  - {id: quick, every: 1h, run: {command: ["true"]}}
"""


@contextmanager
def node(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [COMMAND, "up"],
        cwd=folder,
        env={**os.environ, "EVERWHEN_API_PORT": "0"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines_until(process.stderr, "API on ", 1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def register(folder: Path, url: str) -> None:
    with closing(open_stack(f"sqlite:///{folder}/everwhen.db")) as stack:
        caller = Caller(create_token(stack.runtime, "t", "operator").token)
        create_webhook(stack.runtime, url, ["job.*", "schedule.*"], caller)


def test_a_node_that_is_killed_between_sending_and_recording_sends_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(FILE)

    def hang(_connection: socket.socket, _request: Seen) -> None:
        server.closing.wait(60)

    with a_server(hang) as server:
        register(tmp_path, server.url)
        with node(tmp_path) as process:
            until(lambda: len(server.seen) == 1)  # it has arrived, and nobody has said so
            process.kill()
        server.answer = status(200)
        with node(tmp_path):
            until(
                lambda: any(
                    e["type"] == "job.succeeded" for one in server.seen[1:] for e in one.json["events"]
                )
            )
        first, again, *others = server.seen
        assert first.body == again.body
        assert first.headers["everwhen-delivery-id"] == again.headers["everwhen-delivery-id"]
        heard = [event["type"] for one in (again, *others) for event in one.json["events"]]
        once = [heard.count(name) for name in ("schedule.created", "schedule.fired", "job.succeeded")]
        assert once == [1, 1, 1]
        ids = {one.headers["everwhen-delivery-id"] for one in (again, *others)}
        assert len(ids) == len(others) + 1


def delivery_to(url: str) -> WebhookDelivery:
    return WebhookDelivery("whk_1", url, "secret", "d-1", "{}", attempts=0, failing_since=None)


def post(url: str, *, is_open: bool = False) -> Sent:
    return WebhookPoster(lambda: 0, lambda: is_open)(delivery_to(url), 0)


def test_a_redirect_is_a_failure_and_is_not_followed() -> None:
    with a_server(status(200)) as inside, a_server(status(302, Location=inside.url)) as server:
        assert not post(server.url, is_open=True).is_delivered
        assert inside.seen == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"])
def test_a_private_address_is_refused_when_it_is_sent_to(host: str) -> None:
    """The name may have been public when the webhook was created."""
    with a_server(status(200)) as server:
        sent = post(f"http://{host}:{server.port}/")
        assert not sent.is_delivered
        assert server.seen == []


def test_an_answer_that_does_not_end_or_unpacks_to_much_is_cut() -> None:
    bomb = zlib.compressobj(wbits=31)
    packed = bomb.compress(bytes(50_000_000)) + bomb.flush()

    def inflate(connection: socket.socket, _request: Seen) -> None:
        head = f"HTTP/1.1 500 X\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        connection.sendall(head.encode() + packed)

    def endless(connection: socket.socket, _request: Seen) -> None:
        connection.sendall(b"HTTP/1.1 500 X\r\n\r\n")
        while not server.closing.is_set():
            connection.sendall(b"x" * 65_536)

    for answer in (inflate, endless):
        with a_server(answer) as server:
            sent = post(server.url, is_open=True)
            assert not sent.is_delivered
            assert len(sent.answer) < 600


def test_receivers_that_hang_have_half_of_the_threads_at_the_most() -> None:
    free, hanging = threading.Event(), set[str]()

    def hang(delivery: WebhookDelivery, _now: int) -> Sent:
        if delivery.attempts:
            hanging.add(delivery.webhook_id)
            free.wait(60)
        return Sent(False, "bad")

    with closing(manual_scheduler("2026-01-05T00:00:00Z")) as scheduler:
        runtime = scheduler.runtime
        caller = Caller(create_token(runtime, "t", "operator").token)
        for number in range(engine.MOST_AT_ONCE + 1):
            create_webhook(runtime, f"https://example.com/{number}", ["webhook.*"], caller)
        sender = WebhookSender(runtime, hang, node=lambda: "n1")
        webhooks = store_of(runtime).webhooks

        def have_all_failed() -> bool:
            sender.step()
            return all(one.attempts for one in webhooks.all()) and not sender._under_way

        def hang_as_many_as_may() -> bool:
            scheduler.clock.advance(60)
            for _ in range(engine.MOST_AT_ONCE):
                sender.step()
            return len(hanging) == len(sender._under_way) and bool(hanging)

        scheduler.clock.advance(3)
        until(have_all_failed)
        until(hang_as_many_as_may)
        try:
            for _ in range(engine.MOST_AT_ONCE):
                sender.step()
            assert len(hanging) == len(sender._under_way) == engine.MOST_AT_ONCE // 2
        finally:
            free.set()
            until(lambda: not sender._under_way)
        sender.release()


def test_receivers_of_one_owner_that_answer_late_leave_threads_to_another() -> None:
    """They never fail, so that nothing else bounds them."""
    free, arrived = threading.Event(), set[str]()

    def late(delivery: WebhookDelivery, _now: int) -> Sent:
        if "mallory" in delivery.url:
            free.wait(60)
        arrived.add(delivery.webhook_id)
        return Sent(True)

    with closing(manual_scheduler("2026-01-05T00:00:00Z")) as scheduler:
        runtime = scheduler.runtime
        callers = {
            name: Caller(create_token(runtime, name, "operator", owner=name).token)
            for name in ("mallory", "alice")
        }
        for number in range(engine.MOST_AT_ONCE + 2):
            create_webhook(
                runtime, f"https://example.com/mallory/{number}", ["webhook.*"], callers["mallory"]
            )
        sender = WebhookSender(runtime, late, node=lambda: "n1")

        def step() -> None:
            scheduler.clock.advance(3)
            sender.step()

        def has_arrived() -> bool:
            step()
            return good.webhook_id in arrived

        try:
            for _ in range(2 * engine.MOST_AT_ONCE):
                step()
            assert len(sender._under_way) == engine.MOST_AT_ONCE // 2
            good = create_webhook(
                runtime, "https://example.com/good", ["webhook.*"], callers["alice"]
            ).webhook
            create_webhook(runtime, "https://example.com/other", ["job.lost"], callers["alice"])
            until(has_arrived)
            assert arrived == {good.webhook_id}
        finally:
            free.set()
            until(lambda: not sender._under_way)
        sender.release()


def test_receivers_that_fail_leave_threads_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(engine, "MOST_FAILING", 2)
    free, arrived = threading.Event(), []

    def slow(delivery: WebhookDelivery, _now: int) -> Sent:
        if delivery.url.endswith("bad"):
            if delivery.attempts:
                free.wait(60)
            return Sent(False, "bad")
        arrived.append(delivery.webhook_id)
        return Sent(True)

    with closing(manual_scheduler("2026-01-05T00:00:00Z")) as scheduler:
        runtime = scheduler.runtime
        caller = Caller(create_token(runtime, "t", "operator").token)
        for number in range(5):
            create_webhook(runtime, f"https://example.com/{number}/bad", ["webhook.*"], caller)
        good = create_webhook(runtime, "https://example.com/good", ["webhook.*"], caller).webhook
        sender = WebhookSender(runtime, slow, node=lambda: "n1")
        webhooks = store_of(runtime).webhooks

        def pass_time(seconds: int) -> None:
            scheduler.clock.advance(seconds)
            sender.step()

        def has_failed_everywhere() -> bool:
            pass_time(0)
            return all(one.attempts for one in webhooks.all() if one.url.endswith("bad"))

        pass_time(3)
        until(has_failed_everywhere)
        arrived.clear()
        try:
            create_webhook(runtime, "https://example.com/last/bad", ["job.lost"], caller)

            def has_arrived() -> bool:
                pass_time(11)  # all that failed are due again, and hang
                return good.webhook_id in arrived

            until(has_arrived)
        finally:
            free.set()
            until(lambda: not sender._under_way)
        sender.release()
