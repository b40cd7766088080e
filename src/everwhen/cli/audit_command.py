"""`everwhen audit`: the recorded events, and with -f the new ones as they come."""

from __future__ import annotations

import threading
from typing import Any

import click

from everwhen.cli.client import Client
from everwhen.cli.connection import reaching, schedule_option
from everwhen.cli.marks import mark_of_event
from everwhen.cli.screen import (
    Text,
    datetime_text,
    from_option,
    instant_option,
    json_option,
    limit_option,
    print_text,
    until_interrupted,
)
from everwhen.cli.terminal import has_reader, print_json, print_json_line

LOOK_EVERY = 1.0
PORTION = 200


@click.command(name="audit")
@reaching
@schedule_option("List only events of this schedule.")
@click.option("--job", "job_id", help="List only events of this job.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="List only events of this type, such as schedule.skipped; may be repeated.",
)
@from_option("List events from this instant on; without an offset it is read in this machine's zone.")
@limit_option
@click.option(
    "-f", "--follow", is_flag=True, help="Continue until Ctrl-C; with --json print one object per line."
)
@json_option
def command(
    client: Client,
    types: tuple[str, ...],
    start: str | None,
    limit: int,
    follow: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """List what happened, the newest last."""
    if filters["schedule_id"] is not None:
        filters["schedule_id"] = client.schedule_id(filters["schedule_id"])
    wanted = {**filters, "type": list(types) or None, "from": instant_option("--from", start)}
    if follow:
        behind = client.get("/audit/", limit=1)["last_event_id"]
    found = list(client.pages("/audit/", limit, **wanted))[::-1]
    if as_json and not follow:
        print_json(found)
        return
    with until_interrupted():
        _tell(client, found, as_json)
        if follow:
            _follow(client, wanted, behind, found, as_json)


def _follow(
    client: Client, wanted: dict[str, Any], behind: str, printed: list[dict[str, Any]], as_json: bool
) -> None:
    """Print the events after `behind` until Ctrl-C.

    `behind` was read before the list, so events that the list holds already may come again: those are left out.
    """
    pause = threading.Event()
    while True:
        page = client.get("/audit/", limit=PORTION, after=behind, **wanted)
        _tell(client, [event for event in page["items"] if event not in printed], as_json)
        if not has_reader():
            return
        if page["last_event_id"] == behind:
            printed = []
            pause.wait(LOOK_EVERY)
        behind = page["last_event_id"]


def _tell(client: Client, events: list[dict[str, Any]], as_json: bool) -> None:
    for event in events:
        if as_json:
            print_json_line(event)
        else:
            print_text(_line(client, event))


def _line(client: Client, event: dict[str, Any]) -> Text:
    reason = f" ({event['reason']})" if event["reason"] else ""
    count = f" × {event['slot_count']:,}" if event["slot_count"] > 1 else ""
    who = f"  by {event['actor']}" if event["actor"] else ""
    of = client.name_of(event["schedule_id"]) if event["schedule_id"] else ""
    slot = f"  slot {datetime_text(event['slot_at'])}" if event["slot_at"] else ""
    job = f"  {event['job_id']}" if event["job_id"] else ""
    mark = mark_of_event(event["type"])
    return Text.assemble(
        (datetime_text(event["at"]), "dim"),
        "  ",
        (f"{mark.sign} {event['type']}", mark.colour),
        f"{reason}{count}  ",
        (of, "bold"),
        (f"{slot}{job}{who}", "dim"),
    )
