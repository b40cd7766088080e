"""`everwhen schedules`: list, show, create, change and fire schedules."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from functools import partial
from typing import Any

import click

from everwhen.cli.client import ApiError, Client, part, path_of
from everwhen.cli.connection import (
    CallingGroup,
    KeyedCommand,
    body_options,
    schedule_argument,
    schedules_argument,
    submission,
)
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.pauses import pause_text
from everwhen.cli.screen import (
    Answers,
    ProgressBar,
    Text,
    answering,
    away,
    counted,
    from_option,
    json_option,
    limit_of,
    print_fields,
    print_firing,
    print_table,
    print_text,
    print_warnings,
    status_text,
    until,
    word_option,
)
from everwhen.cli.terminal import echo, escape_controls, print_json, secho
from everwhen.errors import SchedulerError
from everwhen.model.queries import STATUS_ALIASES

STATUSES = tuple(dict.fromkeys(STATUS_ALIASES.values()))
NO_SCHEDULES = "no schedules yet; declare some in everwhen.yaml, or: everwhen schedules create"


@click.group(name="schedules", cls=CallingGroup)
def command() -> None:
    """List, show, create, change, pause, trigger and backfill schedules.

    A SCHEDULE is named by its id, its key, or its name where only one schedule has it.
    """


# -- reading --


@command.call("list")
@word_option("--status", STATUSES, "List only schedules of this status", also=tuple(STATUS_ALIASES))
@click.option("--group", help="List only schedules of this plugin, agent or workflow.")
@click.option("--owner", help="List only schedules of this owner.")
@click.option(
    "--target",
    help="List only schedules of this target: command, http, python, message, plugin, agent, workflow.",
)
@click.option("--match", "q", metavar="TEXT", help="List only schedules whose id or name contains this text.")
@click.option("--waiting", is_flag=True, help="List only schedules that wait for approval.")
@limit_of(100)
@tz_option
@answering
def list_(client: Client, limit: int, waiting: bool, tz: str | None, **filters: str | None) -> Answers:
    """List schedules, newest first."""
    display = InstantDisplay(tz)
    found = list(client.pages("/schedules/", limit, waiting=waiting or None, **filters))
    yield found
    stopped = client.get("/upcoming/", limit=1).get("sentence")
    columns = ("schedule", "status", "when", "next", "", ">succeeded", ">failed", "last")
    print_table(columns, [_row(one, display, is_stopped=bool(stopped)) for one in found], empty=NO_SCHEDULES)
    for one in found:
        if text := pause_text(one, display):
            print_text(Text.assemble((f"{_called(one)}: ", "bold"), text))
    display.tell_zone()
    if stopped:
        echo(stopped, err=True)


def _row(one: dict[str, Any], display: InstantDisplay, *, is_stopped: bool) -> tuple[str | Text, ...]:
    held = f"held: {one['held_reason']}" if one["held_reason"] else display.of(one, "next_run_at")
    if is_stopped and one["status"] == "active":
        held = "none: the system is paused"
    distance = "" if is_stopped else away(one["next_run_at"])
    failed = Text(f"{one['error_count']:,}", "red" if one["error_count"] else "dim")
    name, status = Text(_called(one), "bold"), status_text(one["status"])
    return name, status, one["description_text"], held, distance, f"{one['run_count']:,}", failed, _last(one)


def _called(one: dict[str, Any]) -> str:
    """Return what a user would type: the key, or else the id, with the name as well when the id was generated."""
    if one["key"]:
        return str(one["key"])
    return f"{one['id']}  {one['name']}" if one["name"] and one["source"] == "api" else str(one["id"])


def _last(one: dict[str, Any]) -> Text:
    if one["running_jobs"]:
        return status_text("running", f"{one['running_jobs']} running")
    if one["last_error"] and one["last_completed_at"] != one["last_success_at"]:
        return status_text("failed", f"failed {away(one['last_completed_at'])}")
    if one["last_success_at"] is None:
        return Text()
    return status_text("succeeded", away(one["last_success_at"]))


@command.call("show")
@schedule_argument()
@answering
def show(client: Client, schedule: str) -> Answers:
    """Show one schedule: its definition, its state and its last runs."""
    one = client.get(path_of(schedule))
    yield one
    print_text(Text.assemble((_called(one), "bold"), "  ", status_text(one["status"])))
    print_text(Text(f"fires {one['description_text']} ({one['timezone']})"))
    display = InstantDisplay()
    if reason := pause_text(one, display) or one["status_reason"]:
        print_text(Text(reason, "yellow"))
    fields = {name: value for name, value in one.items() if name not in _SHOWN_OTHERWISE}
    counters = {word: one[name] for word, name in _COUNTERS.items()}
    print_fields(fields | counters, partial(display.text, timezone=one["timezone"]))


_COUNTERS = {"fired": "fire_count", "succeeded": "run_count", "failed": "error_count"}
# Shown above the table, or under another name in it.
_SHOWN_OTHERWISE = frozenset(
    (
        "id name status status_reason description_text timezone enabled type spec every cron at after target "
        "fire_count run_count error_count interval_seconds workflow_id trigger_node_id user_profile_id "
        "quiet_hours_policy_id catch_up_policy timeout_seconds trigger_payload pause"
    ).split()
)


@command.call("upcoming")
@schedule_argument(required=False)
@limit_of(20, 500)
@tz_option
@answering
def upcoming(client: Client, schedule: str | None, limit: int, tz: str | None) -> Answers:
    """List what fires next, of one SCHEDULE or of all.

    The instants include the jitter. Slots that are certain to be skipped are marked.
    """
    display = InstantDisplay(tz)
    path = "/upcoming/" if schedule is None else path_of(schedule, "upcoming")
    answer = client.get(path, limit=limit)
    yield answer["items"]
    rows = [
        (
            display.of(one, "due_at"),
            away(one["due_at"]),
            Text(client.name_of(one["schedule_id"]), "bold"),
            _prospect(one, display),
        )
        for one in answer["items"]
    ]
    print_table(("due", "", "schedule", ""), rows, empty="nothing is due")
    display.tell_zone()
    if answer.get("sentence"):
        echo(answer["sentence"], err=True)


def _prospect(one: dict[str, Any], display: InstantDisplay) -> Text:
    until = f", until {display.of(one, 'until')}" if one.get("until") else ""
    if one["skip_reason"] == "system":
        return Text("will not fire: the system is paused", "yellow")
    if one["skip_reason"]:
        return Text(f"will be skipped: {one['skip_reason']}{until}", "yellow")
    if one.get("hold_reason"):
        return Text(f"will be held: {one['hold_reason']}{until}", "yellow")
    estimate = "approximate: counted from the end of a run or a pause"
    return Text(estimate if one["is_estimate"] else "", "dim")


# -- creating and changing --


@command.call("create", cls=KeyedCommand)
@click.option(
    "--id",
    "key",
    metavar="NAME",
    help="Give the schedule this name, by which every command finds it (its key).",
)
@body_options
@answering
def create(client: Client, key: str | None, **given: Any) -> Answers:
    """Create a schedule from options, a JSON file, or both. Lists and objects are written as JSON.

    \b
    everwhen schedules create --id report --cron "0 9 * * 1-5" --run '{"http": {"url": "https://…"}}'
    """
    fields = submission(**given)
    made = client.post("/schedules/", fields) if key is None else _create_with_key(client, key, fields)
    return _show_changed([made], "created")


def _create_with_key(client: Client, key: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Create a schedule under the user's own key; refuse one that names a schedule already."""
    if "/" in key:  # the only character that would make another path of it
        raise SchedulerError(
            f'--id "{key}" is not valid: write letters, digits, ., _, : and -, beginning with a letter or digit'
        )
    taken = client.get("/find/", schedule=key)["items"] if key else []
    if any(key in (one["id"], one["key"]) for one in taken):
        raise SchedulerError(
            f'"{key}" names a schedule already; change it with: everwhen schedules update {key}'
        )
    # Another may create it in between: it is never replaced.
    path, headers = f"/schedules/key/{part(key)}/", {"if-none-match": "*"}
    made: dict[str, Any] = client.call("PUT", path, fields, None, headers).fields
    return made


