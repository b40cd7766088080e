"""Imported schedules of Python functions as a program: calls of `Scheduler.add`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def written_as_python(schedules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a program that adds the schedules.

    >>> run = {"python": "shop.tasks:greet", "args": ["Ada"]}
    >>> print(*written_as_python([{"id": "greet", "every": "5m", "run": run}]), sep="\\n")
    import shop.tasks
    from everwhen import Scheduler
    <BLANKLINE>
    scheduler = Scheduler("sqlite:///everwhen.db", name="app")
    scheduler.add(
        'greet',
        shop.tasks.greet,
        every='5m',
        args=['Ada'],
        replace_existing=True,
    )
    """
    modules = sorted({_module_of(schedule) for schedule in schedules if not _is_isolated(schedule)})
    lines = [*(f"import {module}" for module in modules), "from everwhen import Scheduler", ""]
    lines.append('scheduler = Scheduler("sqlite:///everwhen.db", name="app")')
    for schedule in schedules:
        lines += ["scheduler.add(", *(f"    {part}," for part in _parts(schedule)), ")"]
    return lines


def _parts(schedule: Mapping[str, Any]) -> list[str]:
    keys = {key: value for key, value in schedule.items() if key not in ("id", "run")}
    run, parts = schedule["run"], [repr(schedule["id"])]
    if _is_isolated(schedule):
        keys["run"] = run  # `add` has no other key for a separate process
    else:
        parts.append(run["python"].replace(":", "."))
        keys |= {name: run[name] for name in ("args", "kwargs") if name in run}
    return [*parts, *(f"{key}={value!r}" for key, value in keys.items()), "replace_existing=True"]


def _is_isolated(schedule: Mapping[str, Any]) -> bool:
    return bool(schedule["run"].get("isolate"))


def _module_of(schedule: Mapping[str, Any]) -> str:
    module, _, _ = schedule["run"]["python"].partition(":")
    return str(module)
