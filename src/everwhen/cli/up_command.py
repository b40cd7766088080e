"""`everwhen up`: scheduler, workers and API in one process."""

from __future__ import annotations

from pathlib import Path

import click

from everwhen.cli.api_server import token_file_option
from everwhen.cli.configuration import config_option, database_option
from everwhen.cli.serving import force_option, run_node, watch_option, yes_option


@click.command(name="up")
@config_option
@database_option
@watch_option
@yes_option
@force_option
@token_file_option
def command(
    path: Path, database: str | None, watch: bool, yes: bool, force: bool, token_file: Path | None
) -> None:
    """Run the schedules of a configuration file until Ctrl-C. A restart resumes where the last run stopped.

    SIGHUP reloads the file; a file with mistakes is refused, and the old configuration stays in force. SIGTERM and
    Ctrl-C let running jobs end, for at most service.shutdown_timeout; the second one kills them.
    """
    run_node("up", path, database, watch=watch, may_remove_most=yes, token_file=token_file, is_forced=force)
