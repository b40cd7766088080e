"""`everwhen import`: print another scheduler's file as an everwhen.yaml, and what differs on standard error."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from everwhen.cli.terminal import echo, print_json, print_lines, secho
from everwhen.compat.importers import Imported
from everwhen.compat.importers.apscheduler_jobs import import_apscheduler
from everwhen.compat.importers.celery_beat import import_celery
from everwhen.compat.importers.crontab import import_crontab
from everwhen.compat.importers.ductile import import_ductile
from everwhen.compat.importers.herdctl import import_herdctl
from everwhen.compat.importers.python_text import written_as_python
from everwhen.config.problems import Report
from everwhen.config.yaml_text import read_document, written
from everwhen.errors import ConfigError

_FILE = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object with the document and the notes."
)


@click.group(name="import")
def command() -> None:
    """Make an everwhen.yaml from another scheduler's file, and list what differs.

    \b
    crontab -l | everwhen import crontab - > everwhen.yaml
    """


@command.command()
@_FILE
@click.option(
    "--system", is_flag=True, help="Read entries that name a user, as in /etc/crontab and /etc/cron.d."
)
@_JSON
def crontab(file: Path, system: bool, as_json: bool) -> None:
    """Import a crontab; with --system one whose entries name a user."""
    is_system = system or file == Path("/etc/crontab") or file.parent == Path("/etc/cron.d")
    _show(import_crontab(_text(file), is_system=is_system), file, as_json)


@command.command()
@_FILE
@_JSON
def ductile(file: Path, as_json: bool) -> None:
    """Import a configuration of Ductile."""
    folder = Path.cwd() if str(file) == "-" else file.parent
    _show(import_ductile(_document(file), lambda name: _document(folder / name)), file, as_json)


@command.command()
@_FILE
@_JSON
def herdctl(file: Path, as_json: bool) -> None:
    """Import an agent of herdctl, or a fleet with the files that it names."""
    folder = Path.cwd() if str(file) == "-" else file.resolve().parent
    _show(import_herdctl(_document(file), lambda name: _document(Path(name)), str(folder)), file, as_json)


@command.command()
@_FILE
@click.option("--app", help="Name the Celery application (-A; default: the first part of the tasks' names).")
@_JSON
def celery(file: Path, app: str | None, as_json: bool) -> None:
    """Import the beat_schedule of a Python file, which is parsed and never run."""
    _show(import_celery(_text(file), app=app), file, as_json)


@command.command()
@click.argument("scheduler", metavar="MODULE:SCHEDULER")
@click.option(
    "--python", "as_python", is_flag=True, help="Print a program that adds them with Scheduler.add."
)
@_JSON
def apscheduler(scheduler: str, as_python: bool, as_json: bool) -> None:
    """Import the jobs of a scheduler object of APScheduler 3.

    The module is imported, from this folder too; the scheduler is not started, and its job store is only read.
    """
    imported = import_apscheduler(_object(scheduler))
    if as_python and not as_json:
        echo(f"# imported from {scheduler}")
        print_lines("\n".join(written_as_python(imported.document["schedules"])))
        _show_notes(imported)
        return
    _show(imported, scheduler, as_json)


def _object(name: str) -> Any:
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise ConfigError(f'{name!r} is not of the form "module:scheduler"')
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # the user's code runs during its import
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def _document(file: Path) -> Any:
    report = Report()
    document = read_document(_text(file), str(file), report)
    report.refuse()
    return document.root


def _text(file: Path) -> str:
    try:
        if str(file) == "-":
            return sys.stdin.read()
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start})") from error


def _show(imported: Imported, file: Path | str, as_json: bool) -> None:
    if as_json:
        print_json({"document": imported.document, "notes": imported.notes})
        return
    echo(f"# imported from {file}; `everwhen config check` checks whether it is complete")
    print_lines(written(imported.document))
    _show_notes(imported)


def _show_notes(imported: Imported) -> None:
    for note in imported.notes:
        secho(f"note: {note}", err=True, fg="yellow")
