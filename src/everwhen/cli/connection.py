"""The choice between a service and a database, by the options of a command and the environment.

`--url` (EVERWHEN_URL) names a service. `--database` or `--config` select the database itself and override
EVERWHEN_URL, because an option is more explicit than the environment. Without any of them the command calls the
service of this machine when there is a token for it (EVERWHEN_TOKEN), and otherwise opens the database, with the rights
of the token if there is one.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from everwhen.cli.client import TIMEOUT, Client, http_sender
from everwhen.cli.terminal import SentenceGroup
from everwhen.model import variables

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from everwhen.model.kinds import Key


BOTH = "--url names a service, --database and --config name a database; give one of them"
_URL = click.option(
    "--url",
    envvar=variables.URL,
    metavar="URL",
    help="Use the running service at this address (EVERWHEN_URL).",
)
_TOKEN = click.option(
    "--token",
    envvar=variables.TOKEN,
    metavar="TOKEN",
    help="Use this token of the service (EVERWHEN_TOKEN).",
)


def reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--url`, `--token`, `--config` and `--database` to a command, and pass it a client as first argument."""

    @functools.wraps(command)
    def wrapped(
        url: str | None, token: str | None, path: Path | None, database: str | None, **rest: Any
    ) -> Any:
        with opened_client(service_meant(url, path, database), token, path, database) as client:
            return command(client, **rest)

    return connection_options(wrapped)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--url`, `--token`, `--config` and `--database` to a command."""
    options = (
        _URL,
        _TOKEN,
        click.option(
            "--config",
            "path",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Use the database of this configuration file.",
        ),
        click.option("--database", metavar="URL", help="Use this database directly, without a service."),
    )
    for option in reversed(options):
        command = option(command)
    return command


class CallingGroup(SentenceGroup):
    """A group of commands that call a service, or a database without one."""

    def call(self, name: str, **more: Any) -> Callable[[Callable[..., Any]], click.Command]:
        """Return a decorator that adds a command of that name, which gets a client as first argument."""
        return lambda command: self.command(name=name, **more)(reaching(command))


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--url` and `--token` to a command that works on a file or a database otherwise."""
    return _URL(_TOKEN(command))


@contextmanager
def named_service(url: str | None, token: str | None) -> Iterator[Client | None]:
    """Open a client of the service that `--url` or EVERWHEN_URL names; None where a file or a database is meant."""
    source = click.get_current_context().get_parameter_source
    typed = [name for name in ("path", "database") if source(name) is ParameterSource.COMMANDLINE]
    if url is None or (typed and source("url") is not ParameterSource.COMMANDLINE):
        yield None
        return
    if typed:
        raise click.UsageError(BOTH)
    with http_sender(url, token) as send:
        yield Client(send)


def service_meant(url: str | None, path: Path | None, database: str | None) -> str | None:
    """Return the URL of the service, or None when a database is named; refuse a command line with both."""
    if url is None or (path is None and database is None):
        return url
    if click.get_current_context().get_parameter_source("url") is ParameterSource.COMMANDLINE:
        raise click.UsageError(BOTH)
    return None


@contextmanager
def opened_client(
    url: str | None,
    token: str | None,
    path: Path | None,
    database: str | None,
    *,
    patience: float = TIMEOUT,
) -> Iterator[Client]:
    """Open a client of the service, or of the database; `patience`: how long to wait for an answer of the service."""
    if url is not None:
        with http_sender(url, token, patience) as send:
            yield Client(send)
        return
    from everwhen.cli import local  # imported late: a call to a service does not need it

    context = click.get_current_context(silent=True)
    is_typed = context is not None and context.get_parameter_source("token") is ParameterSource.COMMANDLINE
    with local.sender(token, path, database, is_token_typed=is_typed) as send:
        yield Client(send)


# A schedule on the command line, which shells complete.


def complete_schedule(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a schedule for a shell."""
    from everwhen.cli import completion  # needed by shells alone

    return completion.complete_schedule(ctx, param, incomplete)


def schedule_argument(**more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the argument SCHEDULE."""
    return click.argument("schedule", shell_complete=complete_schedule, **more)


schedules_argument = click.argument(
    "schedules", nargs=-1, required=True, metavar="SCHEDULE...", shell_complete=complete_schedule
)


def schedule_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option `--schedule`."""
    return click.option(
        "--schedule", "schedule_id", metavar="SCHEDULE", help=about, shell_complete=complete_schedule
    )


# Request bodies from the command line: keys, a JSON file, or both.


def body_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--set` and `--file`; `submission` takes what they are given."""
    set_help = "Set any key; write lists and objects as JSON. May be repeated."
    file_type = click.Path(dir_okay=False, allow_dash=True)
    file_help = "Read a JSON object from this file; - reads stdin."
    with_file = click.option("--file", "source", type=file_type, help=file_help)(command)
    return click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=set_help)(with_file)


class KeyedCommand(click.Command):
    """A command with an option for every key of a schedule: `--max-retries 3`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *_key_options()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [param for param in super().get_params(ctx) if isinstance(param, click.Option)]
        for title, options in (("Options", own), ("Keys of the schedule", _key_options())):
            with formatter.section(title):
                formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])


@cache
def _key_options() -> list[click.Option]:
    from everwhen.model.fields import GENERAL  # other commands need no keys

    return [
        click.Option([f"--{name.replace('_', '-')}", name], metavar="VALUE", help=_help(row))
        for name, row in GENERAL.items()
    ]


def _help(row: Key) -> str:
    default = row.default if isinstance(row.default, str) else json.dumps(row.default)
    return row.about if row.default is None else f"{row.about} [default: {default}]"


def submission(settings: tuple[str, ...], source: str | None, **keys: str | None) -> dict[str, Any]:
    """Return the given keys and values; refuse a call without any. `keys` are those of a schedule, by their options."""
    fields = {} if source is None else _object(source)
    for name, given in keys.items():
        if given is not None:
            fields[name] = _value_of_key(name, given)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{setting}: write it like jitter=30s", param_hint="--set")
        fields[key] = _value(key, value)
    if not fields:
        raise click.UsageError("no key is given; name keys with their options or --set, or a --file")
    return fields


def _value_of_key(name: str, given: str) -> Any:
    from everwhen.model.fields import FIELDS
    from everwhen.model.scalars import Text

    is_text = isinstance(FIELDS[name].kind, Text) and given != "null"
    return given if is_text else _value(name, given)


def _object(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        fields = json.loads(text)
    except OSError as error:
        raise click.BadParameter(f"{source}: {error.strerror}", param_hint="--file") from None
    except ValueError as error:
        raise click.BadParameter(f"{source} is not valid JSON: {error}", param_hint="--file") from None
    if not isinstance(fields, dict):
        raise click.BadParameter(f"{source} does not hold a JSON object", param_hint="--file")
    return fields


def _value(key: str, text: str) -> Any:
    """Parse an object or a list as JSON, anything else as a plain value of the file: `false`, `3`, `30s`."""
    if not text.startswith(("{", "[")):
        from everwhen.config.yaml_text import core_value  # commands that only read need no YAML

        return core_value(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{key}: is not valid JSON: {error}", param_hint="--set") from None