@command.call("update", cls=KeyedCommand)
@schedule_argument()
@body_options
@answering
def update(client: Client, schedule: str, **given: Any) -> Answers:
    """Change keys of a SCHEDULE at once. The value null clears a key, and one trigger key replaces the trigger."""
    return _show_changed([client.patch(path_of(schedule), submission(**given))], "changed")


def _show_changed(schedules: list[dict[str, Any]], what: str) -> Answers:
    """Answer with the schedules after something was done with them."""
    yield schedules if len(schedules) > 1 else schedules[0]
    display = InstantDisplay()
    for one in schedules:
        at = one["next_run_at"]
        due = f"; next {display.of(one, 'next_run_at')}, {until(at)}" if at else ""
        status = pause_text(one, display) or f"{one['status']}{due}"
        echo(f"{what} {_called(one)}: {one['description_text']} ({status})")


# -- actions --


@command.call("pause")
@schedules_argument
@click.option("--note", help="Record the reason with the pause.")
@click.option(
    "--until",
    metavar="TIME",
    help="Resume automatically at this instant; without an offset it is read in the schedule's zone.",
)
@answering
def pause(client: Client, schedules: tuple[str, ...], note: str | None, until: str | None) -> Answers:
    """Stop firing schedules. Running jobs continue."""
    display, bodies = InstantDisplay(), {}
    for schedule in schedules:  # all are read before the first one is paused
        where = client.get(path_of(schedule))["timezone"] if until else None
        bodies[schedule] = {"note": note, "until": display.read("--until", until or None, where)}
    paused = [client.post(path_of(schedule, "pause"), body) for schedule, body in bodies.items()]
    return _show_changed(paused, "paused")


