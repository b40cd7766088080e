"""`everwhen budgets`: what groups, owners and tokens have fired and spent, and what is left."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import Client
from everwhen.cli.connection import CallingGroup
from everwhen.cli.screen import Answers, Text, answering, datetime_text, print_table

_COLOURS = {"ok": "green", "warning": "yellow", "reached": "red"}


@click.group(name="budgets", cls=CallingGroup)
def command() -> None:
    """Show budgets: list."""


@command.call("list")
@answering
def list_(client: Client) -> Answers:
    """List every budget: what is used of each limit, what is left, and when it refills."""
    found = client.get("/budgets/")["items"]
    yield found
    columns = ("budget", "limit", "used", "of", "left", "state", "skipped", "refills")
    print_table(columns, [_row(budget, limit) for budget in found for limit in budget["limits"] or [None]])


def _row(budget: dict[str, Any], limit: dict[str, Any] | None) -> tuple[str | Text, ...]:
    name = Text(f"{budget['kind']} {budget['name']}", "bold")
    unit = f" {budget['currency']}" if budget["currency"] else ""
    if limit is None:  # it only bounds a run
        return name, "cost_per_run", "", f"{budget['cost_per_run']:g}{unit}", "", "", "", ""
    unit = unit if limit["limit"].startswith("cost") else ""
    numbers = [f"{limit[key]:.6f}".rstrip("0").rstrip(".") + unit for key in ("used", "most", "left")]
    level = Text(limit["level"], _COLOURS[limit["level"]])
    return name, limit["limit"], *numbers, level, str(budget["skipped"]), datetime_text(limit["refill_at"])
