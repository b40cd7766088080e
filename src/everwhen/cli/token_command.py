"""`everwhen token create | list | revoke`, directly on the database, or over a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from everwhen.cli.client import Client, part
from everwhen.cli.configuration import database_options, opened
from everwhen.cli.connection import named_service, service_options
from everwhen.cli.screen import Answers, Text, answering, answering_line, away, print_table, seconds_between
from everwhen.cli.terminal import SentenceGroup, echo, secho
from everwhen.errors import TokenError
from everwhen.model.token import ROLES, AccessRole, Token, limits_of, limits_to_json
from everwhen.operations.tokens import create_token, list_tokens, revoke_token
from everwhen.timetable.interval import parse_seconds
from everwhen.views.system import Token as TokenView


@click.group(name="token", cls=SentenceGroup)
def command() -> None:
    """Manage tokens of the API. A secret is shown once, when its token is created; the database holds only its hash."""


@command.command(name="create")
@service_options
@database_options
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="operator",
    show_default=True,
    help="Let the token do this much.",
)
@click.option("--owner", metavar="NAME", help="Confine the token to the objects of this owner.")
@click.option("--expires", metavar="30d", help="Let the token expire after this time.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    help="Limit the token, for example max_schedules=10 or min_interval=5m; may be repeated.",
)
@answering_line
def create(
    url: str | None,
    token: str | None,
    path: Path,
    database: str | None,
    limits: tuple[str, ...],
    **given: Any,
) -> Answers:
    """Create a token and print it once.

    Limits: max_schedules, min_interval, ttl (of what it creates), fires_per_hour, fires_per_day, cost_per_day,
    cost_per_month and cost_per_run (such as "5 USD"), on_reached (skip, pause or alert), catch_up_share, targets (a
    list with commas), approval=required (what it creates or changes stays paused until an operator approves it),
    approval=recurring (the same, but one-shots pass), approval=ask (over MCP the person at the client is asked;
    elsewhere the same as required).
    """
    if given["expires"] is not None:
        parse_seconds(given["expires"])  # refuse nonsense before anything is asked
    terms = _limit_to_json(limits)
    with named_service(url, token) as client:
        made = _create(path, database, terms, **given) if client is None else _ask(client, terms, **given)
    yield made
    echo(made["token"])
    owner = f" of {made['owner']}" if made["owner"] else ""
    secho(f"{made['id']}: {made['role']}{owner}; this is the only time the token is shown", err=True)


def _create(
    path: Path, database: str | None, terms: dict[str, Any], name: str, role: AccessRole, **given: str | None
) -> dict[str, Any]:
    expires = given["expires"]
    lasts = None if expires is None else parse_seconds(expires)
    with opened(path, database) as runtime:
        made = create_token(runtime, name, role, owner=given["owner"], limits=limits_of(terms), lasts=lasts)
    return {**_token_to_json(made.token), "token": made.secret}


def _ask(client: Client, terms: dict[str, Any], expires: str | None, **given: str | None) -> dict[str, Any]:
    made: dict[str, Any] = client.post("/tokens/", {**given, "limits": terms, "expires_in": expires})
    return made


@command.command(name="list")
@service_options
@database_options
@answering_line
def list_(url: str | None, token: str | None, path: Path, database: str | None) -> Answers:
    """List every token, newest first."""
    with named_service(url, token) as client:
        tokens = _listed(path, database) if client is None else client.get("/tokens/")["items"]
    yield tokens
    rows = [(one["id"], one["role"], one["owner"] or "–", _state(one), one["name"]) for one in tokens]
    print_table(("token", "role", "owner", "", "name"), rows, empty="no tokens")


def _listed(path: Path, database: str | None) -> list[dict[str, Any]]:
    with opened(path, database, may_create=False) as runtime:
        return [_token_to_json(token) for token in list_tokens(runtime)]


def _state(one: dict[str, Any]) -> Text:
    if one["revoked_at"] is not None:
        return Text("revoked", "dim")
    if one["expires_at"] is None:
        return Text("in force", "green")
    is_over = seconds_between(one["expires_at"], None) >= 0
    return Text(
        f"expired {away(one['expires_at'])}" if is_over else f"expires {away(one['expires_at'])}", "yellow"
    )


@command.command(name="revoke")
@service_options
@database_options
@click.argument("token_id")
@click.option("--pause/--keep", "pause", help="Pause the active schedules that it created, or keep them.")
@answering
def revoke(
    url: str | None, token: str | None, path: Path, database: str | None, token_id: str, pause: bool
) -> Answers:
    """Revoke a token at once. What it created stays, and stays active unless --pause is given."""
    with named_service(url, token) as client:
        if client is not None:
            client.delete(f"/tokens/{part(token_id)}/{'?pause=true' if pause else ''}")
        else:
            with opened(path, database, may_create=False) as runtime:
                revoke_token(runtime, token_id, pause=pause)
    yield {"revoked": token_id}
    secho(f"revoked {token_id}", err=True)


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
