"""How commands find and read the configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from everwhen.cli.terminal import secho
from everwhen.clock import SystemClock, local_zone_name
from everwhen.config.problems import Problem, Report
from everwhen.config.read import Configuration, Host, examine
from everwhen.config.settings import Settings, api_settings_of
from everwhen.errors import SchedulerError
from everwhen.model.variables import CONFIG
from everwhen.runtime import Runtime
from everwhen.wiring import check_queue, check_url, open_stack, plugins_in, python_fault

DEFAULT = Path("everwhen.yaml")


def _some_database(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.strip():  # an unset variable of a script
        raise click.BadParameter("it is empty; write sqlite:///FILE or postgresql://…, or leave it out")
    return url


config_option = click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=lambda: Path(os.environ.get(CONFIG, DEFAULT)),
    help="Use this configuration file (default everwhen.yaml).",
)


def database_option_with(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option `--database`."""
    return click.option("--database", metavar="URL", callback=_some_database, help=about)


database_option = database_option_with(
    "Use this database, sqlite:///FILE or postgresql://…; overrides the one of the file."
)


def database_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return config_option(database_option(command))


def is_missing(path: Path) -> bool:
    """Return whether no file was named and the current directory has none."""
    return path == DEFAULT and CONFIG not in os.environ and not path.exists()


def read_settings(path: Path, *, checks_functions: bool = True) -> Settings:
    """Read only the settings, from the file (if there is one) and the environment: some commands need no schedules.

    `checks_functions`: refuse a file that names Python functions which do not exist.
    """
    report, host = Report(), this_host()
    configuration = examine(path, host if checks_functions else replace(host, python_fault=None), report)
    if not is_missing(path):
        report.refuse()
    return configuration.settings


def refusals(configuration: Configuration) -> list[str]:
    """List what `everwhen up` would refuse in a valid file, as far as that can be checked without starting it."""
    from everwhen.api.hosting import refuse_unusable_tls  # other commands start without it

    settings = configuration.settings
    api = api_settings_of(configuration.sections.get("api"), os.environ)
    checks: Sequence[Callable[[], None]] = (
        partial(refuse_unusable, settings.database, settings),
        partial(check_queue, settings.dispatch, redis=settings.redis, celery_broker=settings.celery_broker),
        api.refuse_exposure,
        partial(refuse_unusable_tls, api.tls),
    )
    found = []
    for refuse in checks:
        try:
            refuse()
        except (SchedulerError, click.UsageError) as error:
            found.append(str(error))
    return found


def refuse_unusable(url: str, settings: Settings) -> None:
    """Refuse a database or a queue that no node could use, without opening it."""
    check_url(url)
    if settings.dispatch != "local" and url == "sqlite://":
        raise click.UsageError(
            f"dispatch: {settings.dispatch} needs a database that its workers can open; name a file, or PostgreSQL"
        )


def this_host() -> Host:
    """Return the machine on which a file is read."""
    return Host(os.environ, local_zone_name, SystemClock().now(), plugins_in, python_fault)


def show_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        secho(f"warning: {warning}", err=True, fg="yellow")


@contextmanager
def opened(path: Path, database: str | None, *, may_create: bool = True) -> Iterator[Runtime]:
    """Open the runtime on the given database, or on the file's; a file with mistakes is accepted too.

    A command that only reads does not create a database: when the SQLite file does not exist, it gets an empty one in
    memory.
    """
    settings = examine(path, this_host(), Report()).settings
    url = database or settings.database
    if not may_create and url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        url = "sqlite://"
    stack = open_stack(url, timezone=settings.timezone)
    try:
        yield stack.runtime
    finally:
        stack.close()
