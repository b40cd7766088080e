"""The names of APScheduler 3 that its users type first, and what each is called here: only for messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypeGuard

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
_TRIGGERS = {"interval": frozenset(_UNITS), "cron": frozenset(_FIELDS), "date": frozenset(("run_date",))}
_DECORATORS = {
    "every": ("interval", "5m"),
    "cron": ("cron", "0 9 * * *"),
    "at": ("date", "2026-12-24T18:00"),
    "after": ("interval", "5m"),
}
_RENAMED = {"start_date": "start_at", "end_date": "end_at", "misfire_grace_time": "misfire_grace"}
_SECONDS = ("jitter", "misfire_grace_time")
_INSTANTS = ("run_date", "start_date", "end_date")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_EVERY_SECONDS = re.compile(r"\*/(\d{1,2})")
_WEEKDAY = re.compile("(?<![/#0-9])[0-6](?![0-9])")
_PLACES = {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "5th": "#5", "last": "L"}
_POSITION = re.compile(rf"({'|'.join(_PLACES)}) +({'|'.join(_WEEKDAYS)})")


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
    handed = [part for part in (*parts, *others) if part is not None]
    at = next((at for at, part in enumerate(handed) if at and _is_kind(part)), len(handed))
    kind = handed[at] if at < len(handed) else options.get("trigger")
    if not _is_kind(kind) or not ({"trigger", *_TRIGGERS[kind]} & options.keys() or others):
        return None
    # The function stands before the trigger there; who moves it behind, as the id is first here, means the same.
    is_behind = at == 1 and not callable(handed[0]) and len(handed) > 2 and _is_function(handed[2])
    named = [*handed[:at], *(handed[2:3] if is_behind else ()), options.get("func"), id]
    keys = _trigger_keys(kind, options)
    if keys is None:
        return f"the trigger is a key here, and {_no_cron(options)}"
    further, faults = _other_keys(kind, options)
    keys |= further | _arguments(handed[at + 1 :])
    written = ", ".join([*_what(named), *_assignments(keys)])
    return f"the trigger is a key here: add({written})" + (f"\n{faults}" if faults else "")


def decorator_fault(name: str, options: Mapping[str, Any]) -> str:
    """Return the call of a decorator that was meant by one without its trigger.

    >>> print(decorator_fault("cron", {"hour": 9, "minute": 30, "id": "report"}))
    the fields of the trigger are one argument here: cron("30 9 * * *", id="report")
    """
    kind, example = _DECORATORS[name]
    further, faults = _other_keys(kind, options)
    if _TRIGGERS[kind] & options.keys():
        keys = _trigger_keys(kind, options)
        if keys is None:
            return f"the fields of the trigger are one argument here, and {_no_cron(options)}"
        fault = "the fields of the trigger are one argument here"
    else:
        keys, fault = {name: example}, f"{name} takes its trigger as the first argument"
    if name == "after":
        keys = {"after": keys["every"]} if "every" in keys else keys
    (decorator, value), *others = keys.items()
    written = ", ".join([_written(value), *_assignments(dict(others) | further)])
    return f"{fault}: {decorator}({written})" + (f"\n{faults}" if faults else "")


def _is_kind(part: object) -> TypeGuard[str]:
    return isinstance(part, str) and part in _TRIGGERS


def _is_function(part: object) -> bool:
    """Return whether a part of a call is a function, or names one as APScheduler does."""
    return callable(part) or (isinstance(part, str) and ":" in part)


def _no_cron(options: Mapping[str, Any]) -> str:
    fields = ", ".join(f"{name}={options[name]!r}" for name in _FIELDS if name in options)
    return f"the five fields of cron= cannot say {fields}\n{_GUIDE}"


def _other_keys(kind: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the keys beside those of the trigger as they are called here, and what is to be said of the others."""
    rest = {key: value for key, value in options.items() if key not in ("func", "trigger", *_TRIGGERS[kind])}
    kept = {_RENAMED.get(key, key): _value(key, value) for key, value in rest.items() if _is_kept(key)}
    return kept, key_fault([key for key in rest if not _is_kept(key)])


