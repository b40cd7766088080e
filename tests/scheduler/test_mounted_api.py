"""The REST API inside other applications, in real servers: under a prefix, and after a fork."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen import ConfigError, Scheduler
from everwhen.scheduler.options import ApiOptions
from tests.scheduler.mounted_client import (
    PREFIX,
    MountedClient,
    hear_of_a_firing,
    live_through,
    read_documentation,
    run_job,
    use_a_session,
)
from tests.scheduler.test_frameworks import PROGRAMS, serving
from tests.scheduler.waiting import PATIENCE
from tests.servers.everwhen_database import PostgresDatabase

QUIET = ["--log-level", "error"]


def token_for(url: str) -> str:
    scheduler = Scheduler(url, name="shop")
    try:
        return scheduler.create_token("of the test", "admin")
    finally:
        scheduler.close()


@pytest.mark.parametrize(
    ("program", "above"), [("mounted_fastapi", ""), ("mounted_starlette", "/behind/a/proxy")]
)
def test_a_schedule_lives_through_the_mounted_api(tmp_path: Path, program: str, above: str) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    client = MountedClient(tmp_path / "shop", token_for(url), above + PREFIX, above)
    server = ["uvicorn", "--uds", str(client.path), "--root-path", above, *QUIET]
    with serving(url, *server, f"{PROGRAMS}.{program}:app"):
        live_through(client)
        assert run_job(client, "report")["result"] == "reported"
        read_documentation(client)
        hear_of_a_firing(client, "report")
        use_a_session(client)
        assert client.call("GET", f"{client.root}/readyz").fields == {"status": "ready", "reason": None}
        status = client.api("GET", "/system/status/").fields
        assert (status["status"], len(status["nodes"])) == ("running", 1)


def test_each_process_of_a_server_that_forks_opens_the_database_for_itself(
    tmp_path: Path, everwhen_on_18: PostgresDatabase
) -> None:
    url = everwhen_on_18.empty()
    client = MountedClient(tmp_path / "shop", token_for(url), root="")
    bind = ["--bind", f"unix:{client.path}", "--workers", "2", "--preload", "--worker-class", "asgi"]
    with serving(url, "gunicorn", *bind, *QUIET, f"{PROGRAMS}.mounted_alone:app"):
        for number in range(20):  # some by each process
            body = {"name": f"number {number}", "every": "1d", "run": {"message": {"text": "hello"}}}
            created = client.api("POST", "/schedules/", body)
            assert created.status == 201
            assert created.headers["location"] == f"/api/v1/schedules/{created.fields['id']}/"
        assert client.api("GET", "/schedules/").fields["total"] == 20
        assert client.call("GET", "/readyz").status == 200  # of the database: no scheduler runs
        status = client.api("GET", "/system/status/").fields
        assert (status["nodes"], status["check_count"]) == ([], None)


def test_settings_that_a_mounted_api_does_not_have_are_refused() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    with pytest.raises(ConfigError, match='asgi: allowed_host: unknown key, did you mean "allowed_hosts"'):
        scheduler.asgi(allowed_host=["shop.example.com"])  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="asgi: max_body"):
        scheduler.asgi(max_body="much")
    with pytest.raises(ConfigError, match="asgi: max_timeout"):
        scheduler.asgi(max_timeout="long")


def scope_of(path: str, host: str, headers: dict[str, str], method: str = "GET") -> dict[str, Any]:
    sent = [(b"host", host.encode()), *((name.encode(), value.encode()) for name, value in headers.items())]
    scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http"}
    return scope | {
        "path": path,
        "query_string": b"",
        "headers": sent,
        "client": ("127.0.0.1", 5),
        "root_path": "/tools/",
    }


def ask(
    app: Any, path: str, host: str = "shop.example.com", body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Pass one request to an application, on a loop of its own; return the status and the fields of the answer."""
    answered: list[Any] = []
    raw = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"

    async def receive() -> Any:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Any) -> None:
        answered.append(message)

    asyncio.run(app(scope_of(path, host, headers, method), receive, send))
    return answered[0]["status"], json.loads(answered[1]["body"])


def test_the_host_is_the_affair_of_the_hosting_application_unless_names_are_given() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    named = scheduler.asgi(allowed_hosts=["ops.example", ".shop.example"])
    try:
        assert ask(scheduler.asgi(), "/tools/metrics/none", "any.example")[0] == 404
        for host in ("ops.example:8000", "shop.example", "a.shop.example", "localhost"):
            assert ask(named, "/tools/none", host)[0] == 404
        for host in ("any.example", "b.ops.example", "evilshop.example", ""):
            assert ask(named, "/tools/none", host)[0] == 421
    finally:
        scheduler.close()


def test_the_longest_timeout_of_an_owner_is_set_where_the_api_is_mounted(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    bearer = f"Bearer {scheduler.create_token('of ann', 'operator', owner='ann')}"
    body = {"every": "1h", "run": {"message": {"text": "x"}}, "timeout": "2h"}
    try:
        every: list[tuple[ApiOptions, int]] = [
            ({}, 422),
            ({"max_timeout": "2h"}, 201),
            ({"max_timeout": timedelta(minutes=119)}, 422),
            ({"max_timeout": 7_200}, 201),
        ]
        for options, expected in every:
            app = scheduler.asgi(**options)
            path = "/tools/api/v1/schedules/"
            assert ask(app, path, body=body, authorization=bearer)[0] == expected
    finally:
        scheduler.close()


def test_the_mounted_api_goes_on_after_the_scheduler_was_closed(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    app = scheduler.asgi()
    bearer = f"Bearer {scheduler.create_token('of the test', 'admin')}"
    try:
        for status in ("stopped", "running", "stopped"):
            scheduler.close()
            if status == "running":
                scheduler.start()
            code, found = ask(app, "/tools/api/v1/system/status", authorization=bearer)
            assert (code, found["check_count"] is None) == (200, status == "stopped")
            assert ask(app, "/tools/readyz") == (200, {"status": "ready", "reason": None})
            scheduler.stop()
    finally:
        scheduler.close()


def test_streams_of_the_mounted_api_end_when_the_scheduler_is_closed(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    app = scheduler.asgi()
    bearer = f"Bearer {scheduler.create_token('of the test', 'viewer')}"
    answered: asyncio.Queue[Any] = asyncio.Queue()

    async def stay() -> Any:
        return await asyncio.Event().wait()

    async def listen() -> None:
        scope = scope_of("/tools/api/v1/events/stream/", "localhost", {"authorization": bearer})
        streaming = asyncio.create_task(app(scope, stay, answered.put))
        assert (await answered.get())["status"] == 200
        assert (await answered.get())["body"].startswith(b"retry:")
        await asyncio.to_thread(scheduler.close)
        await asyncio.wait_for(streaming, PATIENCE)

    asyncio.run(listen())


def test_a_database_that_cannot_be_opened_is_logged_once_and_answered_without_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Scheduler(f"sqlite:///{tmp_path}/nowhere/shop.db", name="shop").asgi()
    for _ in range(2):
        code, found = ask(app, "/tools/api/v1/schedules/")
        assert code == 503
        assert "nowhere" not in json.dumps(found)
    assert [record.levelname for record in caplog.records if "nowhere" in record.getMessage()] == ["WARNING"]
