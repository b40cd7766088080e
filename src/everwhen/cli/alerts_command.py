"""`everwhen alerts`: what is wrong, and what a person does about it."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import Client, part
from everwhen.cli.connection import CallingGroup, complete_schedule, schedule_option
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.screen import Answers, Text, answering, limit_option, print_table
from everwhen.cli.terminal import echo

_STYLES = {"critical": "red", "error": "red", "warning": "yellow"}


@click.group(name="alerts", cls=CallingGroup)
def command() -> None:
    """List, acknowledge and silence alerts."""


@command.call("list")
@click.option("--all", "is_all", is_flag=True, help="Also list alerts that are over.")
@schedule_option("List only alerts of this schedule.")
@tz_option
@limit_option
@answering
def list_(client: Client, is_all: bool, schedule_id: str | None, tz: str | None, limit: int) -> Answers:
    """List the open alerts, the newest first."""
    display = InstantDisplay(tz)
    state = None if is_all else "open"
    if schedule_id is not None:
        schedule_id = client.schedule_id(schedule_id)
    found = list(client.pages("/alerts/", limit, state=state, schedule_id=schedule_id))
    if not found and schedule_id is not None:
        client.get(f"/schedules/{part(schedule_id)}/")  # refuse a schedule that does not exist
    yield found
    print_table(
        ("id", "severity", "class", "subject", "since", "count", "state", "what happened"),
        [_row(client, one, display) for one in found],
        empty="no alerts" if is_all else "no open alerts",
    )
    display.tell_zone()


def _row(client: Client, one: dict[str, Any], display: InstantDisplay) -> tuple[str | Text, ...]:
    state = "acknowledged" if one["acked_at"] and one["state"] == "open" else one["state"]
    return (
        str(one["id"]),
        Text(one["severity"], _STYLES.get(one["severity"], "")),
        one["class"],
        client.label_of(one) if one["schedule_id"] else client.name_of(one["key"].partition(" ")[2]),
        display.of(one, "since"),
        str(one["count"]),
        state,
        one["text"],
    )


@command.call("ack")
@click.argument("alert", type=click.IntRange(1))
@answering
def ack(client: Client, alert: int) -> Answers:
    """Acknowledge an alert: it is not repeated any more."""
    found = client.post(f"/alerts/{alert}/ack/")
    yield found
    is_over = found["state"] == "resolved"
    echo(
        f"alert {alert} is over already" if is_over else f"acknowledged {alert}: it is not repeated any more"
    )


@command.call("silence")
@click.argument("subject", metavar="SCHEDULE|GROUP", shell_complete=complete_schedule)
@click.option(
    "--for", "duration", required=True, metavar="DURATION", help="Hold them for this long, such as 2h."
)
@answering
def silence(client: Client, subject: str, duration: str) -> Answers:
    """Hold the alerts of a schedule or a group for a while; those still open then are reported."""
    meant = client.schedule_id(subject)  # a group stays as it is
    made = client.post("/alerts/silences/", {"subject": meant, "duration": duration})
    yield made
    name, where = client.name_of(made["subject"]), None
    if made["kind"] == "schedule":
        where = client.zone_of(made["subject"])
    echo(f"alerts of {made['kind']} {name} are held until {InstantDisplay().text(made['until'], where)}")