@command.call("resume")
@schedules_argument
@answering
def resume(client: Client, schedules: tuple[str, ...]) -> Answers:
    """Fire schedules again: an interval one interval from now, cron at its next match."""
    return _show_changed([client.post(path_of(schedule, "resume")) for schedule in schedules], "resumed")


@command.call("approve")
@schedule_argument()
@click.option(
    "--revision", type=click.IntRange(1), required=True, help="Name the revision that you reviewed."
)
@answering
def approve(client: Client, schedule: str, revision: int) -> Answers:
    """Approve a SCHEDULE that waits for approval.

    It is approved at the revision that you looked at; see schedules show.
    """
    return _show_changed([client.post(path_of(schedule, "approve"), {"revision": revision})], "approved")


@command.call("decline")
@schedule_argument()
@click.option("--note", help="Record the reason in the audit.")
@answering
def decline(client: Client, schedule: str, note: str | None) -> Answers:
    """Delete a SCHEDULE that waits for approval."""
    client.post(path_of(schedule, "decline"), {"note": note})
    yield {"declined": schedule}
    echo(f"declined {schedule}")


@command.call("revive")
@schedules_argument
@answering
def revive(client: Client, schedules: tuple[str, ...]) -> Answers:
    """Start dead or done schedules again, with repeats and retries at zero."""
    return _show_changed([client.post(path_of(schedule, "revive")) for schedule in schedules], "revived")


