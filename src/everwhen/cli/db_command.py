"""`everwhen db`: migrate the schema, check the ledger, prune old rows, vacuum, back up, restore and move the database.

Results go to stdout, progress and notes to stderr. What only one command needs is imported when that command runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from everwhen.cli.configuration import database_options, read_settings
from everwhen.cli.exit_codes import FAILED
from everwhen.cli.instants import InstantDisplay
from everwhen.cli.local import warn_of_move
from everwhen.cli.screen import Answers, ProgressBar, answering_line, counted, json_option
from everwhen.cli.terminal import SentenceGroup, echo, print_json_line, secho, styled
from everwhen.config.settings import Settings
from everwhen.errors import IntervalParseError, shown_url
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.retention import Retention
from everwhen.model.vitals import Received
from everwhen.timetable.describe import describe_seconds
from everwhen.timetable.interval import parse_seconds
from everwhen.verify.ledger import LedgerReport
from everwhen.wiring import (
    Stack,
    migrate_database,
    move_database,
    open_stack,
    restore_database,
    vacuum_database,
)

FAULTS_SHOWN = 50


@click.group(name="db", cls=SentenceGroup)
def command() -> None:
    """Maintain the database. The service may be running, except during a restore, a copy or a vacuum."""


def _on_database(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config` and `--database`, and pass the settings with that database as first argument."""

    @functools.wraps(function)
    def wrapped(path: Path, database: str | None, **options: Any) -> Any:
        settings = read_settings(path, checks_functions=False)
        return function(settings if database is None else replace(settings, database=database), **options)

    return database_options(wrapped)


@command.command()
@_on_database
@click.option(
    "--after",
    is_flag=True,
    help="Also remove what only the previous release needs; none of its processes may run any more.",
)
@answering_line
def migrate(settings: Settings, after: bool) -> Answers:
    """Migrate the schema to what this release needs.

    Every start does this by itself. Run it before an update, or to see it happen. A second run does nothing.
    """
    url = settings.database
    echo(f"migrating {shown_url(url)} …", err=True)
    done = migrate_database(url, after=after)
    yield {"database": shown_url(url), "applied": [step._asdict() for step in done]}
    for step in done:
        echo(f"applied migration {step.number} ({step.name}), step {step.step}")
    if not done:
        echo("nothing to do: the schema is up to date")


@command.command()
@_on_database
@json_option
def check(settings: Settings, as_json: bool) -> None:
    """Check that every slot is in the ledger exactly once, and that every count agrees.

    Reads one snapshot and changes nothing. Prints a sentence for each fault; exit code 1 when there is one.
    """
    from everwhen.operations.maintenance import describe_faults, prove

    with _opened(settings) as stack:
        with ProgressBar("checking") as bar:
            report = prove(stack.runtime, bar.show)
        sentences = describe_faults(stack.runtime, report.faults[:FAULTS_SHOWN])
    if as_json:
        print_json_line(_report_to_json(report))
    else:
        _tell_report(report, sentences)
    if not report.is_clean:
        raise SystemExit(FAILED)


