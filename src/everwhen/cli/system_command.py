"""`everwhen system`: the state of the service, its breakers, and the switch that stops all firing."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import ApiError, Client, part
from everwhen.cli.connection import CallingGroup
from everwhen.cli.exit_codes import FAILED
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.marks import BAD, GOOD, PASSED, mark_of
from everwhen.cli.screen import (
    Answers,
    Text,
    answering,
    away,
    json_option,
    limit_of,
    print_table,
    print_text,
    seconds_between,
    span_text,
)
from everwhen.cli.terminal import echo, print_json

LATE = 5.0  # seconds of lag that an operator should see
MOST_HOLDERS = 3


@click.group(name="system", cls=CallingGroup)
def command() -> None:
    """Manage the service as a whole: status, scheduler, pause, resume, breaker."""


@command.call("status")
@tz_option
@json_option
def status(client: Client, tz: str | None, as_json: bool) -> None:
    """Show whether the service works, and what is late, held or broken. Exit code 1 when something is wrong.

    Something is wrong when no scheduler or no worker runs, a slot is late, the broker does not answer, the disk is
    nearly full, a clock differs, an open transaction delays the event feed, a circuit breaker is open, or a schedule is
    invalid or dead. A pause is not wrong.
    """
    found = client.get("/system/status/")
    if as_json:
        print_json(found)
    else:
        _Status(client, InstantDisplay(tz)).show(found)
    if found["problems"]:
        raise SystemExit(FAILED)


class _Status:
    """Prints the status of a service: instants of a schedule in its zone, all others in the viewer's."""

    def __init__(self, client: Client, display: InstantDisplay) -> None:
        self._client, self._display = client, display

    def show(self, found: dict[str, Any]) -> None:
        print_text(self._headline(found))
        for problem in found["problems"][0 if found["is_paused"] else 1 :]:
            print_text(Text(f"{BAD.sign} {problem}", BAD.colour))
        print_table(("", ""), self._figures(found))
        self._show_late(found["late"])
        self._show_held(found["held_slots"])
        if found["nodes"]:
            echo()
            columns = ("node", "role", "version", "heartbeat", ">clock skew", "since")
            print_table(columns, [self._node(node) for node in found["nodes"]])
        self._display.tell_zone()

    def _headline(self, found: dict[str, Any]) -> Text:
        if found["is_paused"]:
            by = f" by {found['paused_by_name']}" if found.get("paused_by_name") else ""
            text = f"paused{by} since {self._display.text(found['paused_at'])}"
            return Text(f"{PASSED.sign} {text}: nothing fires until everwhen system resume", "bold yellow")
        if found["problems"]:
            return Text(f"{BAD.sign} {found['problems'][0]}", f"bold {BAD.colour}")
        return Text(f"{GOOD.sign} alive and on time", f"bold {GOOD.colour}")

    def _figures(self, found: dict[str, Any]) -> list[tuple[str | Text, ...]]:
        queue, following = found["queue"], found["next"]
        ticked = _last_sign(found)
        sign = f"{span_text(seconds_between(ticked, None))} ago" if ticked else "never"
        rows: list[tuple[str, str | Text]] = [
            ("last sign of a scheduler", sign),
            ("lag", Text(span_text(found["lag"]), "yellow" if found["lag"] > LATE else "")),
            ("next", "nothing" if following is None else self._next(following)),
            ("jobs", f"{queue['running']:,} running, {queue['queued']:,} queued"),
            (
                "schedules",
                ", ".join(f"{count:,} {name}" for name, count in found["schedules"].items()) or "none",
            ),
            ("held", f"{found['held']:,}"),
            ("overdue", Text(f"{found['overdue']:,}", "red" if found["overdue"] else "")),
            ("breakers not closed", _breakers(found["breakers"])),
        ]
        if found["dispatch"] != "local":
            rows.append(("broker", f"{found['dispatch']}: {found['broker'] or 'answers'}"))
        if disk := found["disk"]:
            rows.append(("disk", f"{disk['free_gib']:,.1f} GiB free ({disk['free_percent']} %)"))
        backup = found["last_backup_at"]
        rows.append(("last backup", f"{self._display.text(backup)}, {away(backup)}" if backup else "never"))
        return [(Text(name, "dim"), value) for name, value in rows]

    def _show_late(self, late: list[dict[str, Any]]) -> None:
        if late:
            echo()
            rows = [
                (
                    Text(self._client.name_of(one["schedule_id"]), "bold"),
                    self._display.of(one, "due_at"),
                    away(one["due_at"]),
                )
                for one in late
            ]
            print_table(("late", "due", ""), rows)

    def _show_held(self, held: list[dict[str, Any]]) -> None:
        if held:
            echo()
            print_table(("held", "slot", "since", "reason", "by"), [self._held(one) for one in held])

    def _held(self, one: dict[str, Any]) -> tuple[str | Text, ...]:
        by = [f"{job['job_id']} ({job['status']}{_where(job)})" for job in one["by"][:MOST_HOLDERS]]
        more = len(one["by"]) - len(by)
        names = "\n".join([*by, *([f"and {more} more"] if more > 0 else [])])
        return (
            Text(self._client.name_of(one["schedule_id"]), "bold"),
            self._display.of(one, "slot_at"),
            away(one["since"]),
            one["reason"],
            names,
        )

    def _next(self, following: dict[str, Any]) -> str:
        name = self._client.name_of(following["schedule_id"])
        return f"{name} {away(following['next_run_at'])} ({self._display.of(following, 'next_run_at')})"

    def _node(self, node: dict[str, Any]) -> tuple[str | Text, ...]:
        ended = "stopped" if node["stopped_at"] else "lost" if node["lost_at"] else "silent"
        beat = away(node["heartbeat_at"]) if node["is_alive"] else ended
        is_unfit = node["is_alive"] and node["unfit"] is not None
        beat = f"unfit: {node['unfit']}" if is_unfit else beat
        style = "red" if is_unfit else "" if node["is_alive"] else "dim" if node["stopped_at"] else "red"
        skew = Text(f"{node['clock_skew']:+.3f}s", "yellow" if abs(node["clock_skew"]) > 2 else "")
        since = self._display.text(node["started_at"])
        return Text(node["id"], style), node["role"], node["version"], beat, skew, since


