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
from typing import TYPE_CHECKING, NamedTuple

from everwhen.cli.client import ApiResponse, Send, http_sender
from everwhen.cli.local_reading import LocalReader
from everwhen.cli.terminal import secho
from everwhen.clock import SystemClock, local_zone_name
from everwhen.database import Stack, move_of, open_stack
from everwhen.errors import SchedulerError
from everwhen.model import variables
from everwhen.model.token import LOCAL_ID, NO_LIMITS, Token

if TYPE_CHECKING:
    from fastapi import FastAPI

    from everwhen.runtime import Runtime


class LocalSettings(NamedTuple):
    """What reading a database needs of the configuration."""

    database: str
    timezone: str = "UTC"
    dispatch: str = "local"
    service: str | None = None  # where the service of this machine would be
    public_url: str | None = None  # where people would open it
    redis: str | None = None
    celery_broker: str | None = None

    def fault_of_broker(self) -> str | None:
        """Return why the broker of the queue does not answer; None when it does, or when there is no queue."""
        if self.dispatch == "local":
            return None
        from everwhen.wiring import fault_of_broker

        return fault_of_broker(self.dispatch, redis=self.redis, celery_broker=self.celery_broker)


@contextmanager
def sender(
    token: str | None, path: Path | None, database: str | None, *, is_token_typed: bool = False
) -> Iterator[Send]:
    """Send calls to the service of this machine when there is a token and the service answers, else to the database.

    A token is never ignored in silence: where no database is named, or the token is typed, calls have its rights only.
    A token of the environment beside a named database may be one of another service.
    """
    found = _configuration_file(path)
    settings = _settings_of(found, database)
    service = service_that_answers(token, path, database, settings)
    if service is not None:
        with http_sender(service, token) as send:
            yield send
        return
    if token is not None and (is_token_typed or (path is None and database is None)):
        with opened_application(token, path, database) as (app, secret, _), _calls_of(app, secret) as send:
            yield send
        return
    stack = open_stack(_existing(settings.database), timezone=settings.timezone, is_deferred=True)
    try:
        warn_of_move(stack)
        with database_sender(stack.runtime, found, settings) as send:
            yield send
    finally:
        stack.close()


def service_that_answers(
    token: str | None, path: Path | None, database: str | None, settings: LocalSettings | None = None
) -> str | None:
    """Return the address of the service of this machine, if there is a token for it and it answers."""
    if path is not None or database is not None or token is None:
        return None
    service = (settings or _settings_of(_configuration_file(path), database)).service
    if service is None:
        return None
    with http_sender(service, token) as send:
        return service if _answers(send) else None


def _configuration_file(path: Path | None) -> Path:
    return path or Path(os.environ.get(variables.CONFIG, "everwhen.yaml"))


@contextmanager
def opened_application(
    token: str | None, path: Path | None, database: str | None
) -> Iterator[tuple[FastAPI, str, str | None]]:
    """Open the API's application on a database; yield it with the secret of its caller and the service's address.

    Without a token the caller is the user of this machine.
    """
    found = _configuration_file(path)
    settings = _settings_of(found, database)
    stack = open_stack(_existing(settings.database), timezone=settings.timezone, is_deferred=True)
    try:
        warn_of_move(stack)
        app, secret = _application(stack.runtime, _who(stack.runtime), found, allow_code=token is None)
        yield app, token or secret, settings.public_url
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
    return LocalSettings(
        database or settings.database,
        settings.timezone,
        settings.dispatch,
        service=api.address if _is_of_this_machine(api.host) else None,
        public_url=api.url or api.address,
        redis=settings.redis,
        celery_broker=settings.celery_broker,
    )


def _is_of_this_machine(host: str) -> bool:
    """Return whether a service on this host is one of this machine, to which a token of the environment may be sent.

    The file may be one of a folder that somebody else wrote: its word alone sends a token nowhere. Names other than
    this machine's own are not looked up, because who answers for them may answer something else a moment later.
    """
    import socket
    from ipaddress import ip_address

    from everwhen.config.settings import LOOPBACK_NAMES

    if host in LOOPBACK_NAMES or host == socket.gethostname():
        return True
    try:
        address = ip_address(host)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))  # only an address of this machine can be bound
    except (ValueError, OSError):
        return False
    return True


def _is_set_in_environment() -> bool:
    """Return whether a variable may be a setting: one of ours that does not name a file, a service or a database."""
    others = {variables.CONFIG, variables.TOKEN, variables.URL, variables.DATABASE}
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
    app, secret = _application(runtime, token, path, allow_code=True)
    with _calls_of(app, secret) as send:
        yield send


@contextmanager
def _calls_of(app: FastAPI, secret: str) -> Iterator[Send]:
    from everwhen.api.in_process import call_application

    asyncio = import_module("asyncio")
    with asyncio.Runner() as runner:

        def send(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> ApiResponse:
            found = call_application(app, method, target, body, {**headers, "x-api-key": secret})
            return ApiResponse(*runner.run(found))

        yield send


def _application(runtime: Runtime, token: Token, path: Path, *, allow_code: bool) -> tuple[FastAPI, str]:
    """Build the API's own application for this process; return it with a secret that stands for the token."""
    from everwhen.api.app import create_app
    from everwhen.api.context import ApiContext
    from everwhen.api.hosting import NodeHooks
    from everwhen.cli.api_server import Around
    from everwhen.cli.configuration import this_host
    from everwhen.config.problems import Report
    from everwhen.config.read import examine
    from everwhen.config.sections.notify import rules_in
    from everwhen.config.settings import api_settings_of

    configuration = examine(path, this_host(), Report())
    settings = api_settings_of(configuration.sections.get("api"), os.environ)
    rules = rules_in(configuration.sections.get("notify"))
    node_hooks = NodeHooks(dispatch=configuration.settings.dispatch, alert_rules=lambda: rules)
    around = Around(lambda: configuration)
    if allow_code:
        settings = replace(settings, allow_code_targets=True)
    context = ApiContext(runtime, settings, around, node_hooks=node_hooks)
    import secrets

    secret = secrets.token_hex(16)
    context.authenticate(secret, token)
    context.lift_rates()  # there is nobody else to be served
    return create_app(context), secret


def _who(runtime: Runtime) -> Token:
    import getpass

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        name = f"uid {os.getuid()}"
    return Token(LOCAL_ID, name, "admin", None, NO_LIMITS, created_at=runtime.clock.now())
