"""Access to a database of this machine without a service: the API's own application, in this process.

A user who can open the database needs no token: the application treats them as an admin under their own name.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from everwhen.cli.client import Answer, Send, http_sender
from everwhen.cli.configuration import DEFAULT, this_host
from everwhen.cli.moved import warn_of_move
from everwhen.config.api_settings import api_settings_of
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, examine
from everwhen.errors import SchedulerError
from everwhen.model.token import NO_LIMITS, Token
from everwhen.wiring import open_stack

if TYPE_CHECKING:
    from fastapi import FastAPI

    from everwhen.ports.runtime import Runtime

LOCAL = "local"


@contextmanager
def sender(token: str | None, path: Path | None, database: str | None) -> Iterator[Send]:
    """Send calls to the service of this machine when there is a token and the service answers, else to the database."""
    found = path or Path(os.environ.get("EVERWHEN_CONFIG", DEFAULT))
    configuration = examine(found, this_host(), Report())
    if path is None and database is None and token is not None:
        with http_sender(_local_url(configuration), token) as send:
            if _answers(send):
                yield send
                return
    url = _existing(database or configuration.settings.database)
    stack = open_stack(url, timezone=configuration.settings.timezone)
    try:
        warn_of_move(stack)
        with runtime_sender(stack.runtime, configuration) as send:
            yield send
    finally:
        stack.close()


def _existing(url: str) -> str:
    """Return the URL; refuse an SQLite file that does not exist, because reading must not create a database."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.exists():
        raise SchedulerError(
            f"there is no database {path} here, and no service to ask;"
            " name one with --url, --database or --config, or start one: everwhen up"
        )
    return url


def _local_url(configuration: Configuration) -> str:
    """Return the address at which a service of this machine would listen."""
    settings = api_settings_of(configuration.sections.get("api"), os.environ)
    scheme = "https" if settings.tls else "http"
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"{scheme}://{host}:{settings.port}"


def _answers(send: Send) -> bool:
    try:
        send("GET", "/healthz", None, {})
    except SchedulerError:
        return False
    return True


@contextmanager
def runtime_sender(runtime: Runtime, configuration: Configuration) -> Iterator[Send]:
    """Send calls to the API's own application in this process, as the user of this machine."""
    from everwhen.api.app import create_app
    from everwhen.api.context import ApiContext
    from everwhen.api.node_hooks import NodeHooks
    from everwhen.cli.api_server import Around

    settings = api_settings_of(configuration.sections.get("api"), os.environ)
    node_hooks = NodeHooks(dispatch=configuration.settings.dispatch)
    around = Around(lambda: configuration)
    context = ApiContext(runtime, replace(settings, allow_code_targets=True), around, node_hooks=node_hooks)
    secret = secrets.token_hex(16)
    context.authenticate(secret, _who(runtime))
    app = create_app(context)
    with asyncio.Runner() as runner:

        def send(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
            return runner.run(_asked(app, method, target, body, {**headers, "x-api-key": secret}))

        yield send


def _who(runtime: Runtime) -> Token:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        name = f"uid {os.getuid()}"
    return Token(LOCAL, name, "admin", None, NO_LIMITS, runtime.clock.now())


async def _asked(
    app: FastAPI, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
) -> Answer:
    """Pass one request to the application as a web server would."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), *((k.encode(), v.encode()) for k, v in headers.items())],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 80),
    }
    answered: list[Any] = []
    asked = iter([{"type": "http.request", "body": body or b"", "more_body": False}])

    async def receive() -> Any:
        return next(asked, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        answered.append(message)

    await app(scope, receive, send)
    return Answer(answered[0]["status"], b"".join(one.get("body", b"") for one in answered[1:]))
