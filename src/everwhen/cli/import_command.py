"""`everwhen import`: print another scheduler's file as an everwhen.yaml, and what differs on standard error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from everwhen.cli.screen import Answers, ProgressBar, answering
from everwhen.cli.terminal import SentenceGroup, echo, print_lines, secho
from everwhen.compat.importers import Imported, written_as_python
from everwhen.compat.importers.apscheduler_program import read_program
from everwhen.compat.importers.celery_beat import import_celery
from everwhen.compat.importers.crontab import import_crontab
from everwhen.compat.importers.ductile import import_ductile
from everwhen.compat.importers.herdctl import import_herdctl
from everwhen.config.files import read_text, real_path
from everwhen.config.problems import Report
from everwhen.config.yaml_text import MOST_BYTES, read_document, written
from everwhen.errors import ConfigError

_FILE = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))


@click.group(name="import", cls=SentenceGroup)
def command() -> None:
    """Make an everwhen.yaml from another scheduler's file, and list what differs; --json prints both as one object.

    \b
    crontab -l | everwhen import crontab - > everwhen.yaml
    """


@command.command()
@_FILE
@click.option(
    "--system", is_flag=True, help="Read entries that name a user, as in /etc/crontab and /etc/cron.d."
)
@answering
def crontab(file: Path, system: bool) -> Answers:
    """Import a crontab; with --system one whose entries name a user."""
    is_system = system or file == Path("/etc/crontab") or file.parent == Path("/etc/cron.d")
    return _show_imported(import_crontab(_text(file), is_system=is_system), file)


@command.command()
@_FILE
@answering
def ductile(file: Path) -> Answers:
    """Import a configuration of Ductile."""
    folder = Path.cwd() if str(file) == "-" else file.parent
    return _show_imported(import_ductile(_document(file), lambda name: _included(folder / name)), file)


@command.command()
@_FILE
@answering
def herdctl(file: Path) -> Answers:
    """Import an agent of herdctl, or a fleet with the files that it names."""
    folder = Path.cwd() if str(file) == "-" else real_path(file).parent
    return _show_imported(
        import_herdctl(_document(file), lambda name: _included(Path(name)), str(folder)), file
    )


@command.command()
@_FILE
@click.option("--app", help="Name the Celery application (-A; default: the first part of the tasks' names).")
@answering
def celery(file: Path, app: str | None) -> Answers:
    """Import the beat_schedule of a Python file, which is parsed and never run."""
    return _show_imported(import_celery(_text(file), app=app), file)


@command.command()
@click.argument("scheduler", metavar="MODULE:SCHEDULER")
@click.option(
    "--python", "as_python", is_flag=True, help="Print a program that adds them with Scheduler.add."
)
@answering
def apscheduler(scheduler: str, as_python: bool) -> Answers:
    """Import the jobs of a scheduler object of APScheduler 3.

    The module is imported, from this folder too, in a process of its own in which no scheduler and no server starts;
    its job store is only read.
    """
    imported = read_program(scheduler)
    if not as_python:
        yield from _show_imported(imported, scheduler)
        return
    yield {"document": imported.document, "notes": imported.notes}
    echo(f"# imported from {scheduler}")
    service = imported.document.get("service", {})
    lines = written_as_python(imported.document["schedules"], service.get("timezone"))
    print_lines("\n".join(lines))
    _show_notes(imported)


def _document(file: Path) -> Any:
    return _parse(_text(file), file)


def _included(file: Path) -> Any:
    return _parse(_text(file, is_included=True), file)


def _parse(text: str, file: Path) -> Any:
    report = Report()
    document = read_document(text, str(file), report)
    report.refuse()
    return document.root


def _text(file: Path, *, is_included: bool = False) -> str:
    try:
        return (
            read_text(file, is_included=is_included) if is_included or str(file) != "-" else _standard_input()
        )
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def _standard_input() -> str:
    content = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"is larger than {MOST_BYTES >> 20} MiB; split it")
    return content.decode()


def _show_imported(imported: Imported, source: Path | str) -> Answers:
    yield {"document": imported.document, "notes": imported.notes}
    echo(f"# imported from {source}; `everwhen config check` checks whether it is complete")
    with ProgressBar("importing") as bar:
        text = written(imported.document, bar.show)
    print_lines(text)
    _show_notes(imported)


def _show_notes(imported: Imported) -> None:
    for note in imported.notes:
        secho(f"note: {note}", err=True, fg="yellow")
