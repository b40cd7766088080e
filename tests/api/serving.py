"""A real server on a free port of this machine, and the plainest client that there is."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.routing import BaseRoute

from everwhen.api.app import create_app
from everwhen.api.connections import ConnectionLimits
from everwhen.api.context import ApiContext, Unready
from everwhen.api.server import ApiServer
from everwhen.clock import Clock
from everwhen.config.read import Configuration, Host, read_configuration
from everwhen.config.settings import ApiSettings
from everwhen.config.submission import SubmissionRules, rules_of
from everwhen.mcp.mounts import mounts_of
from everwhen.model.token import AccessRole, TokenLimits, limits_of
from everwhen.operations.apply import apply
from everwhen.operations.tokens import create_token
from everwhen.runtime import Runtime
from everwhen.store.opened import OpenStore, store_of
from everwhen.telemetry.metrics import Metrics
from everwhen.wiring import open_stack, plugins_in, python_fault

PROBLEM = "application/problem+json"
HTTP_RUN = {"http": {"url": "https://example.com/run"}}
FILE = """
workflows:
  "1": {name: Daily report, run: {http: {url: "http://127.0.0.1:9/run"}}, triggers: [trigger_schedule_abc123]}
agents: {bot: {command: [true]}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def fields(self) -> Any:
        return json.loads(self.raw)

    @property
    def problem(self) -> str:
        """The kind of a problem, whose shape is checked here for all tests."""
        assert self.headers["content-type"] == PROBLEM
        fields = self.fields
        assert fields["status"] == self.status
        assert fields["detail"] and fields["title"]
        kind: str = fields["type"].removeprefix("urn:everwhen:problem:")
        return kind


@dataclass(frozen=True, slots=True)
class Client:
    """Calls with one token."""

    url: str
    secret: str | None
    prefix: str = "/api/v1"

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if self.secret is not None:
            sent.setdefault("Authorization", f"Bearer {self.secret}")
        if body is not None:
            raw = json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            connection.request(method, self.prefix + path, raw, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.call("POST", path, body, **more)

    def patch(self, path: str, body: Any, **more: Any) -> Answer:
        return self.call("PATCH", path, body, **more)

    def create(self, **fields: Any) -> dict[str, Any]:
        """A schedule that was made."""
        answer = self.post("/schedules/", {"every": "1h", "run": HTTP_RUN, **fields})
        assert answer.status == 201, answer.raw
        found: dict[str, Any] = answer.fields
        return found


@dataclass(slots=True)
class Service:
    """a runtime with its API."""

    runtime: OpenStore
    context: ApiContext
    url: str
    admin: Client
    app: FastAPI

    def client(self, role: AccessRole = "operator", owner: str | None = None, **limits: Any) -> Client:
        made = create_token(self.runtime, f"{role} {owner}", role, owner=owner, limits=_limits(limits))
        return replace(self.admin, secret=made.secret)

    @property
    def nobody(self) -> Client:
        return replace(self.admin, secret=None)


def _limits(fields: dict[str, Any]) -> TokenLimits:
    return limits_of(fields)


@contextmanager
def serving(
    folder: Path,
    *,
    file: str = FILE,
    url: str | None = None,
    clock: Clock | None = None,
    unready: Unready | None = None,
    limits: ConnectionLimits | None = None,
    further: Sequence[BaseRoute] = (),
    stop_within: float = 1,
    **settings: Any,
) -> Iterator[Service]:
    """A server as long as the block lasts, on a database in the folder unless another is named."""
    configuration = configuration_of(folder, file)
    chosen = ApiSettings(port=0, **settings)
    stack = open_stack(url or f"sqlite:///{folder}/api.db", clock=clock)
    around = around_of(configuration, stack.runtime)
    apply(stack.runtime, configuration.declared)
    context = ApiContext(
        stack.runtime,
        chosen,
        lambda: around,
        unready,
        stack.changes,
        Metrics(stack.runtime),
        limits=limits or ConnectionLimits(),
    )
    app = create_app(context, further, mounts=mounts_of(chosen))
    server = ApiServer(app, chosen, stop_within=stop_within)
    try:
        server.start()
        admin = create_token(stack.runtime, "admin", "admin")
        yield Service(store_of(stack.runtime), context, server.url, Client(server.url, admin.secret), app)
    finally:
        server.stop()
        stack.close()


def around_of(configuration: Configuration, runtime: Runtime) -> SubmissionRules:
    """What submissions are judged by under that configuration."""
    host = Host({}, lambda: "UTC", runtime.clock.now(), plugins_in=plugins_in, python_fault=python_fault)
    return rules_of(configuration, host, ())


def configuration_of(folder: Path, file: str) -> Configuration:
    path = folder / "everwhen.yaml"
    path.write_text(file)
    return read_configuration(path, Host({}, lambda: "UTC", 0, plugins_in=plugins_in))
