"""Alive and ready: a process that answers, a loop that evaluates, a database that is there."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from everwhen.engine.service import ServiceOptions
from everwhen.store.lanes import Lane
from everwhen.store.sqlite.database import SqliteDatabase
from everwhen.wiring import build_service, open_links, open_queue, open_stack
from tests.api.serving import Answer, Service, serving
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

PATIENCE = 60.0


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
        assert (answer.status, answer.fields) == (200, {"status": word, "reason": None})
        assert answer.headers["cache-control"] == "no-store"


def test_a_loop_that_stalls_is_not_ready_and_one_that_goes_on_is(tmp_path: Path) -> None:
    stack = open_stack(f"sqlite:///{tmp_path}/api.db", check_interval=0.05)
    node = build_service(stack, ServiceOptions(check_interval=0.05))
    with serving(tmp_path, unready=node.unreadiness) as service:
        assert ask(service, "/readyz").fields["reason"] == "the scheduler is stopped"
        node.start()
        try:
            until(lambda: ask(service, "/readyz").status == 200)
            service.admin.create(every="1s")
            with holding(tmp_path / "api.db.lock"):  # its next slot cannot be written
                stuck = "the loop has completed no evaluation for 0.5s"
                until(lambda: (ask(service, "/readyz").fields["reason"] or "").startswith(stuck))
                assert ask(service, "/readyz").status == 503
                assert ask(service, "/healthz").status == 200
            until(lambda: ask(service, "/readyz").status == 200)
        finally:
            node.stop()
            stack.close()


@contextmanager
def locked(database: SqliteDatabase, path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def set_to(database: SqliteDatabase, pragma: str, fault: object, healed: object) -> Iterator[None]:
    """What the writer's connection may do, for as long as this lasts."""
    database.write(Lane.API, lambda c: c.execute(f"PRAGMA {pragma} = {fault}").fetchall())
    yield
    # Outside a turn of the writer, which would have to write.
    connection = database._writer._home.get()
    connection.execute(f"PRAGMA {pragma} = {healed}").fetchall()


def full(database: SqliteDatabase, _path: Path) -> AbstractContextManager[None]:
    pages = database.write(Lane.API, lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    return set_to(database, "max_page_count", pages, 1_000_000)


@pytest.mark.parametrize(
    ("harm", "cause"),
    [(locked, "the database is locked by another program"), (full, "the disk of the database is full")],
)
def test_readiness_and_status_name_what_is_wrong_with_the_database(
    tmp_path: Path, harm: Callable[[SqliteDatabase, Path], AbstractContextManager[None]], cause: str
) -> None:
    path = tmp_path / "api.db"
    database = SqliteDatabase(str(path), busy_timeout=0.1)
    stack = open_stack("", database=database, check_interval=0.05)
    node = build_service(stack, ServiceOptions(check_interval=0.05))
    with serving(tmp_path, unready=node.unreadiness) as service:
        for _ in range(20):
            service.admin.create(every="1s", run={"message": {"text": "x" * 2_000}})
        node.start()
        try:
            until(lambda: ask(service, "/readyz").status == 200)
            with harm(database, path):
                until(lambda: cause in (ask(service, "/readyz").fields["reason"] or ""))
                assert str(tmp_path) not in ask(service, "/readyz").fields["reason"]
                until(lambda: cause in (service.admin.get("/system/status/").fields["unready"] or ""))
            until(lambda: ask(service, "/readyz").status == 200)  # it goes on by itself
            until(lambda: service.admin.get("/system/status/").fields["unready"] is None)
        finally:
            node.stop()
            stack.close()


def test_a_database_that_became_read_only_is_named(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.fresh_database()
    stack = open_stack(url, check_interval=0.05)
    node = build_service(stack, ServiceOptions(check_interval=0.05))
    name = url.rpartition("/")[2]
    with (
        psycopg.connect(postgres.url, autocommit=True) as admin,
        serving(tmp_path, url=url, unready=node.unreadiness) as service,
    ):
        service.admin.create(every="1s")
        node.start()
        try:
            until(lambda: ask(service, "/readyz").status == 200)
            admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            until(lambda: "the database is read-only" in (ask(service, "/readyz").fields["reason"] or ""))
            admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            until(lambda: ask(service, "/readyz").status == 200)
        finally:
            node.stop()
            stack.close()
    postgres.drop_database(url)


@pytest.mark.parametrize("dispatch", ["rq", "rq-chain"])
def test_with_a_queue_its_broker_has_to_answer(tmp_path: Path, dispatch: str) -> None:
    with ValkeyServer() as broker:
        stack = open_stack(f"sqlite:///{tmp_path}/api.db", check_interval=0.05)
        queue = open_queue(dispatch, redis=broker.url, celery_broker="")
        links = open_links(broker.url) if dispatch == "rq-chain" else None
        node = build_service(stack, ServiceOptions(check_interval=0.05), queue=queue, links=links)
        with serving(tmp_path, unready=node.unreadiness) as service:
            node.start()
            try:
                until(lambda: ask(service, "/readyz").status == 200)
                broker.stop()
                # A loop that a busy machine holds up for half a second is named before it.
                until(lambda: ask(service, "/readyz").fields["reason"] == "the broker does not answer")
                broker.start()
                until(lambda: ask(service, "/readyz").status == 200)
            finally:
                node.stop()
                if links is not None:
                    links.close()
                stack.close()


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
        until(lambda: ask(service, "/readyz").fields["reason"] == "the database is away")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_only_reading_is_known_here(service: Service, path: str) -> None:
    answer = replace(service.nobody, prefix="").call("POST", path)
    assert (answer.status, answer.problem) == (405, "method-not-allowed")
