"""`everwhen notify`: the rules that send alerts."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import Client, part
from everwhen.cli.connection import CallingGroup
from everwhen.cli.exit_codes import FAILED
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.screen import Answers, Text, answering, print_table
from everwhen.cli.terminal import echo, secho

_NO_RULE = "there is no rule: write one under notify in the configuration file"


@click.group(name="notify", cls=CallingGroup)
def command() -> None:
    """List and test the rules that send alerts."""


@command.call("list")
@tz_option
@answering
def list_(client: Client, tz: str | None) -> Answers:
    """List the rules of the configuration, each with its last message."""
    display = InstantDisplay(tz)
    found = client.get("/alerts/rules/")["items"]
    yield found
    if not found:
        echo(_NO_RULE)
        return
    print_table(
        ("name", "channel", "last message", "at", "state", "answer"), [_row(one, display) for one in found]
    )
    display.tell_zone()


def _row(one: dict[str, Any], display: InstantDisplay) -> tuple[str | Text, ...]:
    last = one["last"] or {}
    at = last.get("delivered_at") or last.get("given_up_at") or last.get("created_at")
    return (
        Text(one["name"], "bold"),
        one["channel"],
        last.get("title", "none yet"),
        display.text(at) if at else "",
        last.get("state", ""),
        last.get("answer") or "",
    )


@command.call("test")
@click.argument("name", required=False)
@answering
def test(client: Client, name: str | None) -> Answers:
    """Send a sample through the channel of one rule, or of all, and show the answer; exit 1 when one fails."""
    names = [name] if name is not None else [one["name"] for one in client.get("/alerts/rules/")["items"]]
    found = [client.post(f"/alerts/rules/{part(one)}/test/") for one in names]
    try:
        yield found
        if not found:
            echo(_NO_RULE)
        for one in found:
            is_sent = one["state"] == "delivered"
            said = f": {one['answer']}" if one["answer"] else ""
            secho(
                f"{one['rule']}: {'delivered' if is_sent else 'failed'}{said}", fg=None if is_sent else "red"
            )
    finally:  # with --json, too
        if any(one["state"] != "delivered" for one in found):
            raise SystemExit(FAILED)
