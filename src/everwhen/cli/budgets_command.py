"""`everwhen budgets`: what groups, owners and tokens have fired and spent, and what is left."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import Client
from everwhen.cli.connection import CallingGroup
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.screen import Answers, Text, answering, print_table
from everwhen.model.instants import SECOND, duration_text

_COLOURS = {"ok": "green", "warning": "yellow", "reached": "red"}


@click.group(name="budgets", cls=CallingGroup)
def command() -> None:
    """Show budgets: list."""


@command.call("list")
@tz_option
@answering
def list_(client: Client, tz: str | None) -> Answers:
    """List every budget: what is used of each limit, what is left, and when it refills.

    Of a cost, `used` is what runs reported, and beside it stands what is estimated, also for runs that go on.
    """
    display = InstantDisplay(tz)
    found = client.get("/budgets/")["items"]
    yield found
    columns = ("budget", "limit", "used", "estimated", "of", "left", "state", "skipped", "refills")
    rows = [row for budget in found for row in _rows(budget, display)]
    print_table(columns, rows, empty="no budgets: they are under budgets in the configuration file")
    display.tell_zone()


def _rows(budget: dict[str, Any], display: InstantDisplay) -> list[tuple[str | Text, ...]]:
    """Return a row for each limit: those with a window, then those on what a token makes."""
    name = Text(f"{budget['kind']} {budget['name']}", "bold")
    rows = [_row(name, budget, limit, display) for limit in budget["limits"]]
    if (most := budget["max_schedules"]) is not None:
        used = budget["schedules"]
        state = Text("reached", _COLOURS["reached"]) if used >= most else Text("ok", _COLOURS["ok"])
        left = str(max(most - used, 0))
        rows.append((name, "max_schedules", str(used), "", str(most), left, state, "", ""))
    for key in ("min_interval", "ttl"):
        if budget[key] is not None:
            rows.append((name, key, "", "", duration_text(budget[key] * SECOND) or "", "", "", "", ""))
    if not rows:  # it only bounds a run
        unit = f" {budget['currency']}" if budget["currency"] else ""
        rows.append((name, "cost_per_run", "", "", f"{budget['cost_per_run']:g}{unit}", "", "", "", ""))
    return rows


def _row(
    name: Text, budget: dict[str, Any], limit: dict[str, Any], display: InstantDisplay
) -> tuple[str | Text, ...]:
    unit = f" {budget['currency']}" if budget["currency"] else ""
    is_cost = limit["limit"].startswith("cost")
    unit = unit if is_cost else ""
    keys = ("reported" if is_cost else "used", "estimated", "most", "left")
    numbers = [
        "" if limit[key] is None else f"{limit[key]:.6f}".rstrip("0").rstrip(".") + unit for key in keys
    ]
    level = Text(limit["level"], _COLOURS[limit["level"]])
    refills = display.text(limit["refill_at"])
    return name, limit["limit"], *numbers, level, str(budget["skipped"]), refills