def _where(job: dict[str, Any]) -> str:
    since = f" since {away(job['started_at']).removesuffix(' ago')}" if job["started_at"] else ""
    return f" on {job['node']}{since}" if job["node"] else since


def _last_sign(found: dict[str, Any]) -> str | None:
    """Return the last check of this service's own loop, if it has one, else the last heartbeat of a scheduler."""
    beats = [node["heartbeat_at"] for node in found["nodes"] if node["role"] in ("up", "scheduler")]
    return found["last_check_at"] or max(beats, default=None)


def _breakers(found: list[dict[str, Any]]) -> str | Text:
    if not found:
        return "none"
    return Text(", ".join(f"{one['key']} {one['state']} {away(one['opened_at'])}" for one in found), "red")


@command.call("scheduler")
@tz_option
@answering
def scheduler(client: Client, tz: str | None) -> Answers:
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
    display = InstantDisplay(tz)
    print_table(
        ("", ""), [(Text(name, "dim"), _shown(name, value, display)) for name, value in fields.items()]
    )
    display.tell_zone()


def _shown(name: str, value: Any, display: InstantDisplay) -> str:
    if name.endswith("_at"):
        return f"{display.text(value)}  {away(value)}"
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
@tz_option
@answering
def breaker(
    client: Client, plugin: str, name: str | None, limit: int, reset: bool, tz: str | None
) -> Answers:
    """Show the circuit breaker of a PLUGIN, and its history.

    PLUGIN may also be an agent, a workflow or a schedule.
    """
    found = [_one(client, key, limit, reset) for key in _keys(client, plugin, name)]
    yield found
    display = InstantDisplay(tz)
    for one in found:
        _show_breaker(one, display)
    display.tell_zone()


def _keys(client: Client, plugin: str, name: str | None) -> list[str]:
    if name is not None:
        return [f"{plugin}:{name}"]
    known = [one["key"] for one in client.get("/breakers/")["items"]]
    names = (plugin, client.schedule_id(plugin))
    of_plugin = [key for key in known if key in names or key.startswith(f"{plugin}:")]
    if not of_plugin:
        others = ", ".join(known) or "none"
        raise ApiError(404, f'no breaker of "{plugin}" has counted a failure; breakers that have: {others}')
    return of_plugin


def _one(client: Client, key: str, limit: int, reset: bool) -> dict[str, Any]:
    if reset:
        client.post(f"/breakers/{part(key)}/reset/")
    found: dict[str, Any] = client.get(f"/breakers/{part(key)}/", limit=limit)
    return found


def _show_breaker(one: dict[str, Any], display: InstantDisplay) -> None:
    since = f" since {display.text(one['opened_at'])}" if one["opened_at"] else ""
    failures = f", {one['failure_count']} failures in a row" if one["failure_count"] else ""
    mark = mark_of(one["state"])
    state = (one["state"], mark.colour)
    print_text(
        Text.assemble((f"{mark.sign} ", mark.colour), (one["key"], "bold"), "  ", state, f"{since}{failures}")
    )
    rows = [
        (display.text(t["at"]), f"{t['from_state']} → {t['to_state']}", t["reason"], t["job_id"] or "")
        for t in one["transitions"]
    ]
    print_table(("when", "change", "reason", "job"), rows, empty="  it has never changed")
