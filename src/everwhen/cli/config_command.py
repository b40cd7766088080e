"""`everwhen config`: check the file, show it, compare it with the database, reload it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from everwhen.cli.configuration import (
    config_option,
    database_option,
    opened,
    refusals,
    show_warnings,
    this_host,
)
from everwhen.cli.reloader import spelled
from everwhen.cli.terminal import echo, print_json, print_lines, secho, styled
from everwhen.config.problems import Place, Problem, Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.config.schema import json_schema
from everwhen.config.show import effective
from everwhen.config.yaml_text import written
from everwhen.model.declare import Declarations
from everwhen.model.instants import SECOND
from everwhen.operations.apply import KeyChange, changed_sections
from everwhen.operations.apply import reload as reload_operation
from everwhen.operations.diff import ScheduleChange
from everwhen.operations.diff import diff as compared
from everwhen.timetable.civil_time import Zone, zone


@click.group(name="config")
def command() -> None:
    """Check the configuration file, show it, compare it with what runs, reload it."""


@command.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def check(path: Path, as_json: bool) -> None:
    """List every mistake in the file with its line; exit code 1 when there is one."""
    report = Report()
    configuration = examine(path, this_host(), report)
    if not report.errors:
        for fault in refusals(configuration):
            report.add(Place(str(path), 0), (), fault)
    count = len(configuration.declared.schedules)
    if as_json:
        _show_json(report, count)
    else:
        _show_text(path, report, count)
    if report.errors:
        raise SystemExit(1)


def _show_json(report: Report, count: int) -> None:
    answer = {
        "valid": not report.errors,
        "schedules": count,
        "errors": [_words(problem) for problem in report.errors],
        "warnings": [_words(problem) for problem in report.warnings],
    }
    print_json(answer)


def _words(problem: Problem) -> dict[str, object]:
    place = problem.place
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "path": problem.path,
        "message": problem.message,
    }


def _show_text(path: Path, report: Report, count: int) -> None:
    show_warnings(report.warnings)
    errors = report.errors
    for problem in errors:
        echo(str(problem))
    if errors:
        secho(f"{path}: {_counted(len(errors), 'mistake')}", err=True, fg="red")
    else:
        secho(f"{path}: valid, {_counted(count, 'schedule')}", err=True, fg="green")


def _counted(count: int, noun: str, nouns: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


@command.command()
def schema() -> None:
    """Print a JSON Schema of the file, for editors."""
    print_json(json_schema())


@command.command()
@config_option
@database_option
@click.option("--yes", is_flag=True, help="Remove schedules even when they are more than half of all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def reload(path: Path, database: str | None, yes: bool, as_json: bool) -> None:
    """Load the file as it is now. A running service applies it at once.

    A file with mistakes is refused as a whole, and the old configuration stays in force.
    """
    configuration: list[Configuration] = []

    def read() -> Declarations:
        configuration.append(read_configuration(path, this_host()))
        return configuration[0].declared

    with opened(path, database) as runtime:
        applied = reload_operation(runtime, read, actor="config reload", may_remove_most=yes)
    show_warnings(configuration[0].warnings)
    if as_json:
        print_json(asdict(applied))
    else:
        secho(f"reloaded: {spelled(applied)}", err=True, bold=True)


@command.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of YAML.")
def show(path: Path, as_json: bool) -> None:
    """Print the configuration as it takes effect: one file, defaults filled in, secrets as references."""
    host = this_host()
    found = effective(read_configuration(path, host).files, host.environ)
    print_json(found) if as_json else print_lines(written(found))


@command.command()
@config_option
@database_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def diff(path: Path, database: str | None, as_json: bool) -> None:
    """Show what a reload would change, and which firings of the next 7 days move, vanish or appear.

    Exit code 0: nothing; 1: the file is invalid; 3: something.
    """
    configuration = read_configuration(path, this_host())
    with opened(path, database, may_create=False) as runtime:
        changes = compared(runtime, configuration.declared)
        sections = changed_sections(runtime, configuration.declared)
    if as_json:
        fields = {
            "changes": [changes_to_json(one) for one in changes],
            "sections": [asdict(one) for one in sections],
        }
        print_json(fields)
    else:
        show_diff(changes)
        show_sections(sections)
        others = f", and {_counted(len(sections), 'other entry', 'other entries')}" if sections else ""
        secho(_counted(len(changes), "schedule") + f"{others} would change", err=True, bold=True)
    if changes or sections:
        raise SystemExit(3)


# The output of `everwhen config diff`: changes as lines and as JSON.


FEW = 3
_SIGNS = {"created": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


def show_diff(changes: Iterable[ScheduleChange]) -> None:
    for change in changes:
        sign, colour = _SIGNS[change.what]
        where = f"  {change.place}" if change.place else ""
        echo(styled(f"{sign} {change.schedule_id}", fg=colour, bold=True), styled(where, dim=True))
        if change.what == "changed":
            for key in change.keys:
                echo(f"    {_key(key)}")
        for line in _firings(change):
            echo(f"    {line}")


def show_sections(changes: Iterable[KeyChange]) -> None:
    """Print the changes of other sections than the schedules, entry by entry."""
    for change in changes:
        what = "created" if change.before is None else "removed" if change.after is None else "changed"
        sign, colour = _SIGNS[what]
        echo(styled(f"{sign} {change.key}", fg=colour, bold=True))
        for word, value in (("was", change.before), ("is", change.after)):
            if value is not None:
                echo(f"    {word} {value}")


def _key(change: KeyChange) -> str:
    return f"{change.key}: {_spelled(change.key, change.before)} → {_spelled(change.key, change.after)}"


def _spelled(key: str, value: object) -> str:
    if value is None:
        return "default"
    if key == "trigger" and isinstance(value, dict):
        return " ".join(f"{name} {text}" for name, text in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _firings(change: ScheduleChange) -> list[str]:
    found, where = change.firings, zone(change.timezone)
    span = "of the next 7 days" if found.until is None else f"until {_time(found.until, where)}"
    if found.is_same:
        return [f"the firings {span} stay as they are"] if change.what == "changed" else []
    lines = []
    if found.moved:
        pairs = [f"{_time(old, where)} → {_time(new, where)}" for old, new in found.moved[:FEW]]
        lines.append(_line(len(found.moved), span, "move", pairs))
    for word, instants in (("vanish", found.vanished), ("appear", found.appeared)):
        if instants:
            lines.append(_line(len(instants), span, word, [_time(at, where) for at in instants[:FEW]]))
    return lines


def _line(count: int, span: str, word: str, shown: Sequence[str]) -> str:
    rest = ", …" if count > len(shown) else ""
    firings = "1 firing" if count == 1 else f"{count:,} firings"
    return f"{firings} {span} {word}{'s' if count == 1 else ''}: {', '.join(shown)}{rest}"


def _time(instant: int, where: Zone) -> str:
    return f"{where.datetime(instant // SECOND):%a %d %b %H:%M:%S %Z}"


def changes_to_json(change: ScheduleChange) -> dict[str, Any]:
    """Return the change as JSON, with instants in RFC 3339."""
    found = change.firings

    def instant(at: int) -> str:
        return zone("UTC").datetime(at // SECOND).strftime("%Y-%m-%dT%H:%M:%SZ")

    return {
        "schedule_id": change.schedule_id,
        "what": change.what,
        "place": change.place or None,
        "keys": [{"key": key.key, "before": key.before, "after": key.after} for key in change.keys],
        "firings": {
            "kept": found.kept,
            "moved": [[instant(old), instant(new)] for old, new in found.moved],
            "vanished": [instant(at) for at in found.vanished],
            "appeared": [instant(at) for at in found.appeared],
            "until": None if found.until is None else instant(found.until),
        },
    }
