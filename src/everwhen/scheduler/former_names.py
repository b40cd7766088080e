"""The names of APScheduler 3 that its users type first, and what each is called here: only for messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from everwhen.errors import CronParseError, shown
from everwhen.model.instants import SECOND, duration_text
from everwhen.timetable.cron import parse_cron

_GUIDE = (
    "`everwhen import apscheduler MODULE:SCHEDULER --python` writes such calls for all jobs of a scheduler"
)

METHODS = {
    "add_job": "add(id, function, every=…)",
    "scheduled_job": "every(…), cron(…), at(…) and after(…)",
    "get_jobs": "schedules()",
    "print_jobs": "print_schedules()",
    "modify_job": "update(id, …)",
    "reschedule_job": "update(id, every=…)",
    "remove_job": "remove(id)",
    "remove_all_jobs": "remove_all()",
    "pause_job": "pause(id)",
    "resume_job": "resume(id)",
    "add_listener": 'on("job.failed", …)',
    "shutdown": "stop()",
    "running": "is_running()",
    "state": "get_status()",
}
_INTERVAL = "an interval is every=, for example every='90s' or a timedelta"
_CRON = "the fields of cron are one text, for example cron='30 7 * * mon-fri'"
KEYS = {
    "trigger": "a trigger is every=, cron=, at= or after=",
    **dict.fromkeys(("seconds", "minutes", "hours", "days", "weeks"), _INTERVAL),
    **dict.fromkeys(("second", "minute", "hour", "day", "week", "month", "year", "day_of_week"), _CRON),
    "run_date": "use at=",
    "func": "the function is the second argument",
    "function": "the function is the second argument of add; replace_existing=True changes it",
    "max_instances": 'use if_running="allow" with max_concurrent=; one at a time is the default',
    "coalesce": 'use catch_up="run_once" or "run_all"',
    "misfire_grace_time": "use misfire_grace=, for example misfire_grace='60s'",
    "next_run_time": 'use start_at=, or first_run="immediately" or "after_interval"',
    "start_date": "use start_at=",
    "end_date": "use end_at=",
    "jobstore": "there is one database for all schedules",
    "executor": "use queue=",
}


_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")  # the coarsest first
_SMALLEST = {"month": "1", "day": "1", "day_of_week": "*", "hour": "0", "minute": "0"}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")  # 0 is Monday there
_NO_FIELDS = ("year", "week", "second")
_TRIGGERS = {"interval": _UNITS, "cron": _FIELDS, "date": ("run_date",)}
_RENAMED = {"start_date": "start_at", "end_date": "end_at", "misfire_grace_time": "misfire_grace"}
_SECONDS = ("jitter", "misfire_grace_time")


def method_fault(name: str) -> str | None:
    """Return what a method of APScheduler is called here; None for any other name."""
    here = METHODS.get(name)
    return None if here is None else f"a Scheduler has no {name}; use {here} ({_GUIDE})"


def key_fault(keys: Iterable[str]) -> str | None:
    """Return what keys of APScheduler are called here; None where there are none among these."""
    found = [f"{key}: {KEYS[key]}" for key in keys if key in KEYS]
    return "\n".join([*found, _GUIDE]) if found else None


def trigger_fault(
    parts: Sequence[Any], others: Sequence[Any], id: str | None, options: Mapping[str, Any]
) -> str | None:
    """Return the call of `add` that was meant by one of APScheduler's; None where the call is not one of those.

    There the trigger is an argument of its own: `add("poll", poll, "interval", minutes=5)`.

    >>> print(trigger_fault(["poll", print], ["interval"], None, {"minutes": 5}))
    the trigger is a key here: add("poll", print, every="5m", first_run="after_interval")
    """
    named = [part for part in (*parts, id) if part is not None]
    kinds = [*named[1:], *others, options.get("trigger")]
    kind = next((kind for kind in kinds if isinstance(kind, str) and kind in _TRIGGERS), None)
    if kind is None or not ({"trigger", *_TRIGGERS[kind]} & options.keys() or others):
        return None
    function = next((part for part in named if callable(part)), None)
    schedule_id = next((part for part in named if isinstance(part, str) and part != kind), None)
    first = [f'"{shown(schedule_id)}"'] if schedule_id is not None else []
    first += [] if function is None else [getattr(function, "__name__", "function")]
    keys = _trigger_keys(kind, options)
    rest = {key: value for key, value in options.items() if key not in ("trigger", *_TRIGGERS[kind])}
    keys |= {_RENAMED.get(key, key): _value(key, value) for key, value in rest.items() if _is_kept(key)}
    written = ", ".join([*first, *(f"{key}={_written(value)}" for key, value in keys.items())])
    finer = [key for key in _NO_FIELDS if key in options]
    faults = key_fault([*finer, *(key for key in rest if not _is_kept(key))])
    return f"the trigger is a key here: add({written})" + (f"\n{faults}" if faults else "")


def _trigger_keys(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "interval":
        return {"every": _interval(options), "first_run": "after_interval"}
    if kind == "date":
        return {"at": options.get("run_date", "2026-12-24T18:00")}
    return {"cron": _cron(options)}


def _interval(options: Mapping[str, Any]) -> str:
    amounts = {unit: options[unit] for unit in _UNITS if isinstance(options.get(unit), int | float)}
    try:
        microseconds = timedelta(**amounts) // timedelta(microseconds=1)
    except (OverflowError, ValueError):
        return "5m"
    return duration_text(-(-microseconds // SECOND) * SECOND) or "5m"


def _cron(options: Mapping[str, Any]) -> str:
    """Return the five fields; a field that is finer than all that are given has its smallest value there."""
    finest = max((_FIELDS.index(name) for name in _FIELDS if name in options), default=len(_FIELDS))
    fields = {
        name: str(options.get(name, "*" if _FIELDS.index(name) < finest else smallest))
        for name, smallest in _SMALLEST.items()
    }
    fields["day"] = fields["day"].replace("last", "L")
    fields["day_of_week"] = re.sub(
        "(?<![/#0-9])[0-6](?![0-9])", lambda day: _WEEKDAYS[int(day[0])], fields["day_of_week"]
    )
    text = " ".join(fields[name] for name in ("minute", "hour", "day", "month", "day_of_week"))
    try:
        return parse_cron(text).text
    except CronParseError:
        return "30 7 * * mon-fri"


def _is_kept(key: str) -> bool:
    return key not in KEYS or key in _RENAMED


def _value(key: str, value: Any) -> Any:
    return f"{value}s" if key in _SECONDS and isinstance(value, int) else value


def _written(value: Any) -> str:
    if isinstance(value, datetime):
        value = value.isoformat()
    return f'"{shown(value)}"' if isinstance(value, str) else shown(value)
