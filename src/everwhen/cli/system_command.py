"""`everwhen system`: the state of the service, its breakers, and the switch that stops all firing."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import Client, RefusedError, part
from everwhen.cli.connection import CallingGroup
from everwhen.cli.screen import (
    Answers,
    Text,
    answering,
    away,
    limit_of,
    moment_text,
    print_table,
    print_text,
    seconds_between,
    span_text,
    status_text,
)
from everwhen.cli.terminal import echo
from everwhen.model.queue import RQ_CHAIN

LATE = 5.0  # seconds of lag that an operator should see


@click.group(name="system", cls=CallingGroup)
def command() -> None:
    """Manage the service as a whole: status, scheduler, pause, resume, breaker."""


@command.call("status")
@answering
def status(client: Client) -> Answers:
    """Show whether the service works, and what it does.

    That is the last tick, the lag, the next job, nodes, the queue, overdue and held slots, and open breakers.
    """
    found = client.get("/system/status/")
    yield found
    print_text(_headline(found))
    print_table(("", ""), _figures(found))
    if found["nodes"]:
        echo()
        columns = ("node", "role", "version", "heartbeat", ">clock skew", "since")
        print_table(columns, [_node(node) for node in found["nodes"]])


def _headline(found: dict[str, Any]) -> Text:
    if found["is_paused"]:
        return Text(f"paused since {moment_text(found['paused_at'])}: nothing fires", "bold yellow")
    alive = [node for node in found["nodes"] if node["is_alive"]]
    dispatch = found.get("dispatch", "local")
    if found.get("unready"):
        return Text(f"not ready: {found['unready']}", "bold red")
    if dispatch != RQ_CHAIN and not any(node["role"] in ("up", "scheduler") for node in alive):
        return Text("no scheduler is running: nothing fires; start one with everwhen up", "bold red")
    # Workers of a queue are nodes only while they run a job; only the queue knows about idle ones.
    if dispatch == "local" and not any(node["role"] in ("up", "worker") for node in alive):
        return Text("no worker is running: slots fire, and their jobs wait", "bold yellow")
    if found["lag"] > LATE or found["overdue"]:
        return Text(f"late by {span_text(found['lag'])}", "bold yellow")
    return Text("alive and on time", "bold green")


def _figures(found: dict[str, Any]) -> list[tuple[str | Text, ...]]:
    queue, following = found["queue"], found["next"]
    ticked = _last_sign(found)
    sign = f"{span_text(seconds_between(ticked, None))} ago" if ticked else "never"
    rows: list[tuple[str, str | Text]] = [
        ("last sign of a scheduler", sign),
        ("lag", Text(span_text(found["lag"]), "yellow" if found["lag"] > LATE else "")),
        ("next", "nothing" if following is None else _next(following)),
        ("jobs", f"{queue['running']:,} running, {queue['queued']:,} queued"),
        ("schedules", ", ".join(f"{count:,} {name}" for name, count in found["schedules"].items()) or "none"),
        ("held", f"{found['held']:,}"),
        ("overdue", Text(f"{found['overdue']:,}", "red" if found["overdue"] else "")),
        ("breakers not closed", _breakers(found["breakers"])),
    ]
    return [(Text(name, "dim"), value) for name, value in rows]


def _last_sign(found: dict[str, Any]) -> str | None:
    """Return the last check of this service's own loop, if it has one, else the last heartbeat of a scheduler."""
    beats = [node["heartbeat_at"] for node in found["nodes"] if node["role"] in ("up", "scheduler")]
    return found["last_check_at"] or max(beats, default=None)


def _next(following: dict[str, Any]) -> str:
    return f"{following['schedule_id']} {away(following['next_run_at'])} ({moment_text(following['next_run_at'])})"


def _breakers(found: list[dict[str, Any]]) -> str | Text:
    if not found:
        return "none"
    return Text(", ".join(f"{one['key']} {one['state']} {away(one['opened_at'])}" for one in found), "red")


