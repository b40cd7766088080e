"""From what a program says about a schedule to a declaration: the words of a file, spelled in Python."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from everwhen import clock
from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.submission import SubmissionRules, read_submission
from everwhen.errors import ConfigError, TimetableError, shown
from everwhen.model.declared import Declared
from everwhen.model.kinds import NAME, NO_NAME
from everwhen.model.schedule import Target
from everwhen.operations.quiet_hours import policy_ids
from everwhen.runtime import Runtime
from everwhen.targets.python_function import UnknownFunctionError, load

ON_TRIGGER = "on_trigger"


def plain(value: Any) -> Any:
    """A value as a file would say it: durations and instants as text.

    >>> from datetime import datetime, timedelta
    >>> plain({"every": timedelta(minutes=5), "at": datetime(2026, 12, 24, 18)})
    {'every': '300s', 'at': '2026-12-24T18:00:00'}
    """
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict | Mapping):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def _duration(length: timedelta) -> str:
    seconds, rest = divmod(length, timedelta(seconds=1))
    if rest or seconds <= 0:
        raise TimetableError(f"{length!r} must be one or more whole seconds", key="duration", value=length)
    return f"{seconds}s"


def checked_name(what: str, name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(f'{what} "{shown(name)}" {NO_NAME}')
    return name


def label_of(function: Callable[..., Any]) -> str:
    """Where a function stands: `module:function`."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}:{getattr(function, '__qualname__', None) or type(function).__qualname__}"


def id_of(function: Callable[..., Any]) -> str:
    """The id of a schedule that has none: its module and its function."""
    module, _, path = label_of(function).partition(":")
    if module == "__main__":
        module = _main_name()
    fields = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{module}-{path.replace('<locals>.', '')}").strip("-_")
    return checked_name("id", fields[:100])


def _main_name() -> str:
    """What the program that was started is called: a script's file, or the module of `python -m`."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    return Path(file).stem if file else "main"


def importable_label(function: Callable[..., Any], why: str) -> str:
    """Its label, if another process finds the same function by it."""
    label = label_of(function)
    try:
        found = load(label)
    except UnknownFunctionError:
        found = None
    if found is not function:
        raise ConfigError(f"{label} cannot be imported, and {why}; move it to the top level of a module")
    return label


def function_target(label: str, name: str | None, *, isolate: bool = False) -> Target:
    """A Python function; with a name, one that programs of that name declare."""
    spec = {"function": label, "name": None if isolate else name, "isolate": isolate or None}
    return Target("python", json.dumps({key: value for key, value in spec.items() if value is not None}))


def rules_of(runtime: Runtime, name: str) -> SubmissionRules:
    """What the schedules of a program of that name are judged by: its zone, and the quiet hours in the database."""
    return rules(runtime.timezone, runtime.clock.now(), policy_ids(runtime), name)


def rules(timezone: str, now: int, quiet_hours: frozenset[str], name: str) -> SubmissionRules:
    return SubmissionRules(
        now=now,
        local_zone=clock.local_zone_name,
        timezone=timezone,
        quiet_hours=quiet_hours,
        bound_to=name,
        bodies=BODY_SHAPES,
    )


def read_schedule(
    schedule_id: str,
    fields: Mapping[str, Any],
    around: SubmissionRules,
    *,
    target: Target | None = None,
    may_be_past: bool = False,
    place: str = "",
) -> Declared:
    """The declaration that the words say, or everything that is wrong with them; `target` stands for their `run`."""
    checked_name("id", schedule_id)
    declared = read_submission(fields, schedule_id, around, may_be_past=may_be_past, target=target)
    return replace(declared, place=place) if place else declared
