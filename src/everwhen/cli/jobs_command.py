"""`everwhen jobs`: list jobs, show their output, cancel and repeat them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import click

from everwhen.cli.client import ApiError, Client, part, path_of
from everwhen.cli.connection import CallingGroup, complete_schedule, schedule_option
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.marks import mark_of, marked
from everwhen.cli.screen import (
    Answers,
    Text,
    answering,
    from_option,
    json_option,
    limit_option,
    print_fields,
    print_firing,
    print_table,
    seconds_between,
    span_text,
    status_text,
    until_interrupted,
    word_option,
)
from everwhen.cli.terminal import OutputText, echo, has_reader, print_bytes, print_json, print_lines, secho
from everwhen.model.job import JobStatus, Origin
from everwhen.model.outcome import with_type

LOOK_EVERY = 0.5
_JOB_ID = re.compile(r"sched-.+-n\d+-rc\d+")


@click.group(name="jobs", cls=CallingGroup)
def command() -> None:
    """Manage jobs: list, show, logs, cancel, rerun."""


def _path(job: str, *more: str) -> str:
    return "/".join(("/jobs", part(job), *more, ""))


@command.call("list")
@schedule_option("List only jobs of this schedule.")
@click.option("--group", help="List only jobs of this plugin, agent or workflow.")
@word_option("--status", get_args(JobStatus), "List only jobs of this status")
@word_option("--origin", get_args(Origin), "List only jobs of this origin")
@from_option(
    "List only slots from this instant on; without an offset it is read in the zone of --schedule, or of --tz."
)
@click.option("--to", "end", metavar="TIME", help="List only slots before this instant.")
@tz_option
@limit_option
@answering
def list_(
    client: Client, start: str | None, end: str | None, tz: str | None, limit: int, **filters: str | None
) -> Answers:
    """List jobs, newest first."""
    display, where = InstantDisplay(tz), None
    if filters["schedule_id"] is not None:
        filters["schedule_id"] = client.schedule_id(filters["schedule_id"])
        where = client.zone_of(filters["schedule_id"]) if start or end else None
    span = {"from": display.read("--from", start, where), "to": display.read("--to", end, where)}
    found = list(client.pages("/jobs/", limit, **filters, **span))
    if not found and filters["schedule_id"] is not None:
        client.get(f"/schedules/{part(filters['schedule_id'])}/")  # refuse a schedule that does not exist
    yield found
    columns = ("job", "schedule", "slot", "status", "origin", ">took", "")
    print_table(columns, [_row(client, one, display) for one in found], empty="no jobs")
    display.tell_zone()


def _row(client: Client, one: dict[str, Any], display: InstantDisplay) -> tuple[str | Text, ...]:
    said = _error_of(one) or one["reason"] or one["result"] or ""
    return (
        Text(one["id"], "dim"),
        Text(client.label_of(one), "bold"),
        display.of(one, "slot_at"),
        status_text(one["status"]),
        one["origin"],
        span_text(seconds_between(one["started_at"], one["ended_at"])) if one["started_at"] else "",
        Text(said.strip().partition("\n")[0][:80], "red" if one["error"] else "dim"),
    )


def _error_of(job: dict[str, Any]) -> str:
    """Return the error of a job without its traceback."""
    return with_type(job["error_message"] or "", job["error_type"])


@command.call("show")
@click.argument("job")
@answering
def show(client: Client, job: str) -> Answers:
    """Show one job."""
    one = client.get(_path(job))
    yield one
    print_fields(one, partial(InstantDisplay().of, one))


@command.call("logs")
@click.argument("job", metavar="JOB|SCHEDULE", shell_complete=complete_schedule)
@click.option("-f", "--follow", is_flag=True, help="Print what is added until the job has ended.")
@click.option("--raw", is_flag=True, help="Print the bytes unchanged, including control characters.")
@json_option
def logs(client: Client, job: str, follow: bool, raw: bool, as_json: bool) -> None:
    """Print the output of a job. The name of a schedule means its newest job, which is followed until it ends.

    Of the control characters, a terminal gets colours, line breaks and tabs; the others are escaped.

    \b
    everwhen jobs logs report
    everwhen jobs logs -f sched-8d1f3a2b9c04-n12-rc0
    """
    job, is_newest = _job_meant(client, job)
    if as_json:
        if raw:
            raise click.UsageError("--raw and --json exclude each other; give one of them")
        print_json(client.get(_path(job, "log")))
        return
    write = _print_raw if raw else _Pieces()
    try:
        with until_interrupted():
            if follow or is_newest:
                has_output = _follow(client, job, write)
                if is_newest:
                    _tell_end(client, job, has_output=has_output)
            else:
                write(client.text(_path(job, "log")), err=False)
    finally:
        if isinstance(write, _Pieces):
            write.close()


def _job_meant(client: Client, text: str) -> tuple[str, bool]:
    """Return the id of a job, or of the newest job of the schedule that is named; and whether it is the latter."""
    if _JOB_ID.match(text):
        return text, False
    schedule_id = client.schedule_id(text)
    found = client.get("/jobs/", schedule_id=schedule_id, limit=1)["items"]
    if not found:
        client.get(path_of(schedule_id))  # refuse a schedule that does not exist
        raise ApiError(404, f"{text} has not run yet; run it now with: everwhen schedules trigger {text}")
    secho(
        f"job {found[0]['id']} of {client.label_of(found[0])}, slot {InstantDisplay().of(found[0], 'slot_at')}",
        err=True,
        dim=True,
    )
    return str(found[0]["id"]), True


def _print_raw(text: str, *, err: bool) -> None:
    print_bytes(text.encode(errors="surrogatepass"), err=err)


class _Pieces:
    """Writes pieces of output, each to its own stream: stdout or stderr."""

    def __init__(self) -> None:
        self._streams = {err: OutputText(err=err) for err in (False, True)}

    def __call__(self, text: str, *, err: bool) -> None:
        self._streams[err].write(text)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()


def _tell_end(client: Client, job: str, *, has_output: bool) -> None:
    """Print how the job ended on stderr, with its result or error where it printed nothing."""
    one = client.get(_path(job))
    said = "" if has_output else one["error"] or one["result"] or "it printed nothing"
    line = marked(one["status"], f"{one['status']}: {said.strip()}" if said else None)
    print_lines(line, err=True, fg=mark_of(one["status"]).colour or None)


def _follow(client: Client, job: str, write: Callable[..., None]) -> bool:
    """Print the output until the job has ended; return whether there was any."""
    pause, after, has_output = threading.Event(), None, False
    while True:
        found = client.get(_path(job, "log"), after=after)
        for piece in found["items"]:
            write(piece["text"], err=piece["stream"] == "stderr")
            has_output = True
        after = found["next_after"] or None
        if found["is_over"] or not has_reader():
            return has_output
        pause.wait(LOOK_EVERY)


@command.call("cancel")
@click.argument("jobs", nargs=-1, required=True)
@answering
def cancel(client: Client, jobs: tuple[str, ...]) -> Answers:
    """Cancel jobs. A queued one ends at once; a running one gets SIGTERM and, 5 s later, SIGKILL."""
    found = [client.post(_path(job, "cancel")) for job in jobs]
    yield found if len(found) > 1 else found[0]
    for one in found:
        echo(f"{one['id']}: {one['status']}")


@command.call("rerun")
@click.argument("job")
@answering
def rerun(client: Client, job: str) -> Answers:
    """Run an ended job again, with the same slot and payload, by the current definition of its schedule."""
    found = client.post(_path(job, "rerun"))
    yield found
    print_firing(found)
