"""Access to a database of this machine without a service: reading by operations and views, everything else by the
API's own application, in this process.

A user who can open the database needs no token: the application treats them as an admin under their own name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from everwhen.cli.client import ApiResponse, Send, http_sender
from everwhen.cli.local_reading import LocalReader
from everwhen.cli.terminal import secho
from everwhen.clock import SystemClock, local_zone_name
from everwhen.database import Stack, move_of, open_stack
from everwhen.errors import SchedulerError
from everwhen.model.token import NO_LIMITS, Token

if TYPE_CHECKING:
    from fastapi import FastAPI

    from everwhen.runtime import Runtime

LOCAL = "local"


class LocalSettings(NamedTuple):
    """What reading a database needs of the configuration."""

    database: str
    timezone: str = "UTC"
    dispatch: str = "local"
    service: str | None = None  # where the service of this machine would be
    redis: str | None = None
    celery_broker: str | None = None

    def fault_of_broker(self) -> str | None:
        """Return why the broker of the queue does not answer; None when it does, or when there is no queue."""
        if self.dispatch == "local":
            return None
        from everwhen.wiring import fault_of_broker

        return fault_of_broker(self.dispatch, redis=self.redis, celery_broker=self.celery_broker)


@contextmanager
def sender(token: str | None, path: Path | None, database: str | None) -> Iterator[Send]:
    """Send calls to the service of this machine when there is a token and the service answers, else to the database."""
    found = path or Path(os.environ.get("EVERWHEN_CONFIG", "everwhen.yaml"))
    settings = _settings_of(found, database)
    if path is None and database is None and token is not None and settings.service is not None:
        with http_sender(settings.service, token) as send:
            if _answers(send):
                yield send
                return
    stack = open_stack(_existing(settings.database), timezone=settings.timezone, is_deferred=True)
    try:
        warn_of_move(stack)
        with database_sender(stack.runtime, found, settings) as send:
            yield send
    finally:
        stack.close()


def warn_of_move(stack: Stack) -> None:
    """Print on stderr where the database is now, if `everwhen db copy` moved it to another address."""
    move = move_of(stack)
    if move is not None:
        word = "was moved to" if move.state == "moved" else "is being moved to"
        warning = f"warning: this database {word} {move.to}; you see its state at that time"
        secho(warning, err=True, fg="yellow")


def _settings_of(path: Path, database: str | None) -> LocalSettings:
    """Read the file and the environment; where neither sets anything, the modules that read them are not imported."""
    if database is not None and not path.exists() and not _is_set_in_environment():
        return LocalSettings(database)
    from everwhen.config.problems import Report
    from everwhen.config.read import Host, examine_service
    from everwhen.config.settings import api_settings_of

    host = Host(os.environ, local_zone_name, SystemClock().now())
    settings, api_fields = examine_service(path, host, Report())
    api = api_settings_of(api_fields, os.environ)
    scheme = "https" if api.tls else "http"
    name = "127.0.0.1" if api.host in ("0.0.0.0", "::") else api.host
    return LocalSettings(
        database or settings.database,
        settings.timezone,
        settings.dispatch,
        service=f"{scheme}://{name}:{api.port}",
        redis=settings.redis,
        celery_broker=settings.celery_broker,
    )


def _is_set_in_environment() -> bool:
    """Return whether a variable may be a setting: one of ours that does not name a file, a service or a database."""
    others = {"EVERWHEN_CONFIG", "EVERWHEN_TOKEN", "EVERWHEN_URL", "EVERWHEN_DATABASE"}
    return any(name.startswith("EVERWHEN_") and name not in others for name in os.environ)


def _existing(url: str) -> str:
    """Return the URL; refuse an SQLite file that does not exist, because reading must not create a database."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.exists():
        raise SchedulerError(
            f"there is no database {path} here, and no service is named;"
            " name one with --url, --database or --config, or start one: everwhen up"
        )
    return url


def _answers(send: Send) -> bool:
    try:
        send("GET", "/healthz", None, {})
    except SchedulerError:
        return False
    return True


@contextmanager
def database_sender(runtime: Runtime, path: Path, settings: LocalSettings) -> Iterator[Send]:
    """Send calls to a database as the user of this machine; build the application for the calls that need it."""
    from everwhen.operations.access import Caller

    token = _who(runtime)
    reader = LocalReader(
        runtime, Caller(token), dispatch=settings.dispatch, fault_of_broker=settings.fault_of_broker
    )
    with ExitStack() as opened:

        @cache
        def ask_application() -> Send:
            return opened.enter_context(_application_sender(runtime, token, path))

        def send(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> ApiResponse:
            found = reader.answer(method, target, headers)
            return ask_application()(method, target, body, headers) if found is None else found

        yield send


@contextmanager
def _application_sender(runtime: Runtime, token: Token, path: Path) -> Iterator[Send]:
    """Send calls to the API's own application in this process."""
    from everwhen.api.app import create_app
    from everwhen.api.context import ApiContext
    from everwhen.api.hosting import NodeHooks
    from everwhen.cli.api_server import Around
    from everwhen.cli.configuration import this_host
    from everwhen.config.problems import Report
    from everwhen.config.read import examine
    from everwhen.config.settings import api_settings_of

    configuration = examine(path, this_host(), Report())
    settings = api_settings_of(configuration.sections.get("api"), os.environ)
    node_hooks = NodeHooks(dispatch=configuration.settings.dispatch)
    around = Around(lambda: configuration)
    context = ApiContext(runtime, replace(settings, allow_code_targets=True), around, node_hooks=node_hooks)
    import secrets

    secret = secrets.token_hex(16)
    context.authenticate(secret, token)
    app = create_app(context)
    asyncio = import_module("asyncio")
    with asyncio.Runner() as runner:

        def send(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> ApiResponse:
            found: ApiResponse = runner.run(
                _asked(app, method, target, body, {**headers, "x-api-key": secret})
            )
            return found

        yield send


def _who(runtime: Runtime) -> Token:
    import getpass

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        name = f"uid {os.getuid()}"
    return Token(LOCAL, name, "admin", None, NO_LIMITS, created_at=runtime.clock.now())


async def _asked(
    app: FastAPI, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
) -> ApiResponse:
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
    return ApiResponse(answered[0]["status"], b"".join(one.get("body", b"") for one in answered[1:]))
