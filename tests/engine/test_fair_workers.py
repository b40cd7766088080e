"""Nobody's load is another's outage: what the jobs of one owner leave to others, on a node with real requests."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.schedule import Target
from everwhen.target_registry import open_target_registry
from everwhen.wiring import Stack, build_service, open_stack
from tests.engine.test_service_targets import PATIENCE, Watch, add
from tests.targets.http_server import Seen, Server, a_server, status


@pytest.fixture(params=["sqlite", "postgres"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    is_file = request.param == "sqlite"
    opened = open_stack(f"sqlite:///{tmp_path}/f.db" if is_file else request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


def request_to(server: Server, path: str) -> Target:
    return Target("http", json.dumps({"url": f"{server.url}/{path}"}))


def a_service(stack: Stack, watch: Watch) -> Service:
    return build_service(
        stack,
        ServiceOptions(observer=watch, max_workers=6),
        target_registry=open_target_registry(stack.runtime, max_workers=6, allow_private_urls=True),
    )


def test_a_server_that_never_answers_one_owner_does_not_keep_the_job_of_another_waiting(stack: Stack) -> None:
    watch, asked, released = Watch(), threading.Semaphore(0), threading.Event()

    def answer(connection: socket.socket, request: Seen) -> None:
        if request.path == "/never":
            asked.release()
            released.wait(PATIENCE)
        status(200, "at once")(connection, request)

    with a_server(answer) as server:
        for number in range(8):
            add(stack, f"ann-{number}", request_to(server, "never"), owner="ann", timeout=0)
        service = a_service(stack, watch)
        service.start()
        try:
            for _ in range(5):  # as many as the jobs of one owner may have, of six
                assert asked.acquire(timeout=PATIENCE)
            add(stack, "bob", request_to(server, "quick"), owner="bob")
            add(stack, "plain", request_to(server, "quick"))
            ended = {watch.ended_runs.get(timeout=PATIENCE)[0] for _ in range(2)}
            assert ended == {"bob", "plain"}
            assert not asked.acquire(blocking=False)
        finally:
            released.set()
            service.stop()
