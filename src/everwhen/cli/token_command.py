"""`everwhen token create | list | revoke`, directly on the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from everwhen.cli.configuration import database_options, opened
from everwhen.cli.screen import Answers, Text, answering, answering_line, print_table
from everwhen.cli.terminal import echo, secho
from everwhen.errors import TokenError
from everwhen.model.token import ROLES, AccessRole, Token, limits_of, limits_to_json
from everwhen.operations.tokens import create_token, list_tokens, revoke_token
from everwhen.timetable.interval import parse_seconds
from everwhen.views.system import Token as TokenView


@click.group(name="token")
def command() -> None:
    """Manage tokens of the API. A secret is shown once, when its token is created; the database holds only its hash."""


@command.command(name="create")
@database_options
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="operator", show_default=True)
@click.option("--owner", help="Confine the token to the objects of this owner.")
@click.option("--expires", metavar="30d", help="Let the token expire after this time.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    help="Limit the token: max_schedules=10, min_interval=5m, …",
)
@answering_line
def create(
    path: Path,
    database: str | None,
    name: str,
    role: AccessRole,
    owner: str | None,
    expires: str | None,
    limits: tuple[str, ...],
) -> Answers:
    """Create a token and print it once.

    Limits: max_schedules, min_interval, ttl (of what it creates), fires_per_hour, fires_per_day, targets (a list with
    commas), approval=required (what it creates or changes stays paused until an operator approves it).
    """
    lasts = None if expires is None else parse_seconds(expires)
    with opened(path, database) as runtime:
        terms = limits_of(_limit_to_json(limits))
        made = create_token(runtime, name, role, owner=owner, limits=terms, lasts=lasts)
    yield {**_token_to_json(made.token), "token": made.secret}
    echo(made.secret)
    secho(f"{made.token.token_id}: {role}{f' of {owner}' if owner else ''}; shown once", err=True)


@command.command(name="list")
@database_options
@answering_line
def list_(path: Path, database: str | None) -> Answers:
    """List every token, newest first."""
    with opened(path, database, may_create=False) as runtime:
        tokens = list_tokens(runtime)
    yield [_token_to_json(token) for token in tokens]
    statuses = [
        Text("in force", "green") if one.revoked_at is None else Text("revoked", "dim") for one in tokens
    ]
    rows = [
        (one.token_id, one.role, one.owner or "–", text, one.name)
        for one, text in zip(tokens, statuses, strict=True)
    ]
    print_table(("token", "role", "owner", "", "name"), rows, empty="no tokens")


@command.command(name="revoke")
@database_options
@click.argument("token_id")
@answering
def revoke(path: Path, database: str | None, token_id: str) -> Answers:
    """Revoke a token at once. What it created stays."""
    with opened(path, database, may_create=False) as runtime:
        revoke_token(runtime, token_id)
    yield {"revoked": token_id}
    secho("revoked", err=True)


def _limit_to_json(limits: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for limit in limits:
        name, equals, value = limit.partition("=")
        if not equals:
            raise TokenError(f"--limit {limit}: write it like max_schedules=10")
        if name == "targets":
            fields[name] = [kind for kind in value.split(",") if kind]
        else:
            fields[name] = int(value) if value.isdecimal() else value
    return fields


def _token_to_json(token: Token) -> dict[str, Any]:
    return TokenView.of(token, limits=limits_to_json(token.limits))
