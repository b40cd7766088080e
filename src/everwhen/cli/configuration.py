"""How commands find and read the configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from everwhen.config.problems import Problem, Report
from everwhen.config.read import Host, examine
from everwhen.ports.house import House
from everwhen.system_clock import SystemClock, local_zone_name
from everwhen.wiring import open_stack


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--config`, then EVERWHEN_CONFIG, then ./everwhen.yaml."""
    return click.option(
        "--config",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        default=lambda: Path(os.environ.get("EVERWHEN_CONFIG", "everwhen.yaml")),
        help="The configuration file (default everwhen.yaml).",
    )(command)


def this_host() -> Host:
    """The machine that a file is read on."""
    return Host(os.environ, local_zone_name, SystemClock().now())


def show_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        click.secho(f"warning: {warning}", err=True, fg="yellow")


@contextmanager
def opened(path: Path, database: str | None) -> Iterator[House]:
    """The house on the database that is named, or that the file names; for a file with mistakes as well."""
    settings = examine(path, this_host(), Report()).settings
    stack = open_stack(database or settings.database, timezone=settings.timezone)
    try:
        yield stack.house
    finally:
        stack.close()
