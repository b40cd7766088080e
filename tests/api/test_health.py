"""Alive and ready: a process that answers, a loop that evaluates, a database that is there."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from everwhen.wiring import build_service, open_stack
from tests.api.serving import Answer, Service, serving
from tests.servers.postgres import PostgresServer

PATIENCE = 20.0


def ask(service: Service, path: str, **headers: str) -> Answer:
    return replace(service.nobody, prefix="").get(path, **headers)


def until(is_so: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if is_so():
            return
        waited.wait(0.02)
    raise AssertionError("it did not come to be")


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Nobody writes to a database while this lasts."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_health_needs_no_token_and_no_name_and_tells_one_word(service: Service) -> None:
    for path, word in (("/healthz", "ok"), ("/readyz", "ready")):
        answer = ask(service, path, Host="10.1.2.3")
        assert (answer.status, answer.words) == (200, {"status": word, "reason": None})
        assert answer.headers["cache-control"] == "no-store"


def test_a_loop_that_stalls_is_not_ready_and_one_that_goes_on_is(tmp_path: Path) -> None:
    stack = open_stack(f"sqlite:///{tmp_path}/api.db", check_interval=0.05)
    node = build_service(stack, check_interval=0.05)
    with serving(tmp_path, unready=node.unreadiness) as service:
        assert ask(service, "/readyz").words["reason"] == "the scheduler is stopped"
        node.start()
        try:
            until(lambda: ask(service, "/readyz").status == 200)
            service.admin.create(every="1s")
            with holding(tmp_path / "api.db.lock"):  # its next slot cannot be written
                until(lambda: ask(service, "/readyz").status == 503)
                answer = ask(service, "/readyz")
                assert answer.words["reason"] == "the loop has completed no evaluation for 0.5s"
                assert ask(service, "/healthz").status == 200
            until(lambda: ask(service, "/readyz").status == 200)
        finally:
            node.stop()
            stack.close()


def test_what_an_error_says_of_hosts_and_files_is_not_told(tmp_path: Path) -> None:
    secret = "the database does not answer: could not connect to db.internal:5432 as app"
    with serving(tmp_path, unready=lambda: secret) as service:
        answer = ask(service, "/readyz")
        assert (answer.status, answer.words["reason"]) == (503, "the database does not answer")


def test_a_node_that_does_not_answer_keeps_nobody_waiting_long(tmp_path: Path) -> None:
    answered, asked = threading.Event(), []

    def unready() -> str | None:
        asked.append(1)
        answered.wait(PATIENCE)
        return None

    with serving(tmp_path, unready=unready) as service:
        assert [ask(service, "/readyz").status for _ in range(2)] == [503, 503]
        assert len(asked) == 1  # both were told about the same question
        assert ask(service, "/healthz").status == 200
        answered.set()
        until(lambda: ask(service, "/readyz").status == 200)


def test_an_api_alone_is_ready_while_its_database_answers(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.fresh_database()
    with serving(tmp_path, url=url) as service:
        assert ask(service, "/readyz").status == 200
        postgres.drop_database(url)
        until(lambda: ask(service, "/readyz").words["reason"] == "the database does not answer")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_only_reading_is_known_here(service: Service, path: str) -> None:
    answer = replace(service.nobody, prefix="").call("POST", path)
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
