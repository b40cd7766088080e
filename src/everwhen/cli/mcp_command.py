"""`everwhen mcp`: an MCP server on standard input and output, for one token."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from everwhen.cli.client import http_sender
from everwhen.cli.connection import connection_options, service_meant
from everwhen.errors import SchedulerError

MISSING = "everwhen mcp needs the package mcp; install it with: pip install 'everwhen[mcp]'"

CLOSED = "everwhen mcp uses its standard input and output, and one of them is closed; let a client start it"


@click.command(name="mcp")
@connection_options
def command(url: str | None, token: str | None, path: Path | None, database: str | None) -> None:
    """Serve MCP on standard input and output, with the rights of one token.

    Clients such as Claude Code and Claude Desktop start this command by themselves. With --url, or with a token and a
    service on this machine, the tools call that service. Otherwise they work on the database, with the rights of the
    token or, without one, of this user.
    """
    try:
        from everwhen.mcp import stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise SchedulerError(MISSING) from None
    if sys.stdin is None or sys.stdout is None:
        raise SchedulerError(CLOSED)
    service = service_meant(url, path, database)
    if service is None:
        from everwhen.cli import local

        service = local.service_that_answers(token, path, database)
    if service is not None:
        if token is None:
            raise click.UsageError("a service needs a token: --token, or EVERWHEN_TOKEN")
        stdio.serve_service(partial(http_sender, service, token), token, service.rstrip("/"))
        return
    with local.opened_application(token, path, database) as (app, secret, base):
        stdio.serve_application(app, secret, base)
