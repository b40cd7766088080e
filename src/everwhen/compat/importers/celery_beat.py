"""The `beat_schedule` of a Celery application, read from its source and never imported.

Only literals are supported: names, calls and computed values are noted with their line. A schedule sends its task as
Beat does, through `celery call`, so that workers and tasks stay unchanged.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from everwhen.compat.importers import Imported, Names
from everwhen.errors import ConfigError, SchedulerError, shown
from everwhen.targets.secrets import escape_references
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import bits, parse_cron

_SCHEDULES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")
_CRON = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LARGEST = 10**15  # of a factor
_TASK = ("task", "schedule", "args", "kwargs", "options", "relative")


class _UnreadableError(Exception):
    """A value that is not a literal."""


def import_celery(source: str, *, app: str | None = None) -> Imported:
    """Import the entries of every beat_schedule in a Python file."""
    try:
        tree = ast.parse(source)
    except MemoryError as error:  # of the parser's stack
        raise ConfigError("this is not valid Python: it is nested too deep") from error
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConfigError(f"this is not valid Python: {error}") from error
    imported = Imported({"schedules": []})
    settings = _settings(tree)
    timezone = _timezone(settings, imported)
    names = Names()
    for _, value in [pair for pair in settings if pair[0] in _SCHEDULES]:
        for key, entry in _entries(value, imported):
            schedule = _schedule(key, entry, timezone, app, imported)
            if schedule is not None:
                imported.add_schedule({"id": names.take(key, "task"), **schedule})
    periodic = _periodic_tasks(tree)
    for call in periodic:
        imported.note(
            f"line {call.lineno}: left out, {_source(call)} is computed when the application runs;"
            " write it as an entry of beat_schedule, or as a schedule by hand"
        )
    if not periodic and not any(name in _SCHEDULES for name, _ in settings):
        raise ConfigError("this file sets no beat_schedule; name the file that does")
    imported.document = escape_references(imported.document)
    if imported.document["schedules"]:
        imported.note(
            "a run succeeds when its task was sent, not when it was done; a python target has its outcome"
        )
    return imported


def _settings(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """Return every assignment to a name or attribute, every keyword of a `conf.update(…)`, and mappings of settings."""
    found: list[tuple[str, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found += [_assigned(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            found.append((_name(node.target), node.value))
        elif isinstance(node, ast.Call) and _name(node.func) == "update":
            found += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
            owner = _name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            found += [(owner, value) for value in node.args if owner in _SCHEDULES]
        if isinstance(node, ast.Dict | ast.Call):  # CELERY = {"beat_schedule": …}, dict(beat_schedule=…)
            items = _items(node)
            if any(name in _SCHEDULES for name, _ in items):
                found += [(name, value) for name, value in items if name is not None]
    return found


def _assigned(target: ast.expr, value: ast.expr) -> tuple[str, ast.expr]:
    """Return a setting and its value; `beat_schedule["poll"] = …` sets one entry."""
    if isinstance(target, ast.Subscript) and _name(target.value) in _SCHEDULES:
        return _name(target.value), ast.copy_location(ast.Dict([target.slice], [value]), value)
    return _name(target), value


def _periodic_tasks(tree: ast.Module) -> list[ast.Call]:
    """Return the calls by which an application adds tasks while it starts (`add_periodic_task`)."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if _name(call.func) == "add_periodic_task"]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.id if isinstance(node, ast.Name) else ""


def _timezone(settings: list[tuple[str, ast.expr]], imported: Imported) -> str:
    for name, value in settings:
        if name in _ZONES:
            try:
                return zone(_literal(value)).name
            except (_UnreadableError, SchedulerError):
                imported.note(f"line {value.lineno}: {name} is not a zone that can be read here; UTC is used")
    return "UTC"


