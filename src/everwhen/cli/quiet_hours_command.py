"""`everwhen quiet-hours`: times in which the schedules that name them do not fire."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from everwhen.cli.client import Client, part
from everwhen.cli.connection import CallingGroup, body_options, submission
from everwhen.cli.instants import InstantDisplay
from everwhen.cli.screen import Answers, Text, answering, print_fields, print_table
from everwhen.cli.terminal import echo


@click.group(name="quiet-hours", cls=CallingGroup)
def command() -> None:
    """Manage quiet hours: list, show, create, update, delete."""


def _path(policy: str) -> str:
    return f"/quiet-hours/{part(policy)}/"


@command.call("list")
@answering
def list_(client: Client) -> Answers:
    """List all quiet hours."""
    found = client.get("/quiet-hours/")["items"]
    yield found
    columns = ("id", "zone", "windows", "dates", "action", "source")
    print_table(columns, [_row(one) for one in found], empty="no quiet hours")


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


@command.call("show")
@click.argument("policy")
@answering
def show(client: Client, policy: str) -> Answers:
    """Show one policy."""
    one = client.get(_path(policy))
    yield one
    print_fields(one, partial(InstantDisplay().of, one))


@command.call("create")
@click.argument("policy")
@body_options
@answering
def create(client: Client, policy: str, **given: Any) -> Answers:
    """Create a policy.

    \b
    everwhen quiet-hours create nights --set timezone=Europe/Paris --set 'windows=[{"between": "22:00-07:00"}]'
    """
    yield client.post("/quiet-hours/", {"id": policy, **submission(**given)})
    echo(f"created {policy}")


@command.call("update")
@click.argument("policy")
@body_options
@answering
def update(client: Client, policy: str, **given: Any) -> Answers:
    """Change a policy at once, for every schedule that names it."""
    yield client.patch(_path(policy), submission(**given))
    echo(f"changed {policy}")


@command.call("delete")
@click.argument("policy")
@answering
def delete(client: Client, policy: str) -> Answers:
    """Delete a policy that no schedule uses."""
    client.delete(_path(policy))
    yield {"id": policy}
    echo(f"deleted {policy}")
