"""`everwhen audit`: the recorded events, and with -f the new ones as they come."""

from __future__ import annotations

import threading
from typing import Any

import click

from everwhen.cli.client import Client
from everwhen.cli.connection import reaching, schedule_option
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.marks import mark_of_event
from everwhen.cli.screen import (
    Text,
    from_option,
    json_option,
    limit_option,
    print_text,
    until_interrupted,
)
from everwhen.cli.terminal import has_reader, print_json, print_json_line, secho

LOOK_EVERY = 1.0
NOTHING = "no events; --schedule takes the id of a deleted schedule, and --match finds one by its key or name"
ZONES = "times of events are in {zone}, those of slots in their schedules' zones"
PORTION = 200


@click.command(name="audit")
@reaching
@schedule_option("List only events of this schedule.")
@click.option(
    "--match",
    "q",
    metavar="TEXT",
    help="List only events of schedules whose id, key or name contains this text, also of deleted ones.",
)
@click.option("--job", "job_id", help="List only events of this job.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="List only events of this type, such as schedule.skipped; may be repeated.",
)
@from_option(
    "List events from this instant on; without an offset it is read in the zone of --schedule, or of --tz."
)
@tz_option
@limit_option
@click.option(
    "-f", "--follow", is_flag=True, help="Continue until Ctrl-C; with --json print one object per line."
)
@json_option
def command(
    client: Client,
    types: tuple[str, ...],
    start: str | None,
    tz: str | None,
    limit: int,
    follow: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """List what happened, the newest last."""
    where, display = None, InstantDisplay(tz)
    if filters["schedule_id"] is not None:
        filters["schedule_id"] = client.schedule_id(filters["schedule_id"])
        where = client.zone_of(filters["schedule_id"]) if start or not as_json else None
    wanted = {**filters, "type": list(types) or None, "from": display.read("--from", start, where)}
    if follow:
        behind = client.get("/audit/", limit=1)["last_event_id"]
    found = list(client.pages("/audit/", limit, **wanted))[::-1]
    if as_json and not follow:
        print_json(found)
        return
    with until_interrupted():
        show = _EventLines(client, display, as_json, where)
        show(found)
        display.tell_zone(ZONES)
        if not found and not follow:
            secho(NOTHING, err=True)
        if follow:
            _follow(client, wanted, behind, found, show)


def _follow(
    client: Client, wanted: dict[str, Any], behind: str, printed: list[dict[str, Any]], show: _EventLines
) -> None:
    """Print the events after `behind` until Ctrl-C.

    `behind` was read before the list, so events that the list holds already may come again: those are left out.
    """
    pause = threading.Event()
    while True:
        page = client.get("/audit/", limit=PORTION, after=behind, **wanted)
        show([event for event in page["items"] if event not in printed])
        if not has_reader():
            return
        if page["last_event_id"] == behind:
            printed = []
            pause.wait(LOOK_EVERY)
        behind = page["last_event_id"]


class _EventLines:
    """Prints events, one a line. The slot that an event is about is in the schedule's zone, the event in the viewer's.

    `timezone`: of one schedule all are in its zone, in which `--from` is read.
    """

    def __init__(
        self, client: Client, display: InstantDisplay, as_json: bool, timezone: str | None = None
    ) -> None:
        self._client, self._display, self._is_json = client, display, as_json
        self._timezone = timezone

    def __call__(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            if self._is_json:
                print_json_line(event)
            else:
                print_text(self._line(event))

    def _line(self, event: dict[str, Any]) -> Text:
        reason = f" ({event['reason']})" if event["reason"] else ""
        count = f" × {event['slot_count']:,}" if event["slot_count"] > 1 else ""
        name = self._client.label_of(event) if event["schedule_id"] else ""
        slot = f"  slot {self._display.of(event, 'slot_at')}" if event["slot_at"] else ""
        job = f"  {event['job_id']}" if event["job_id"] else ""
        mark = mark_of_event(event["type"])
        return Text.assemble(
            (self._display.text(event["at"], self._timezone), "dim"),
            "  ",
            (f"{mark.sign} {event['type']}", mark.colour),
            f"{reason}{count}  ",
            (name, "bold"),
            (f"{slot}{job}{self._said(event)}", "dim"),
        )

    def _said(self, event: dict[str, Any]) -> str:
        """Return who did it, and of a pause until when and why."""
        detail = event["detail"]
        actor = event.get("actor_name") or event["actor"]
        until = self._display.text(detail["until"], event.get("timezone")) if detail.get("until") else None
        parts = (
            f"  by {actor}" if actor else "",
            f"  until {until}" if until else "",
            f"  {detail['note']}" if detail.get("note") else "",
        )
        return "".join(parts)
