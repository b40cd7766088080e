"""The choice between a service and a database, by the options of a command and the environment.

`--url` (EVERWHEN_URL) names a service. `--database` or `--config` select the database itself and override
EVERWHEN_URL, because an option is more explicit than the environment. Without any of them the command calls the
service of this machine when there is a token for it (EVERWHEN_TOKEN), and otherwise opens the database.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from everwhen.cli.client import Client, http_sender


def reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--url`, `--token`, `--config` and `--database` to a command, and pass it a client as first argument."""

    @functools.wraps(command)
    def wrapped(
        url: str | None, token: str | None, path: Path | None, database: str | None, **rest: Any
    ) -> Any:
        with opened_client(_meant(url, path, database), token, path, database) as client:
            return command(client, **rest)

    options = (
        click.option("--url", envvar="EVERWHEN_URL", help="Use the running service at this address."),
        click.option("--token", envvar="EVERWHEN_TOKEN", help="Use this token of the service."),
        click.option(
            "--config",
            "path",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Use the database of this configuration file.",
        ),
        click.option("--database", metavar="URL", help="Use this database directly, without a service."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _meant(url: str | None, path: Path | None, database: str | None) -> str | None:
    """Return the URL of the service, or None when a database is named; refuse a command line with both."""
    if url is None or (path is None and database is None):
        return url
    if click.get_current_context().get_parameter_source("url") is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--url names a service, --database and --config name a database; give one of them"
        )
    return None


@contextmanager
def opened_client(
    url: str | None, token: str | None, path: Path | None, database: str | None
) -> Iterator[Client]:
    """Open a client of the service, or of the database."""
    if url is not None:
        with http_sender(url, token) as send:
            yield Client(send)
        return
    from everwhen.cli import local  # imported late: a call to a service does not need it

    with local.sender(token, path, database) as send:
        yield Client(send)
