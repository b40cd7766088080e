"""The API server of a runtime, and the admin token of the first start.

The web framework is imported only when a server is opened: other commands start without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everwhen.api.hosting import NodeHooks, refuse_unusable_tls
from everwhen.api.sign_in_links import PATH, SignInLinks
from everwhen.cli.configuration import this_host
from everwhen.cli.terminal import echo, secho
from everwhen.config.read import Configuration
from everwhen.config.settings import ApiSettings, api_settings_of
from everwhen.config.submission import SubmissionRules, rules_of
from everwhen.engine.service import Service
from everwhen.errors import TokenError
from everwhen.mcp.mounts import mounts_of
from everwhen.model.variables import ADMIN_TOKEN
from everwhen.operations.tokens import first_token
from everwhen.runtime import Runtime
from everwhen.telemetry.durations import JobDurations

if TYPE_CHECKING:
    from everwhen.api.server import ApiServer

token_file_option = click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the admin token of the first start here (0600) instead of printing it.",
)


def address_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--host` and `--port`."""
    host_help = "Serve the API on this address; overrides api.host."
    port_help = "Serve the API on this port, 0 for any free one; overrides api.port."
    with_port = click.option("--port", type=click.IntRange(0, 65_535), metavar="PORT", help=port_help)(
        command
    )
    return click.option("--host", metavar="HOST", help=host_help)(with_port)


def api_settings(
    configuration: Configuration, *, host: str | None = None, port: int | None = None
) -> ApiSettings:
    """Return the API settings of the file and the environment, overridden by the options of the command.

    Settings that cannot be served are refused.
    """
    settings = api_settings_of(configuration.sections.get("api"), os.environ)
    settings = replace(
        settings,
        host=settings.host if host is None else host,
        port=settings.port if port is None else port,
    )
    settings.refuse_exposure()
    refuse_unusable_tls(settings.tls)
    return settings


def load_api_server(settings: ApiSettings) -> None:
    """Import all that a server needs, so that opening it takes no time."""
    mounts_of(settings)
    import_module("everwhen.api.server")
    import_module("everwhen.api.app")
    import_module("everwhen.telemetry.metrics")
    import_module("everwhen.web.routes")


def open_api_server(
    runtime: Runtime,
    current: Callable[[], Configuration],
    settings: ApiSettings,
    *,
    token_file: Path | None = None,
    changes: Callable[[], int] | None = None,
    node: Service | None = None,
    durations: JobDurations | None = None,
    node_hooks: NodeHooks | None = None,
) -> ApiServer:
    """Serve the API of a runtime.

    `current` returns the configuration in force. `changes` returns another number after any process has committed.
    `node` is the service of this process, `durations` the run times of its jobs, `node_hooks` what else the API may
    call.
    """
    from everwhen.api.app import create_app
    from everwhen.api.context import ApiContext
    from everwhen.api.server import ApiServer
    from everwhen.telemetry.metrics import Metrics
    from everwhen.web.routes import dashboard_routes

    hooks, service = node_hooks or NodeHooks(), current().settings
    context = ApiContext(
        runtime,
        settings,
        Around(current),
        unready=None if node is None else node.unreadiness,
        changes=changes,
        node_hooks=hooks,
        jobs_kept=service.retention.jobs,
        measured=Metrics(runtime, loop=hooks.figures, durations=durations, service=service.name),
    )
    server = ApiServer(create_app(context, dashboard_routes(), mounts=mounts_of(settings)), settings)
    server.start()
    try:
        tell_first_token(runtime, token_file)
    except BaseException:
        server.stop()
        raise
    secho(
        f"API on {server.url}/api/v1/, documented at {server.url}/api/docs",
        err=True,
        bold=True,
        event="api.started",
    )
    tell_dashboard(server.url, context.sign_in_links)
    return server


def tell_dashboard(url: str, links: SignInLinks) -> None:
    """Show where the dashboard is; on a terminal with a link that signs in, which belongs in no log file."""
    if not sys.stderr.isatty():
        secho(f"dashboard on {url}/", err=True, bold=True, event="dashboard.started")
        return
    link = f"{url}{PATH}{links.create()}"
    secho(f"dashboard on {link}", err=True, bold=True, event="dashboard.started")
    secho("  the link signs you in once, within 10 minutes; later sign in with a token", err=True)


class Around:
    """The rules for submissions, computed once for each configuration."""

    def __init__(self, current: Callable[[], Configuration]) -> None:
        self._current = current
        self._known: tuple[Configuration, SubmissionRules] | None = None

    def __call__(self) -> SubmissionRules:
        configuration = self._current()
        if self._known is None or self._known[0] is not configuration:
            self._known = (configuration, rules_of(configuration, this_host(), ()))
        return replace(self._known[1])


def tell_first_token(runtime: Runtime, token_file: Path | None) -> None:
    """Create the token of the first start, and show it once: on standard output, or in a file private to its owner."""
    preset = os.environ.get(ADMIN_TOKEN) or None
    handle = None if token_file is None or preset else _opened(token_file)
    try:
        made = first_token(runtime, preset)
        if made is None or preset is not None:
            return
        if handle is None:
            echo(f"admin token: {made.secret}")
        else:
            os.write(handle, f"{made.secret}\n".encode())
            secho(f"the admin token is in {token_file}", err=True)
    finally:
        if handle is not None:
            os.close(handle)


def _opened(path: Path) -> int:
    """Open the file for the token before the token is created: a token that cannot be written would be lost."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.fchmod(handle, 0o600)
        return handle
    except OSError as error:
        raise TokenError(f"--token-file {path} cannot be written: {error.strerror}") from error
