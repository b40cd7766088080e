"""Which service or database a command speaks to, by its options and the environment.

`--url` (EVERWHEN_URL) names a service. `--database` or `--config` mean the database itself, and stand before
EVERWHEN_URL: what is typed is meant. With none of them a service on this machine is asked when there is a token for it
(EVERWHEN_TOKEN), and the database otherwise.
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
    """Give a command `--url`, `--token`, `--config`, `--database`, and hand it a client first."""

    @functools.wraps(command)
    def wrapped(
        url: str | None, token: str | None, path: Path | None, database: str | None, **rest: Any
    ) -> Any:
        with opened_client(_meant(url, path, database), token, path, database) as client:
            return command(client, **rest)

    options = (
        click.option("--url", envvar="EVERWHEN_URL", help="A running service."),
        click.option("--token", envvar="EVERWHEN_TOKEN", help="Its token."),
        click.option(
            "--config",
            "path",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The configuration file.",
        ),
        click.option("--database", metavar="URL", help="The database itself, without a service."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _meant(url: str | None, path: Path | None, database: str | None) -> str | None:
    """The service, unless a database is named; naming both on one line is a mistake that nobody should guess at."""
    if url is None or (path is None and database is None):
        return url
    if click.get_current_context().get_parameter_source("url") is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--url asks a service, --database and --config the database itself; say one of them"
        )
    return None


@contextmanager
def opened_client(
    url: str | None, token: str | None, path: Path | None, database: str | None
) -> Iterator[Client]:
    """A client of the service, or of the database."""
    if url is not None:
        with http_sender(url, token) as send:
            yield Client(send)
        return
    from everwhen.cli import local  # what reads files and opens databases is not needed to ask a service

    with local.sender(token, path, database) as send:
        yield Client(send)
