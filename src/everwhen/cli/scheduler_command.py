"""`everwhen scheduler`: fire slots and run none; workers are processes of their own."""

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
    """Fire what is due, and leave running it to workers. Any number may share one database.

    With --database and no configuration file the schedules are those that the database holds. Signals are those
    of `everwhen up`.
    """
    run_node("scheduler", path, database, watch=watch, may_remove_most=yes, is_forced=force)
