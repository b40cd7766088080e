"""`everwhen api`: only the API; schedulers and workers are other processes."""

from __future__ import annotations

import os
from pathlib import Path

import click

from everwhen.api.hosting import NodeHooks
from everwhen.cli.api_server import address_options, api_settings, open_api_server, token_file_option
from everwhen.cli.configuration import database_options, is_missing, this_host
from everwhen.cli.main import collect_seldom
from everwhen.cli.node_log import node_logging, use_log
from everwhen.cli.node_resources import watching
from everwhen.cli.reloader import Reloader
from everwhen.cli.service_manager import ServiceManager
from everwhen.cli.terminal import secho
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.config.sections.notify import rules_in
from everwhen.errors import shown_url
from everwhen.runtime import Runtime
from everwhen.signals import ProcessSignals, wait_until
from everwhen.wiring import open_node_stack


@click.command(name="api")
@database_options
@token_file_option
@address_options
def command(
    path: Path, database: str | None, token_file: Path | None, host: str | None, port: int | None
) -> None:
    """Serve the API of a database until Ctrl-C. Schedulers and workers on the same database do the rest.

    The command reads the service and api sections of a configuration file, and the plugins, agents and workflows that
    schedules may name. Its start does not apply the schedules of the file: a scheduler does that.
    """
    collect_seldom()
    manager = ServiceManager(os.environ)
    with node_logging(), manager.watchdog():
        _serve(path, database, token_file, manager, host=host, port=port)


def _serve(
    path: Path,
    database: str | None,
    token_file: Path | None,
    manager: ServiceManager,
    *,
    host: str | None,
    port: int | None,
) -> None:
    configuration = (
        examine(path, this_host(), Report()) if is_missing(path) else read_configuration(path, this_host())
    )
    use_log(configuration.settings.log)
    settings = api_settings(configuration, host=host, port=port)
    url = database or configuration.settings.database
    stack = open_node_stack(url, timezone=configuration.settings.timezone)
    try:
        # A reload goes to the database, where schedulers pick it up.
        file = None if is_missing(path) else _reloader(stack.runtime, path, configuration)
        look, take = (None, None) if file is None else (file.look, file.take)
        # The watch starts before the API accepts requests: the address of the queue may be wrong.
        with ProcessSignals() as signals, watching(stack, configuration.settings):
            stopped = signals.on_stop(lambda: None)

            def current() -> Configuration:
                return configuration if file is None else file.current

            server = open_api_server(
                stack.runtime,
                current,
                settings,
                token_file=token_file,
                node_hooks=NodeHooks(
                    look,
                    take,
                    dispatch=configuration.settings.dispatch,
                    alert_rules=lambda: rules_in(current().sections.get("notify")),
                ),
                changes=stack.changes,
            )
            secho(
                f"everwhen api on {shown_url(url)}; Ctrl-C stops", err=True, bold=True, event="node.started"
            )
            manager.ready("serving the API")
            wait_until(stopped)
            manager.stopping()
            secho("stopping …", err=True, event="node.stopping")
            server.stop()
        secho("stopped", err=True, event="node.stopped")
    finally:
        stack.close()


def _reloader(runtime: Runtime, path: Path, current: Configuration) -> Reloader:
    return Reloader(runtime, lambda _: read_configuration(path, this_host()), current, lambda _: None)
