"""`everwhen quiet-hours`: times in which the schedules that name them do not fire."""

from __future__ import annotations

import json
from typing import Any

import click

from everwhen.cli.client import Client, part
from everwhen.cli.connection import file_option, reaching, setting_option, submission
from everwhen.cli.screen import Text, json_option, print_table
from everwhen.cli.terminal import echo, print_json


@click.group(name="quiet-hours")
def command() -> None:
    """Manage quiet hours: list, show, create, update, delete."""


def _path(policy: str) -> str:
    return f"/quiet-hours/{part(policy)}/"


@command.command(name="list")
@reaching
@json_option
def list_(client: Client, as_json: bool) -> None:
    """List all quiet hours."""
    found = client.get("/quiet-hours/")["items"]
    if as_json:
        print_json(found)
        return
    print_table(("id", "zone", "windows", "dates", "action", "source"), [_row(one) for one in found])


def _row(one: dict[str, Any]) -> tuple[str | Text, ...]:
    windows = (f"{' '.join(w['days'] or ['every day'])} {w['between']}" for w in one["windows"])
    dates = (d if isinstance(d, str) else f"{d['from']} to {d['to']}" for d in one["dates"])
    return (
        Text(one["id"], "bold"),
        one["timezone"],
        "\n".join(windows),
        "\n".join(dates),
        one["action"],
        one["source"],
    )


@command.command(name="show")
@reaching
@click.argument("policy")
@json_option
def show(client: Client, policy: str, as_json: bool) -> None:
    """Show one policy."""
    one = client.get(_path(policy))
    if as_json:
        print_json(one)
        return
    print_table(("", ""), [(name, _text(value)) for name, value in one.items()])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@command.command(name="create")
@reaching
@click.argument("policy")
@setting_option
@file_option
@json_option
def create(client: Client, policy: str, settings: tuple[str, ...], source: str | None, as_json: bool) -> None:
    """Create a policy.

    \b
    everwhen quiet-hours create nights --set timezone=Europe/Paris --set 'windows=[{"between": "22:00-07:00"}]'
    """
    _tell(client.post("/quiet-hours/", {"id": policy, **submission(settings, source)}), "created", as_json)


@command.command(name="update")
@reaching
@click.argument("policy")
@setting_option
@file_option
@json_option
def update(client: Client, policy: str, settings: tuple[str, ...], source: str | None, as_json: bool) -> None:
    """Change a policy at once, for every schedule that names it."""
    _tell(client.patch(_path(policy), submission(settings, source)), "changed", as_json)


@command.command(name="delete")
@reaching
@click.argument("policy")
@json_option
def delete(client: Client, policy: str, as_json: bool) -> None:
    """Delete a policy that no schedule uses."""
    client.delete(_path(policy))
    _tell({"id": policy}, "deleted", as_json)


def _tell(one: dict[str, Any], what: str, as_json: bool) -> None:
    if as_json:
        print_json(one)
    else:
        echo(f"{what} {one['id']}")
