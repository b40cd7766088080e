"""`everwhen worker`: run jobs that schedulers fired."""

from __future__ import annotations

from pathlib import Path

import click

from everwhen.cli.configuration import config_option, database_option
from everwhen.cli.serving import run_node


@click.command(name="worker")
@config_option
@database_option
@click.option(
    "--queue", "queues", metavar="A,B", help="Run only jobs of these queues (default: of every queue)."
)
def command(path: Path, database: str | None, queues: str | None) -> None:
    """Run jobs that schedulers fired, at most service.max_workers at a time. Any number may share one database.

    The worker reads the service section, the plugins and the workflows of a configuration file. The file may be
    missing.
    """
    names = None if queues is None else [name.strip() for name in queues.split(",") if name.strip()]
    if names == []:
        raise click.BadParameter("names no queue; write --queue a,b or leave it out", param_hint="--queue")
    run_node("worker", path, database, queues=names)