def _age(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_seconds(value) * SECOND
    except IntervalParseError as error:
        raise click.BadParameter(str(error), context, parameter) from None


_KEPT = {
    "jobs": "jobs that have ended",
    "audit": "audit events",
    "breaker_transitions": "changes of circuit breakers",
    "messages": "messages",
    "output": "the output of jobs",
    "alerts": "alerts that are over",
    "deliveries": "messages of alerts that were sent or given up",
}


def _ages(command: Any) -> Any:
    for age in reversed([field.name for field in fields(Retention)]):
        flag, about = f"--{age.replace('_', '-')}", f"Keep {_KEPT[age]} for this long."
        command = click.option(flag, age, metavar="AGE", callback=_age, help=about)(command)
    return command


@command.command()
@_on_database
@_ages
@click.option("--dry-run", is_flag=True, help="Only count the rows that would be deleted.")
@answering_line
def prune(settings: Settings, dry_run: bool, **ages: int | None) -> Answers:
    """Delete what is older than service.retention allows, or than the ages given here (90d, 12h).

    The service does this by itself, every hour, a little at a time. Outstanding work and the last entry of every
    schedule are kept at any age.
    """
    from everwhen.operations import maintenance

    kept = replace(settings.retention, **{age: length for age, length in ages.items() if length is not None})
    word = "counting" if dry_run else "pruning"
    with _opened(settings) as stack:
        echo(f"{word} {shown_url(settings.database)} …", err=True)
        with ProgressBar(word) as bar:
            rows = maintenance.prune(stack.runtime, kept, dry_run=dry_run, progress=bar.show)
    yield {"dry_run": dry_run, "rows": rows, "total": sum(rows.values())}
    for what, count in rows.items():
        age = describe_seconds(getattr(kept, what, kept.audit) // SECOND)
        echo(f"{what:<20} {count:>12,} row{'s'[: count != 1]} older than {age}")
    echo(f"{counted(sum(rows.values()), 'row')} {'would be deleted' if dry_run else 'deleted'}")


@command.command()
@_on_database
@answering_line
def vacuum(settings: Settings) -> Answers:
    """Rewrite the file of an SQLite database without its free pages.

    A file that release 0.3 or a later one made gives its space back by itself; one of an earlier release does so from
    this command on. Stop every process first. It needs as much room as the rows of the file take, twice that where
    temporary files are on the same disk.
    """
    url = settings.database
    echo(f"rewriting {shown_url(url)} …", err=True)
    done = vacuum_database(url)
    gained = done.bytes_before - done.bytes_after
    yield {"database": shown_url(url), **done._asdict(), "bytes_gained": gained}
    echo(f"{shown_url(url)}: {done.bytes_after:,} bytes, {max(gained, 0):,} given back")
    if not done.was_incremental:
        echo("from now on the service gives space back by itself")


@command.command()
@_on_database
@click.argument("target", metavar="PATH", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
@answering_line
def backup(settings: Settings, target: Path, force: bool) -> Answers:
    """Copy the whole database to PATH: one consistent snapshot, taken while the service runs.

    Only the owner can read the copy. It holds hashes of tokens and the output of jobs. `everwhen db restore` reads
    it. A database of an earlier release is copied as it is, without migrating it.
    """
    from everwhen.operations.maintenance import back_up

    with _opened(settings, may_be_older=True) as stack, ProgressBar("copying") as bar:
        size = back_up(stack.runtime, target, may_replace=force, progress=bar.show)
    yield {"database": shown_url(settings.database), "path": str(target), "bytes": size}
    echo(f"{target}: {size:,} bytes")


@command.command()
@_on_database
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--catch-up",
    is_flag=True,
    help="Treat the time since the backup as an outage: nothing ran, and queued jobs run now.",
)
@answering_line
def restore(settings: Settings, source: Path, catch_up: bool) -> Answers:
    """Replace the whole database with a backup; on an error, leave it as it is.

    Stop every process first. Nothing that may have fired after the backup fires again, and no job id is used twice.
    """
    url = settings.database
    with ProgressBar("restoring") as bar:
        done = restore_database(url, source, catch_up=catch_up, progress=bar.show)
    values = done._asdict() | {
        "backed_up_at": _datetime_text(done.backed_up_at),
        "at": _datetime_text(done.at),
    }
    yield {"database": shown_url(url), "path": str(source), "catch_up": catch_up, **values}
    then = InstantDisplay().text(_datetime_text(done.backed_up_at))
    schedules = counted(done.schedules, "schedule")
    echo(f"restored {shown_url(url)} as it was at {then}: {schedules}")
    ended = {"outstanding jobs": done.jobs, "waiting approvals": done.approvals, "sessions": done.sessions}
    if any(ended.values()):
        echo("ended: " + ", ".join(f"{count:,} {what}" for what, count in ended.items() if count))
    echo("tokens that were revoked after the backup are valid again; see `everwhen token list`", err=True)


@command.command(name="copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--force", is_flag=True, help="Ignore an earlier copy to another address.")
@answering_line
def copy_to(source: str, target: str, force: bool) -> Answers:
    """Move an SQLite installation to an empty PostgreSQL database.

    Its history, its tokens and the state of plugins move with it. FROM is sqlite:///FILE, TO
    postgresql://USER@HOST/DATABASE. Stop every process on FROM first. Afterwards FROM is marked as moved: it can be
    read and checked, but everwhen does not start on it any more. If the command is interrupted, run it again: it
    continues where it stopped.
    """
    echo(f"copying {shown_url(source)} to {shown_url(target)} …", err=True)
    with ProgressBar("copying") as bar:
        received = move_database(source, target, is_forced=force, progress=bar.show)
    yield _received_to_json(received, source, target)
    _tell_received(received, source, target)


@contextmanager
def _opened(settings: Settings, *, may_be_older: bool = False) -> Iterator[Stack]:
    stack = open_stack(settings.database, is_existing=True, may_be_older=may_be_older)
    try:
        warn_of_move(stack)
        yield stack
    finally:
        stack.close()


# -- output --


def _report_to_json(report: LedgerReport) -> dict[str, Any]:
    names = ("is_clean", "schedules", "slots", "jobs", "fault_count", "reasons", "unjudged")
    faults = [{**fault._asdict(), "slot_at": _datetime_text(fault.slot_at)} for fault in report.faults]
    return {**{name: getattr(report, name) for name in names}, "faults": faults}


def _tell_report(report: LedgerReport, sentences: Sequence[str]) -> None:
    seen = ", ".join(
        counted(count, noun)
        for count, noun in ((report.schedules, "schedule"), (report.slots, "slot"), (report.jobs, "job"))
    )
    if report.is_clean:
        secho(
            f"{seen}: every slot has exactly one entry, every count agrees{report.unjudged_text}", fg="green"
        )
        return
    for fault, sentence in zip(report.faults, sentences, strict=False):
        echo(styled(fault.kind, fg="red"), f"  {sentence}")
    if report.fault_count > FAULTS_SHOWN:
        echo(f"… and {report.fault_count - FAULTS_SHOWN:,} more (--json shows the first thousand)")
    secho(f"{seen}: {counted(report.fault_count, 'fault')}", fg="red")


def _received_to_json(received: Received, source: str, target: str) -> dict[str, Any]:
    return {
        "from": shown_url(source),
        "to": shown_url(target),
        "is_new": received.is_new,
        "rows": dict(received.rows),
        "total": sum(received.rows.values()),
        "replaced_count": received.replaced_count,
        "replaced": [text._asdict() for text in received.replaced],
        "left_behind": list(received.foreign),
    }


def _tell_received(received: Received, source: str, target: str) -> None:
    for table, count in received.rows.items():
        echo(f"{table:<28} {count:>12,} row{'s'[: count != 1]}")
    for table, key, column in received.replaced:
        secho(f"changed: {table}, {key}: {column} had characters that PostgreSQL cannot hold", fg="yellow")
    if received.replaced_count > len(received.replaced):
        echo(f"… and {received.replaced_count - len(received.replaced):,} more")
    for table in received.foreign:
        secho(f"left behind: the table {table}, which is not everwhen's", fg="yellow")
    news = "" if received.is_new else "the copy was complete already; "
    secho(
        f"{news}{shown_url(source)} is marked as moved; set service.database to {shown_url(target)}, "
        "and start everwhen there",
        fg="green",
    )


def _datetime_text(instant: int | None) -> str | None:
    return None if instant is None else to_datetime(instant).isoformat()