def _entries(value: ast.expr, imported: Imported) -> list[tuple[str, dict[str, ast.expr]]]:
    found: list[tuple[str, dict[str, ast.expr]]] = []
    if not isinstance(value, ast.Dict):
        imported.note(f"line {value.lineno}: beat_schedule is computed; only a literal mapping can be read")
        return found
    for key, entry in zip(value.keys, value.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(entry, ast.Dict):
            imported.note(f"line {entry.lineno}: left out, the entry is computed; only literals can be read")
            continue
        keys = {
            str(name.value): item
            for name, item in zip(entry.keys, entry.values, strict=True)
            if isinstance(name, ast.Constant)
        }
        found.append((str(key.value), keys))
    return found


def _schedule(
    key: str, entry: dict[str, ast.expr], timezone: str, app: str | None, imported: Imported
) -> dict[str, Any] | None:
    try:
        task = str(_literal(entry["task"]))
        trigger = _trigger(key, entry["schedule"], timezone, imported)
        command = _command(key, task, entry, app, imported)
    except KeyError as error:
        imported.note(f"{key}: left out, it has no {error.args[0]}")
        return None
    except (_UnreadableError, SchedulerError, TypeError, ValueError, OverflowError) as error:
        imported.note(f"{key}: left out: {error}")
        return None
    imported.note_others(entry, _TASK, f"{key}.")
    return trigger | {"if_running": "allow", "run": {"command": command}}


def _trigger(key: str, node: ast.expr, timezone: str, imported: Imported) -> dict[str, Any]:
    kind = _name(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and kind == "crontab":
        return _crontab(key, node, imported) | {"timezone": timezone}
    if isinstance(node, ast.Call) and kind in ("schedule", "maybe_schedule"):
        named = next((k.value for k in node.keywords if k.arg == "run_every"), None)
        inner = node.args[0] if node.args else named
        if inner is not None:
            return _trigger(key, inner, timezone, imported)
    if kind == "solar":
        raise _UnreadableError("solar: there are no solar events here; give it a time of day")
    return {"every": _duration(node), "first_run": "after_interval"}


def _duration(node: ast.expr) -> str:
    value = _literal(node)
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise _UnreadableError(
            f"line {node.lineno}: {_source(node)} is not a number of seconds, a timedelta or a crontab"
        )
    if seconds != int(seconds) or seconds <= 0:
        raise _UnreadableError(
            f"line {node.lineno}: every {seconds:g} s cannot be kept; slots are whole seconds"
        )
    return f"{int(seconds)}s"


def _crontab(key: str, call: ast.Call, imported: Imported) -> dict[str, Any]:
    fields = dict.fromkeys(_CRON, "*")
    order = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")  # the order of its arguments
    named = [(keyword.arg or "", keyword.value) for keyword in call.keywords]
    for name, value in [*zip(order, call.args, strict=False), *named]:
        if name in fields:
            fields[name] = _field(_literal(value))
        elif name != "app":
            imported.note(f"{key}: crontab({name}=…) is left out")
    keys = {"cron": " ".join(fields[name] for name in _CRON)}
    parse_cron(keys["cron"])
    both = [name for name in ("day_of_month", "day_of_week") if not fields[name].startswith("*")]
    return keys if len(both) < 2 else _both_days(key, fields, imported)


def _both_days(key: str, fields: dict[str, str], imported: Imported) -> dict[str, Any]:
    """Convert an entry with both kinds of day: Celery requires both to match, cron only one of them."""
    wanted = bits(parse_cron(f"0 0 * * {fields['day_of_week']}").days.weekdays)
    days = [name for number, name in enumerate(_WEEKDAYS) if number not in wanted]
    imported.note(
        f"{key}: day_of_month and day_of_week must both match; the other weekdays are left out by not_on"
    )
    fields = fields | {"day_of_week": "*"}
    return {"cron": " ".join(fields[name] for name in _CRON), "not_on": days}


def _field(value: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted({_field(item) for item in value}, key=lambda text: (len(text), text)))
    text = str(value).replace(" ", "")
    for name in ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"):
        text = text.lower().replace(name, name[:3])
    return text


def _command(
    key: str, task: str, entry: dict[str, ast.expr], app: str | None, imported: Imported
) -> list[str]:
    if task.startswith("-"):
        raise _UnreadableError(f'its task "{shown(task)}" would be an option of celery')
    command = ["celery", "-A", app or task.partition(".")[0], "call", task]
    for name in ("args", "kwargs"):
        if name in entry and (value := _literal(entry[name])):
            command += [f"--{name}", json.dumps(list(value) if name == "args" else dict(value))]
    for name, value in _options(key, entry.get("options"), imported):
        text = f"{value.total_seconds():g}" if isinstance(value, timedelta) else str(value)
        is_option = text.startswith("-")
        if name in ("queue", "expires", "exchange", "routing_key", "countdown") and not is_option:
            command += [f"--{name.replace('_', '-')}", text]
        else:
            imported.note(f"{key}: options.{name} is left out")
    return command


def _options(key: str, node: ast.expr | None, imported: Imported) -> Iterator[tuple[str, Any]]:
    """Yield the options of a task; one that is computed is left out."""
    for name, value in [] if node is None else _items(node):
        option = "options" if name is None else f"options.{name}"
        try:
            if name is None:
                raise _computed(value)
            if (option_value := _literal(value)) is not None:
                yield name, option_value
        except (_UnreadableError, TypeError, ValueError) as error:
            imported.note(f"{key}: {option} is left out: {error}")


def _items(node: ast.expr) -> list[tuple[str | None, ast.expr]]:
    """Return the keys and values of a mapping that is written out; a part of it that is computed has no key."""
    if isinstance(node, ast.Dict):
        return [
            (str(name.value) if isinstance(name, ast.Constant) else None, value)
            for name, value in zip(node.keys, node.values, strict=True)
        ]
    if isinstance(node, ast.Call) and _name(node.func) == "dict" and not node.args:
        return [(keyword.arg, keyword.value) for keyword in node.keywords]
    return [(None, node)]


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal; a timedelta of literals counts as one."""
    if isinstance(node, ast.Call) and _name(node.func) == "timedelta":
        units = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
        keys = dict(zip(units, map(_literal, node.args), strict=False))
        keys |= {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}
        return timedelta(**keys)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _product(node, _literal(node.left), _literal(node.right))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise _computed(node) from None


def _product(node: ast.BinOp, left: Any, right: Any) -> Any:
    """Multiply numbers and spans of time; not texts and lists, and nothing that has no end."""
    for factor in (left, right):
        if not isinstance(factor, int | float | timedelta) or (
            isinstance(factor, int) and abs(factor) > _LARGEST
        ):
            raise _computed(node)
    return left * right


def _computed(node: ast.expr) -> _UnreadableError:
    return _UnreadableError(f"line {node.lineno}: {_source(node)} is computed; only literals can be read")


def _source(node: ast.expr) -> str:
    """Return an expression as notes show it: its beginning."""
    try:
        return shown(ast.unparse(node))
    except (RecursionError, ValueError):  # nested deep; a number with too many digits
        return "what stands there"
