"""`everwhen scheduler`: fire slots without running jobs; workers are separate processes."""

from __future__ import annotations

from pathlib import Path

import click

from everwhen.cli.configuration import config_option, database_option
from everwhen.cli.serving import force_option, run_node, watch_option, yes_option


@click.command(name="scheduler")
@config_option
@database_option
@watch_option
@yes_option
@force_option
def command(path: Path, database: str | None, watch: bool, yes: bool, force: bool) -> None:
    """Fire what is due, and leave the jobs to workers. Any number of schedulers may share one database.

    With --database and without a configuration file, the schedules are those in the database. The signals are those
    of `everwhen up`.
    """
    run_node("scheduler", path, database, watch=watch, may_remove_most=yes, is_forced=force)