def _assignments(keys: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key}={_written(value)}" for key, value in keys.items())


def _what(named: Sequence[Any]) -> list[str]:
    """Return the id and the function as `add` takes them; a function that is named by a text is a target."""
    function = next((part for part in named if callable(part)), None)
    texts = [part for part in named if isinstance(part, str)]
    path = next((text for text in texts if ":" in text), None)
    schedule_id = next((text for text in texts if text != path), None)
    if schedule_id is None and path is not None:
        schedule_id = path.rpartition(":")[2]
    written = [] if schedule_id is None else [f'"{shown(schedule_id)}"']
    if function is not None:
        written.append(getattr(function, "__name__", "function"))
    elif path is not None:
        written.append(f'run={{"python": "{shown(path)}"}}')
    return written


def _arguments(others: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of the function, which stand behind the trigger there."""
    names: dict[type, str] = {list: "args", tuple: "args", dict: "kwargs"}
    return {names[type(value)]: value for value in others if value and type(value) in names}


def _trigger_keys(kind: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    if kind == "interval":
        first = {} if "start_date" in options else {"first_run": "after_interval"}
        return {"every": _interval(options), **first}
    if kind == "date":
        return {"at": _value("run_date", options.get("run_date", "2026-12-24T18:00"))}
    return _cron(options)


def _interval(options: Mapping[str, Any]) -> str:
    amounts = {unit: options[unit] for unit in _UNITS if isinstance(options.get(unit), int | float)}
    try:
        microseconds = timedelta(**amounts) // timedelta(microseconds=1)
    except (OverflowError, ValueError):
        return "5m"
    return duration_text(-(-microseconds // SECOND) * SECOND) or "5m"


def _cron(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the key for these fields; None where five fields do not say the same.

    A field that is finer than all that are given has its smallest value there. Day and weekday must both match there,
    while one of them is enough here.
    """
    fields = {name: str(options[name]) for name in _FIELDS if name in options}
    if fields.keys() == {"second"}:
        step = _EVERY_SECONDS.fullmatch(fields["second"])
        is_even = step is not None and int(step[1]) and 60 % int(step[1]) == 0
        return {"every": f"{step[1]}s"} if step is not None and is_even else None
    if not fields.keys().isdisjoint(_NO_FIELDS) or {"day", "day_of_week"} <= fields.keys():
        return None
    finest = max((_FIELDS.index(name) for name in fields), default=len(_FIELDS))
    full = {
        name: fields.get(name, "*" if _FIELDS.index(name) < finest else smallest)
        for name, smallest in _SMALLEST.items()
    }
    if position := _POSITION.fullmatch(full["day"]):
        weekday = (_WEEKDAYS.index(position[2]) + 1) % 7
        full |= {"day": "*", "day_of_week": f"{weekday}{_PLACES[position[1]]}"}
    else:
        full["day"] = full["day"].replace("last", "L")
        full["day_of_week"] = _WEEKDAY.sub(lambda day: _WEEKDAYS[int(day[0])], full["day_of_week"])
    text = " ".join(full[name] for name in ("minute", "hour", "day", "month", "day_of_week"))
    try:
        return {"cron": parse_cron(text).text}
    except CronParseError:
        return None


def _is_kept(key: str) -> bool:
    return key not in KEYS or key in _RENAMED


def _value(key: str, value: Any) -> Any:
    """Return a value as a key takes it: a duration with its unit, a day as its midnight."""
    if key in _SECONDS and isinstance(value, int):
        return f"{value}s"
    if isinstance(value, datetime | date):
        value = value.isoformat()
    is_day = key in _INSTANTS and isinstance(value, str) and _DAY.fullmatch(value)
    return f"{value}T00:00" if is_day else value


def _written(value: Any) -> str:
    return f'"{shown(value)}"' if isinstance(value, str) else shown(value)
