"""How commands find and read the configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from everwhen.cli.terminal import secho
from everwhen.clock import SystemClock, local_zone_name
from everwhen.config.api_settings import api_settings_of
from everwhen.config.problems import Problem, Report
from everwhen.config.read import Configuration, Host, examine
from everwhen.config.settings import Settings
from everwhen.errors import SchedulerError
from everwhen.ports.runtime import Runtime
from everwhen.wiring import check_url, open_stack, plugins_in, python_fault

DEFAULT = Path("everwhen.yaml")


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--config`, then EVERWHEN_CONFIG, then ./everwhen.yaml."""
    return click.option(
        "--config",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        default=lambda: Path(os.environ.get("EVERWHEN_CONFIG", DEFAULT)),
        help="The configuration file (default everwhen.yaml).",
    )(command)


def database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--database` stands before EVERWHEN_DATABASE and the file."""
    return click.option(
        "--database",
        metavar="URL",
        callback=_some_database,
        help="sqlite:///FILE or postgresql://…; stands before the file's own.",
    )(command)


def _some_database(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.strip():  # a variable of a script that is not set
        raise click.BadParameter("it is empty; write sqlite:///FILE or postgresql://…, or leave it out")
    return url


def is_missing(path: Path) -> bool:
    """Whether nobody named a file, and none lies in this directory."""
    return path == DEFAULT and "EVERWHEN_CONFIG" not in os.environ and not path.exists()


def read_settings(path: Path) -> Settings:
    """The settings alone, for commands that need no schedules: of the file where there is one, and the environment."""
    return _settings(path, this_host())


def _settings(path: Path, host: Host) -> Settings:
    report = Report()
    configuration = examine(path, host, report)
    if not is_missing(path):
        report.refuse()
    return configuration.settings


def read_database_settings(path: Path) -> Settings:
    """The same for commands that look after the database: what functions of a file may be, they do not ask."""
    return _settings(path, replace(this_host(), python_fault=None))


def refusals(configuration: Configuration) -> list[str]:
    """What `everwhen up` would refuse in a file without mistakes, as far as that shows without starting it."""
    settings = configuration.settings
    api = api_settings_of(configuration.sections.get("api"), os.environ)
    found = []
    for refuse in (partial(refuse_unusable, settings.database, settings), api.refuse_exposure):
        try:
            refuse()
        except (SchedulerError, click.UsageError) as error:
            found.append(str(error))
    return found


def refuse_unusable(url: str, settings: Settings) -> None:
    """A database or a queue that no start could use; nothing is opened."""
    check_url(url)
    if settings.dispatch != "local" and url == "sqlite://":
        raise click.UsageError(
            f"dispatch: {settings.dispatch} needs a database that its workers can open; name a file, or PostgreSQL"
        )


def this_host() -> Host:
    """The machine that a file is read on."""
    return Host(os.environ, local_zone_name, SystemClock().now(), plugins_in, python_fault)


def show_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        secho(f"warning: {warning}", err=True, fg="yellow")


@contextmanager
def opened(path: Path, database: str | None, *, may_create: bool = True) -> Iterator[Runtime]:
    """The runtime on the database that is named, or that the file names; for a file with mistakes as well.

    Who only looks makes no database: one that is not there is an empty one in memory.
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
