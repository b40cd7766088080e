"""How commands find and read the configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from everwhen.config.problems import Problem
from everwhen.config.read import Host
from everwhen.system_clock import SystemClock, local_zone_name


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