@command.call("trigger")
@schedule_argument()
@click.option("--payload", metavar="JSON", help="Override keys of the schedule's payload with these.")
@click.option(
    "--if-running",
    type=click.Choice(["skip", "queue", "cancel", "allow"]),
    help="Override the schedule's own if_running for this job.",
)
@click.option(
    "--revision", type=click.IntRange(1), help="Run this revision, or nothing if there is another one."
)
@answering
def trigger(
    client: Client, schedule: str, payload: str | None, if_running: str | None, revision: int | None
) -> Answers:
    """Run a SCHEDULE now, in addition to its slots.

    The newest revision runs, also one that waits for approval, which a warning says.
    """
    body: dict[str, Any] = {} if if_running is None else {"if_running": if_running}
    if payload is not None:
        try:
            body["payload"] = json.loads(payload)
        except ValueError as error:
            raise click.BadParameter(f"is not valid JSON: {error}", param_hint="--payload") from None
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    found = client.call("POST", path_of(schedule, "trigger"), body, headers=headers).fields
    yield found
    print_firing(found)


@command.call("backfill")
@schedule_argument()
@from_option("Start at this instant; without an offset it is read in the schedule's zone.", required=True)
@click.option("--to", "end", required=True, metavar="TIME", help="End before this instant.")
@click.option(
    "--if-running",
    type=click.Choice(["skip", "queue", "cancel", "allow"]),
    help="Override the schedule's own if_running for these jobs.",
)
@click.option("--dry-run", is_flag=True, help="Only list the slots.")
@click.option("--yes", is_flag=True, help="Fill more than 1,000 slots, in several steps.")
@answering
def backfill(
    client: Client, schedule: str, start: str, end: str, if_running: str | None, dry_run: bool, yes: bool
) -> Answers:
    """Run past slots of a schedule that have no job.

    More than 1,000 need --yes. Slots that an interrupted command has filled already are not filled again.
    """
    display, where = InstantDisplay(), client.get(path_of(schedule))["timezone"]
    body: dict[str, Any] = {
        "from": display.read("--from", start, where),
        "to": display.read("--to", end, where),
        "dry_run": dry_run,
    }
    if if_running is not None:
        body["if_running"] = if_running
    path = path_of(schedule, "backfill")
    found = _backfill_in_steps(client, path, body) if yes else client.post(path, body)
    yield found
    for slot in found["slots"]:
        echo(display.text(slot, where))
    if found["skipped"]:
        echo(f"skipped: {found['skipped']}")
    print_warnings(found)
    secho(f"{counted(found['count'], 'slot')} {'would be filled' if dry_run else 'queued'}", err=True)


def _backfill_in_steps(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Fill a long span piece by piece: a call fills at most 1,000 slots, so a piece that has more is cut in two."""
    first, last = (datetime.fromisoformat(body[key]) for key in ("from", "to"))
    pieces, total = [(first, last)], (last - first).total_seconds()
    found: dict[str, Any] = {"count": 0, "slots": [], "skipped": None, "warnings": []}
    with ProgressBar("filling") as bar:
        while pieces:
            start, end = pieces.pop()
            try:
                step = client.post(path, {**body, "from": start.isoformat(), "to": end.isoformat()})
            except ApiError as error:
                middle = start + (end - start) / 2
                if "use a shorter span" not in str(error) or (end - start).total_seconds() < 2:
                    raise
                pieces += [(middle, end), (start, middle)]  # the earlier one first
                continue
            found["count"] += step["count"]
            found["slots"] += step["slots"]
            found["skipped"] = found["skipped"] or step["skipped"]
            found["warnings"] = step.get("warnings") or found["warnings"]
            bar.show((end - first).total_seconds() / total)
    return found


@command.call("delete")
@schedules_argument
@click.option("--cancel", is_flag=True, help="Also end its running jobs.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def delete(client: Client, schedules: tuple[str, ...], cancel: bool, yes: bool, as_json: bool) -> None:
    """Delete schedules. Their records are kept until retention removes them."""
    if not yes and sys.stdin.isatty():
        click.confirm(escape_controls(f"Delete {', '.join(schedules)}?"), abort=True)
    for schedule in schedules:
        client.delete(path_of(schedule), cancel=cancel)
        if not as_json:
            echo(f"deleted {schedule}")
    if as_json:
        print_json({"deleted": list(schedules)})
