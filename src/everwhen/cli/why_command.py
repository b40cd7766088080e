"""`everwhen why SCHEDULE`: why it fired, or why not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from everwhen.cli.client import Client, path_of
from everwhen.cli.connection import reaching, schedule_argument
from everwhen.cli.instants import InstantDisplay
from everwhen.cli.marks import mark_of
from everwhen.cli.screen import Answers, Text, answering, print_text


@click.command(name="why")
@reaching
@schedule_argument()
@click.option(
    "--at",
    metavar="TIME",
    help="Explain the slot at this instant, not the last one; without an offset it is read in the schedule's zone.",
)
@answering
def command(client: Client, schedule: str, at: str | None) -> Answers:
    """Explain what happened to a slot of SCHEDULE, or will happen, and why; then show the evidence.

    \b
    everwhen why report
    everwhen why report --at 09:00                  today
    everwhen why report --at "2026-11-13 09:00"
    """
    path = path_of(schedule, "why")
    display = InstantDisplay()
    where = client.get(path)["timezone"] if at else None
    found = client.get(path, at=display.read("--at", at, where))
    yield found
    mark = mark_of(_outcome(found))
    print_text(Text(f"{mark.sign} {found['sentence']}".lstrip(), f"bold {mark.colour}".strip()))
    show, is_ahead = partial(display.text, timezone=found["timezone"]), found["fate"] == "pending"
    for fact in found["evidence"]:
        print_text(Text(f"  {_fact(fact, show, is_ahead=is_ahead)}", "dim"))


def _outcome(found: dict[str, Any]) -> str:
    """Return how the last job of the slot ended, or else what became of the slot."""
    ended = [fact["job"]["status"] for fact in found["evidence"] if "job" in fact]
    return str(ended[-1] if ended else found["fate"])


def _fact(fact: dict[str, Any], show: Callable[[str], str], *, is_ahead: bool) -> str:
    """Format one piece of evidence, in the time zone of the sentence above it; `is_ahead`: about a slot to come."""
    match fact:
        case {"job": job}:
            ended = f", ended {show(job['ended_at'])}" if job["ended_at"] else ""
            return f"job {job['id']}: attempt {job['attempt']}, {job['status']}{ended}"
        case {"event": kind, "at": at, "id": number}:
            reason = f" ({fact['reason']})" if fact.get("reason") else ""
            return f"event {number}: {kind}{reason} at {show(at)}"
        case {"transition": state, "at": at, "reason": reason}:
            return f"breaker: {state} since {show(at)} ({reason})"
        case {"scheduler": node}:
            return f"scheduler {node} was running"
        case {"revision": number, "cause": "upgraded"}:
            return f"revision {number} was in force, written by an upgrade of everwhen"
        case {"revision": number}:
            return f"revision {number} {'is' if is_ahead else 'was'} in force"
    return ", ".join(f"{key} {value}" for key, value in fact.items())
