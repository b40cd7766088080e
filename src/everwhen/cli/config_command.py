"""`everwhen config`: check the file, show it, compare it with the database, reload it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from everwhen.cli.configuration import (
    config_option,
    database_options,
    opened,
    refusals,
    show_warnings,
    this_host,
)
from everwhen.cli.connection import named_service, service_options
from everwhen.cli.exit_codes import CHANGES, FAILED
from everwhen.cli.instants import InstantDisplay
from everwhen.cli.reloader import spelled
from everwhen.cli.screen import Answers, ProgressBar, answering, counted, json_option
from everwhen.cli.terminal import SentenceGroup, echo, print_json, print_lines, secho, styled
from everwhen.config.problems import Location, Problem, Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.config.schema import json_schema
from everwhen.config.show import effective
from everwhen.config.yaml_text import written
from everwhen.model.declare import Declarations
from everwhen.operations.apply import Applied, changed_sections
from everwhen.operations.apply import reload as reload_operation
from everwhen.operations.diff import diff as compared
from everwhen.views.system import diff_to_json


@click.group(name="config", cls=SentenceGroup)
def command() -> None:
    """Check the configuration file, show it, compare it with what runs, reload it."""


@command.command()
@config_option
@json_option
def check(path: Path, as_json: bool) -> None:
    """List every mistake in the file with its line; exit code 1 when there is one."""
    report = Report()
    configuration = examine(path, this_host(), report)
    if not report.errors:
        for fault in refusals(configuration):
            report.add(Location(str(path), 0), (), fault)
    count = len(configuration.declared.schedules)
    if as_json:
        errors, warnings = (list(map(_problem_to_json, found)) for found in (report.errors, report.warnings))
        print_json({"valid": not errors, "schedules": count, "errors": errors, "warnings": warnings})
    else:
        _show_report(path, report, count)
    if report.errors:
        raise SystemExit(FAILED)


def _problem_to_json(problem: Problem) -> dict[str, object]:
    return {**problem.place._asdict(), "path": problem.path, "message": problem.message}


def _show_report(path: Path, report: Report, count: int) -> None:
    show_warnings(report.warnings)
    for problem in report.errors:
        echo(str(problem))
    if report.errors:
        secho(f"{path}: {counted(len(report.errors), 'mistake')}", err=True, fg="red")
    else:
        secho(f"{path}: valid, {counted(count, 'schedule')}", err=True, fg="green")


@command.command()
def schema() -> None:
    """Print a JSON Schema of the file, for editors."""
    print_json(json_schema())


@command.command()
@service_options
@database_options
@click.option("--yes", is_flag=True, help="Remove schedules even when they are more than half of all.")
@answering
def reload(url: str | None, token: str | None, path: Path, database: str | None, yes: bool) -> Answers:
    """Load the file as it is now. A running service applies it at once.

    A file with mistakes is refused as a whole, and the old configuration stays in force. With --url the service reads
    its own file.
    """
    with named_service(url, token) as client:
        if client is not None:
            applied = Applied(
                **{key: tuple(ids) for key, ids in client.post("/config/reload/", {"yes": yes}).items()}
            )
        else:
            applied = _reload(path, database, yes=yes)
    yield asdict(applied)
    secho(f"reloaded: {spelled(applied)}", err=True, bold=True)


def _reload(path: Path, database: str | None, *, yes: bool) -> Applied:
    configuration: list[Configuration] = []

    def read() -> Declarations:
        configuration.append(read_configuration(path, this_host()))
        return configuration[0].declared

    with opened(path, database) as runtime:
        applied = reload_operation(runtime, read, actor="config reload", may_remove_most=yes)
    show_warnings(configuration[0].warnings)
    return applied


@command.command()
@config_option
@answering
def show(path: Path) -> Answers:
    """Print the configuration in effect as YAML: one file, defaults filled in, secrets as references."""
    host = this_host()
    found = effective(read_configuration(path, host).files, host.environ)
    yield found
    print_lines(written(found))


@command.command()
@service_options
@database_options
@json_option
def diff(url: str | None, token: str | None, path: Path, database: str | None, as_json: bool) -> None:
    """Show what a reload would change, and which firings of the next 7 days move, vanish or appear.

    Nothing is written. With --url the service compares its own file. Exit code 0: nothing would change; 1: the file is
    invalid; 3: something would change.
    """
    with named_service(url, token) as client:
        found = client.post("/config/diff/") if client is not None else _compared(path, database)
    changes, sections = found["items"], found["sections"]
    if as_json:
        print_json({"changes": changes, "sections": sections})
    else:
        _show_changes(changes)
        _show_sections(sections)
        others = f", and {counted(len(sections), 'other entry', 'other entries')}" if sections else ""
        secho(counted(len(changes), "schedule") + f"{others} would change", err=True, bold=True)
    if changes or sections:
        raise SystemExit(CHANGES)


def _compared(path: Path, database: str | None) -> dict[str, Any]:
    declared = read_configuration(path, this_host()).declared
    with opened(path, database, may_create=False) as runtime, ProgressBar("comparing") as bar:
        changes = compared(runtime, declared, bar.show)
        return diff_to_json(changes, changed_sections(runtime, declared))


# The output of `everwhen config diff` for people, from the answer of the API.

FEW = 3
_SIGNS = {"created": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


def _show_changes(changes: Iterable[dict[str, Any]]) -> None:
    for change in changes:
        sign, colour = _SIGNS[change["what"]]
        where = f"  {change['place']}" if change["place"] else ""
        echo(styled(f"{sign} {change['schedule_id']}", fg=colour, bold=True), styled(where, dim=True))
        if change["what"] == "changed":
            for one in change["keys"]:
                echo(
                    f"    {one['key']}: {_spelled(one['key'], one['before'])} → {_spelled(one['key'], one['after'])}"
                )
        for line in _firings(change):
            echo(f"    {line}")


def _show_sections(changes: Iterable[dict[str, Any]]) -> None:
    for change in changes:
        what = "created" if change["before"] is None else "removed" if change["after"] is None else "changed"
        sign, colour = _SIGNS[what]
        echo(styled(f"{sign} {change['key']}", fg=colour, bold=True))
        for word, value in (("was", change["before"]), ("is", change["after"])):
            if value is not None:
                echo(f"    {word} {value}")


def _spelled(key: str, value: object) -> str:
    if value is None:
        return "default"
    if key == "trigger" and isinstance(value, dict):
        return " ".join(f"{name} {text}" for name, text in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _firings(change: dict[str, Any]) -> list[str]:
    found, show = change["firings"], partial(InstantDisplay().text, timezone=change["timezone"])
    span = "of the next 7 days" if found["until"] is None else f"until {show(found['until'])}"
    if not (found["moved"] or found["vanished"] or found["appeared"]):
        return [f"the firings {span} stay as they are"] if change["what"] == "changed" else []
    lines = []
    if found["moved"]:
        pairs = [f"{show(old)} → {show(new)}" for old, new in found["moved"][:FEW]]
        lines.append(_line(len(found["moved"]), span, "move", pairs))
    for word, instants in (("vanish", found["vanished"]), ("appear", found["appeared"])):
        if instants:
            lines.append(_line(len(instants), span, word, [show(at) for at in instants[:FEW]]))
    return lines


def _line(count: int, span: str, word: str, shown: Sequence[str]) -> str:
    verb, rest = f"{word}s" if count == 1 else word, ", …" if count > len(shown) else ""
    return f"{counted(count, 'firing')} {span} {verb}: {', '.join(shown)}{rest}"
