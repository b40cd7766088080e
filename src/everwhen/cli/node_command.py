"""`everwhen up`, `scheduler` and `worker`: a node in the foreground that decides, runs, or does both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from everwhen.cli.api_server import address_options, token_file_option
from everwhen.cli.configuration import database_options
from everwhen.cli.serving import NodeSettings, run_node

_MOVED = "Start even on a database that `everwhen db copy` moved to another address."


def _scheduling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a node that applies a file: those of every node, `--watch`, `--yes` and `--force`."""
    for option in (
        click.option("--force", is_flag=True, help=_MOVED),
        click.option("--yes", is_flag=True, help="Start even when the file drops most of its schedules."),
        click.option("--watch", is_flag=True, help="Reload when a file of the configuration changes."),
        database_options,
    ):
        command = option(command)
    return command


@click.command(name="up")
@_scheduling_options
@token_file_option
@address_options
@click.option("--no-api", is_flag=True, help="Do not serve the API.")
def up(**options: Any) -> None:
    """Run the schedules of a configuration file, and serve their API, until Ctrl-C. A restart resumes where the last
    run stopped.

    SIGHUP reloads the file; a file with mistakes is refused, and the old configuration stays in force. SIGTERM and
    Ctrl-C let running jobs end, for at most service.shutdown_timeout; the second one kills them.
    """
    if options["no_api"] and (options["host"] is not None or options["port"] is not None):
        raise click.UsageError(
            "--no-api serves no API, so --host and --port have no meaning; give one of them"
        )
    run_node(NodeSettings("up", **options))


@click.command(name="scheduler")
@_scheduling_options
def scheduler(**options: Any) -> None:
    """Fire what is due, and leave the jobs to workers. Any number of schedulers may share one database.

    With --database and without a configuration file, the schedules are those in the database. The signals are those
    of `everwhen up`.
    """
    run_node(NodeSettings("scheduler", **options))


@click.command(name="worker")
@database_options
@click.option(
    "--queue", "queues", metavar="A,B", help="Run only jobs of these queues (default: of every queue)."
)
def worker(path: Path, database: str | None, queues: str | None) -> None:
    """Run jobs that schedulers fired, at most service.max_workers at a time. Any number may share one database.

    The worker reads the service section, the plugins and the workflows of a configuration file. The file may be
    missing.
    """
    names = None if queues is None else [name.strip() for name in queues.split(",") if name.strip()]
    if names == []:
        raise click.BadParameter("names no queue; write --queue a,b or leave it out", param_hint="--queue")
    run_node(NodeSettings("worker", path, database, names))
