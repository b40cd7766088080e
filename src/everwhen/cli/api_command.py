"""`everwhen api`: the API alone, beside schedulers and workers elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from everwhen.cli.configuration import config_option, database_option, is_missing, this_host
from everwhen.cli.front import api_settings, open_front, token_file_option
from everwhen.cli.serving import show_log, stop_on_signals, wait_until
from everwhen.config.problems import Report
from everwhen.config.read import examine, read_configuration
from everwhen.errors import shown_url
from everwhen.wiring import open_stack


@click.command(name="api")
@config_option
@database_option
@token_file_option
def command(path: Path, database: str | None, token_file: Path | None) -> None:
    """Serve the API of a database until Ctrl-C. Schedulers and workers on the same database do the rest.

    A configuration file is read for its service and api sections, and for the plugins, agents and workflows that
    schedules may name; its own schedules are a scheduler's business.
    """
    show_log()
    configuration = (
        examine(path, this_host(), Report()) if is_missing(path) else read_configuration(path, this_host())
    )
    settings = api_settings(configuration)
    url = database or configuration.settings.database
    stack = open_stack(url, timezone=configuration.settings.timezone)
    try:
        stopped = stop_on_signals(lambda: None)
        server = open_front(
            stack.house, lambda: configuration, settings, token_file=token_file, changes=stack.changes
        )
        click.secho(f"everwhen api on {shown_url(url)}; Ctrl-C stops", err=True, bold=True)
        wait_until(stopped)
        click.secho("stopping …", err=True)
        server.stop()
        click.secho("stopped", err=True)
    finally:
        stack.close()
