"""A client of an API that is mounted in an application, which listens on a Unix socket."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from tests.scheduler.waiting import PATIENCE, until
from tests.servers.unix_sockets import connect

PREFIX = "/tools/everwhen"


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, host: str) -> None:
        super().__init__(host, timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = connect(self._path, PATIENCE)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def fields(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True, slots=True)
class MountedClient:
    """Calls with one token. `root` is where its users see the mount, `above` the part that a proxy removes."""

    path: Path
    secret: str | None = None
    root: str = PREFIX
    above: str = ""
    host: str = "shop.example.com"

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request to a path of the hosting application."""
        connection = self._sent(method, path, body, headers)
        try:
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call(method, f"{self.root}/api/v1{path}", body, **headers)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[str]]:
        """Yield the lines of a stream of the API, which is open by then."""
        connection = self._sent("GET", f"{self.root}/api/v1{path}", None, {})
        try:
            answer = connection.getresponse()
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = (line.decode().rstrip() for line in answer)
            assert next(lines).startswith("retry:")
            yield lines
        finally:
            connection.close()

    def _sent(self, method: str, path: str, body: Any, headers: dict[str, str]) -> _Connection:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.secret is not None:
            sent["Authorization"] = f"Bearer {self.secret}"
        raw = None if body is None else json.dumps(body).encode()
        if raw is not None:
            sent["Content-Type"] = "application/json"
        connection = _Connection(self.path, self.host)
        try:
            connection.request(method, path.removeprefix(self.above), raw, sent)
        except BaseException:
            connection.close()
            raise
        return connection


def run_job(client: MountedClient, schedule_id: str) -> Any:
    """Trigger a schedule over REST, and return its job when it has ended."""
    triggered = client.api("POST", f"/schedules/{schedule_id}/trigger/")
    assert triggered.status == 202, triggered.raw
    job_id = triggered.fields["job"]["id"]
    until(lambda: client.api("GET", f"/jobs/{job_id}/").fields["status"] not in ("queued", "running"))
    return client.api("GET", f"/jobs/{job_id}/").fields


def live_through(client: MountedClient) -> None:
    """Lead a schedule through its life over REST: created, found, changed, run, paused, explained, deleted."""
    body = {"every": "1d", "first_run": "after_interval", "run": {"message": {"text": "hello"}}}
    created = client.api("POST", "/schedules/", body)
    assert created.status == 201, created.raw
    location, schedule_id = created.headers["location"], created.fields["id"]
    assert location == f"{client.root}/api/v1/schedules/{schedule_id}/"
    assert client.call("GET", location).fields["status"] == "active"
    assert client.call("PATCH", location.rstrip("/"), {"every": "2d"}).fields["every"] == "2d"
    assert run_job(client, schedule_id)["status"] == "succeeded"
    assert client.api("POST", f"/schedules/{schedule_id}/pause/").fields["status"] == "paused"
    assert "sentence" in client.api("GET", f"/schedules/{schedule_id}/why/").fields
    assert client.call("DELETE", location).status == 204
    assert client.call("GET", location).status == 404


def read_documentation(client: MountedClient) -> None:
    """Read the page of the API and all that it links to, and the document, whose server is the mount."""
    page = f"{client.root}/api/docs"
    text = client.call("GET", page).raw.decode()
    (style,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', text)
    assert client.call("GET", urljoin(page, style)).headers["content-type"].startswith("text/css")
    (document,) = re.findall(r'href="([^"#]+json)"', text)
    assert client.call("GET", urljoin(page, document)).fields["servers"] == [{"url": client.root}]


def hear_of_a_firing(client: MountedClient, schedule_id: str) -> None:
    """Listen to what happens while a schedule is triggered."""
    with client.stream("/events/stream/") as lines:
        job = run_job(client, schedule_id)
        assert any(job["id"] in line for line in lines)


def use_a_session(client: MountedClient) -> None:
    """Begin a session as a browser does: its cookie is for the mount only, and changes need the page's proof."""
    browser = MountedClient(client.path, None, client.root, client.above, client.host)
    begun = browser.api("POST", "/session/", {"token": client.secret})
    cookie = begun.headers["set-cookie"]
    assert f"Path={client.root}/;" in f"{cookie};"
    assert "SameSite=strict" in cookie
    assert "HttpOnly" in cookie
    assert cookie.startswith("everwhen_session_80=")
    sent = {"Cookie": cookie.partition(";")[0], "Origin": f"http://{client.host}"}
    assert browser.api("POST", "/system/pause/", **sent).status == 403
    assert browser.api("GET", "/me/", **sent).status == 401
    proof = {"X_CSRF_Token": begun.fields["csrf_token"]}
    for origin in ("https://evil.example", f"https://{client.host}", f"http://{client.host}:8080"):
        foreign = {**sent, "Origin": origin}
        assert browser.api("POST", "/system/pause/", **foreign, **proof).status == 403
    assert browser.api("GET", "/me/", **sent, **proof).fields["via"] == "session"
    ended = browser.api("DELETE", "/session/", **sent, **proof)
    assert ended.status == 204
    assert f"Path={client.root}/;" in f"{ended.headers['set-cookie']};"
    assert browser.api("GET", "/me/", **sent, **proof).status == 401