def _node(node: dict[str, Any]) -> tuple[str | Text, ...]:
    ended = "stopped" if node["stopped_at"] else "lost" if node["lost_at"] else "silent"
    beat = away(node["heartbeat_at"]) if node["is_alive"] else ended
    style = "" if node["is_alive"] else "dim" if node["stopped_at"] else "red"
    skew = Text(f"{node['clock_skew']:+.3f}s", "yellow" if abs(node["clock_skew"]) > 2 else "")
    since = moment_text(node["started_at"])
    return Text(node["id"], style), node["role"], node["version"], beat, skew, since


@command.call("scheduler")
@answering
def scheduler(client: Client) -> Answers:
    """Show the loop of the service that answers.

    That is its status, its start, and its numbers of checks and firings.
    """
    found = client.get("/system/status/")
    fields = {
        name: found[name]
        for name in ("status", "started_at", "check_count", "trigger_count", "last_check_at", "lag")
    }
    yield fields
    if fields["check_count"] is None:
        echo(f"{fields['status']}; the loop is in another process, so only its service knows its counts")
        return
    print_table(("", ""), [(Text(name, "dim"), _shown(name, value)) for name, value in fields.items()])


def _shown(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return f"{moment_text(value)}  {away(value)}"
    return span_text(value) if name == "lag" else f"{value:,}" if isinstance(value, int) else str(value)


@command.call("pause")
@answering
def pause(client: Client) -> Answers:
    """Stop firing slots and claiming jobs. Running jobs continue."""
    yield client.post("/system/pause/")
    echo("paused: nothing fires until everwhen system resume")


@command.call("resume")
@answering
def resume(client: Client) -> Answers:
    """Start firing slots and claiming jobs again."""
    yield client.post("/system/resume/")
    echo("resumed")


@command.call("breaker")
@click.argument("plugin")
@click.option(
    "--command",
    "name",
    metavar="C",
    help="Show the breaker of one command of the plugin (default: all of them).",
)
@limit_of(20, 500, what="Show the last changes,")
@click.option("--reset", is_flag=True, help="Close the breaker.")
@answering
def breaker(client: Client, plugin: str, name: str | None, limit: int, reset: bool) -> Answers:
    """Show the circuit breaker of a PLUGIN, and its history.

    PLUGIN may also be an agent, a workflow or a schedule.
    """
    found = [_one(client, key, limit, reset) for key in _keys(client, plugin, name)]
    yield found
    for one in found:
        _show_breaker(one)


def _keys(client: Client, plugin: str, name: str | None) -> list[str]:
    if name is not None:
        return [f"{plugin}:{name}"]
    known = [one["key"] for one in client.get("/breakers/")["items"]]
    names = (plugin, client.schedule_id(plugin))
    of_plugin = [key for key in known if key in names or key.startswith(f"{plugin}:")]
    if not of_plugin:
        others = ", ".join(known) or "none"
        raise RefusedError(404, f'no breaker of "{plugin}" ever counted a failure; those that did: {others}')
    return of_plugin


def _one(client: Client, key: str, limit: int, reset: bool) -> dict[str, Any]:
    if reset:
        client.post(f"/breakers/{part(key)}/reset/")
    found: dict[str, Any] = client.get(f"/breakers/{part(key)}/", limit=limit)
    return found


def _show_breaker(one: dict[str, Any]) -> None:
    since = f" since {moment_text(one['opened_at'])}" if one["opened_at"] else ""
    failures = f", {one['failure_count']} failures in a row" if one["failure_count"] else ""
    print_text(Text.assemble((one["key"], "bold"), "  ", status_text(one["state"]), f"{since}{failures}"))
    rows = [
        (moment_text(t["at"]), f"{t['from_state']} → {t['to_state']}", t["reason"], t["job_id"] or "")
        for t in one["transitions"]
    ]
    print_table(("when", "change", "reason", "job"), rows, empty="  it never moved")
