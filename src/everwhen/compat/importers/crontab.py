"""A crontab, of a user or of the system, as general schedules.

Cron passes a line to a shell, lets runs overlap, has no time limit and uses the host's clock; the schedules do the
same. The shell gets the text that Debian's cron would give it: what everwhen would take for a reference to the
environment is escaped. Features that cannot be kept (`@reboot`, mail, the user of a system crontab) are noted with
their line, and so are entries that cron reads otherwise than they look.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from everwhen.compat.importers import Imported, Names
from everwhen.compat.importers.crontab_users import USER, names_user, seems_user
from everwhen.errors import ConfigError, SchedulerError, shown
from everwhen.targets.secrets import escape_references
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron

_SETTING = re.compile(r"""(?:(["'])(?P<quoted>\w+)\1|(?P<name>\w+))\s*=(?P<value>.*)""")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
MOST_VALUES = 200_000  # of variables, each counted with every entry that has it
_BLANK = re.compile(r"[ \t]+")
_UNTIL_PERCENT = re.compile(r"(?:\\.|[^%])*", re.DOTALL)
_NAME = "sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_TIME_FIELD = re.compile(
    rf"[*?]|[*\d][\d*/,#LW-]*|(?:{_NAME})(?:[-,](?:{_NAME}|\d+))*(?:#\d|L)?", re.IGNORECASE
)
_NOT_HANDED_ON = (
    "LOGNAME",
    "MAILTO",
    "MAILFROM",
    "SHELL",
    "CRON_TZ",
    "CONTENT_TYPE",
    "CONTENT_TRANSFER_ENCODING",
)


@dataclass(slots=True)
class _Reading:
    """The settings of the lines read so far."""

    is_system: bool
    imported: Imported
    names: Names = field(default_factory=Names)
    timezone: str = "local"
    shell: str = "/bin/sh"
    environment: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    values: int = 0
    has_users: bool = False  # although it is not read as a system crontab


def import_crontab(text: str, *, is_system: bool = False) -> Imported:
    """Import the entries of a crontab; `is_system`: of one whose entries name a user."""
    imported = Imported({"schedules": []})
    reading = _Reading(is_system, imported)
    # Not `splitlines`: what cron reads as one line, such as a comment with a form feed in it, must not become an entry.
    for number, line in enumerate(text.split("\n"), 1):
        _read(line.strip(" \t\r"), number, reading)
    imported.document = escape_references(imported.document)  # `${NAME}` is the shell's to read
    if imported.document["schedules"]:
        imported.note(
            "commands run in the directory and with the PATH of the service, not in the user's home with /usr/bin:/bin"
        )
    return imported


def _read(line: str, number: int, reading: _Reading) -> None:
    if not line:
        reading.comment = ""
        return
    if line.startswith("#"):
        reading.comment = line.lstrip("# \t")
        return
    comment, reading.comment = reading.comment, ""
    setting = _SETTING.fullmatch(line)
    if setting is not None:
        _set(setting["quoted"] or setting["name"], _unquoted(setting["value"].strip()), number, reading)
    else:
        _entry(line, number, comment, reading)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _set(name: str, value: str, number: int, reading: _Reading) -> None:
    note = reading.imported.note
    if name == "CRON_TZ":
        try:
            reading.timezone = zone(value).name
        except SchedulerError as error:
            note(f"line {number}: CRON_TZ: {error}; the host's zone is used")
            reading.timezone = "local"
    elif name == "SHELL":
        reading.shell = value
    elif name == "MAILTO":
        where = f"mail to {value}" if value else "no mail"
        note(f"line {number}: MAILTO ({where}): output is kept with each job, and nobody is sent mail")
    elif name not in _NOT_HANDED_ON:
        reading.environment[name] = value


def _entry(line: str, number: int, comment: str, reading: _Reading) -> None:
    note = reading.imported.note
    if _CONTROL.search(line):
        note(f"line {number}: left out, it has control characters: {shown(line)}")
        return
    is_silent = line.startswith("-")  # a leading minus keeps an entry out of the system's log
    fields = 1 if line.lstrip("-").startswith("@") else 5
    parts = _BLANK.split(line.lstrip("-"), fields + reading.is_system)
    if len(parts) < fields + reading.is_system + 1:
        note(f"line {number}: left out, it is not an entry: {shown(line)}")
        return
    expression, command = " ".join(parts[:fields]), parts[-1]
    if is_silent:
        note(f"line {number}: the minus that keeps it out of the log means nothing here")
    if expression.lower() == "@reboot":
        note(
            f"line {number}: left out, @reboot: nothing here runs at boot; let the service manager start {command}"
        )
        return
    try:
        parse_cron(expression)
    except SchedulerError as error:
        note(f"line {number}: left out: {error}")
        return
    user = parts[fields] if reading.is_system else None
    _note_looks(command, user, number, reading)
    reading.imported.add_schedule(
        _schedule(expression, command, user, number, comment=comment, reading=reading)
    )


def _note_looks(command: str, user: str | None, number: int, reading: _Reading) -> None:
    """Note an entry that seems to have another number of fields than it is read with."""
    note, first = reading.imported.note, command.split()[0]
    if user is not None:
        if not USER.fullmatch(user) or _TIME_FIELD.fullmatch(user):
            note(
                f"line {number}: {user} is not the name of a user; without --system, entries name none,"
                " and cron knows no seconds and no years"
            )
    elif _TIME_FIELD.fullmatch(first):
        note(
            f"line {number}: the command begins with {first}: cron reads five fields, and knows no seconds and no years"
        )
    elif not reading.has_users and (looks := _describe_user(command, reading)):
        reading.has_users = True
        note(
            f"line {number}: the command begins with {first}, which is {looks};"
            " where the entries name their users, import them with --system"
        )


def _describe_user(command: str, reading: _Reading) -> str | None:
    """Return what the first word of a command is, if it seems to be a user; None: it is a program."""
    path = reading.environment.get("PATH")
    if names_user(command, path):
        return "a user"
    return "not a program of this machine" if seems_user(command, path) else None


def _schedule(
    expression: str, command: str, user: str | None, number: int, comment: str, reading: _Reading
) -> dict[str, Any]:
    script, lines = _script_and_input(command)
    if user is not None and user != "root":
        reading.imported.note(
            f"line {number}: cron runs it as {user}; the service runs it as its own user, or through sudo -u {user}"
        )
    name = _name_of(script)
    if lines:
        reading.imported.note(
            f"line {number}: what follows % is standard input; it is piped into the command"
        )
        script = (
            f"printf %s {shlex.quote(lines)} | {{ {script}\n}}"  # on a line of its own, behind any comment
        )
    run: dict[str, Any] = {"command": [reading.shell, "-c", script]}
    if reading.environment:
        run["env"] = dict(reading.environment)
        reading.values += len(reading.environment)
        if reading.values > MOST_VALUES:
            raise ConfigError(f"line {number}: the variables of all entries are more than {MOST_VALUES:,}")
    if "HOME" in reading.environment:
        run["cwd"] = reading.environment["HOME"]
    schedule: dict[str, Any] = {"id": reading.names.take(name)}
    if comment:
        schedule["description"] = comment
    return schedule | {
        "cron": expression,
        "timezone": reading.timezone,
        "if_running": "allow",
        "timeout": 0,
        "run": run,
    }


def _script_and_input(command: str) -> tuple[str, str]:
    """Return what cron gives to the shell: the text up to the first %, and the rest as lines of standard input.

    >>> _script_and_input(r"date +\\%F%a%100\\%")
    ('date +%F', 'a\\n100%\\n')
    """
    found = _UNTIL_PERCENT.match(command)
    assert found is not None
    script = re.sub(r"\\([%\\])", r"\1", found[0]).rstrip()
    rest = command[found.end() + 1 :]
    lines = re.sub(r"\\%|%", lambda sign: "%" if len(sign[0]) == 2 else "\n", rest)
    return script, lines if not lines or lines.endswith("\n") else f"{lines}\n"


def _name_of(script: str) -> str:
    """Return the program of a command line, without the variables before it and without its folders."""
    parts = [word for word in script.split() if not re.fullmatch(r"\w+=.*", word)]
    skipped = ("cd", "&&", "sudo", "nice", "exec", "test", "[", "printf", "{", "|")
    names = [word for word in parts if word not in skipped and not word.startswith(("-", "/dev", "'", '"'))]
    return names[0].rpartition("/")[2].rpartition(".")[0] or names[0].rpartition("/")[2] if names else "job"
