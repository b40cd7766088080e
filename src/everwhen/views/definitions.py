"""Serialisation of a stored schedule to the keys of a file, from which `read_submission` makes the same definition.

Values from other sections (a group's `config`, budgets) are left out: they are added again when the keys are read.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from everwhen.model.bound_queue import plain_queue
from everwhen.model.instants import SECOND
from everwhen.model.message import SPOKEN_BY
from everwhen.model.schedule import Definition, Target
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, Trigger
from everwhen.timetable.windows import weekday_names

Fields = dict[str, Any]

_PLAIN = (
    "name",
    "description",
    "owner",
    "first_run",
    "interval_from",
    "outside_window",
    "catch_up",
    "catch_up_limit",
    "if_running",
    "queue_limit",
    "total_repeats",
    "max_retries",
    "on_exhausted",
    "on_lost",
)
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def schedule_to_json(definition: Definition) -> Fields:
    """Return every key of a schedule that is set, including defaults."""
    fields: Fields = {
        **trigger_to_json(definition.trigger),
        "timezone": definition.zone.name,
        **{key: getattr(definition, key) for key in _PLAIN},
        "queue": plain_queue(definition.queue),
        "dst": _some({"gap": definition.gap, "fold": definition.fold}),
        "start_at": instant_text(definition.start_at),
        "end_at": instant_text(definition.end_at),
        "jitter": _jitter(definition),
        "only_between": str(definition.only_between) if definition.only_between else None,
        "not_on": weekday_names(definition.not_on) or None,
        "quiet_hours": definition.quiet_hours_id,
        "misfire_grace": duration_text(definition.misfire_grace) or "auto",
        "retry_delay": duration_text(definition.retry_delay),
        "timeout": duration_text(definition.timeout) or 0,
        "payload": json.loads(definition.payload),
        "run": run_to_json(definition.target),
        **_limits(definition),
        **_watching(definition),
    }
    return {key: value for key, value in fields.items() if value not in (None, "")}


def settled_fields(definition: Definition) -> Fields:
    """Return the same with explicit values for what is turned off, so that no default replaces them when read again."""
    off: Fields = {"max_outstanding": 0, "max_concurrent": 0, "circuit_breaker": False}
    return {**off, **schedule_to_json(definition)}


def trigger_to_json(trigger: Trigger) -> Fields:
    match trigger:
        case Every() | EveryMonth():
            return {"every": trigger.text}
        case Cron():
            return {"cron": trigger.expression.text}
        case Once():
            return {trigger.kind: trigger.text}
        case _:
            return {"type": trigger.kind}


def run_to_json(target: Target) -> Fields:
    """Return the keys of `run` that name this target."""
    spec = json.loads(target.spec)
    match target.kind:
        case "command":
            return _some({"command": spec.get("argv"), "cwd": spec.get("cwd"), "env": spec.get("env")}) or {}
        case "python":
            return _some({"python": spec.get("function"), "isolate": spec.get("isolate")}) or {}
        case "plugin":
            return {"plugin": {"name": spec["name"], "command": spec["command"]}}
        case "agent":
            return {"agent": _some({"name": spec["agent"], "prompt": spec.get("prompt")})}
        case "workflow":
            number = int(spec["workflow_id"]) if spec.get("is_number") else spec["workflow_id"]
            return {"workflow": _some({"id": number, "trigger_node_id": spec.get("trigger_node_id")})}
        case "message":
            return {"message": {key: value for key, value in spec.items() if key != SPOKEN_BY}}
        case "http":
            return {"http": {key: value for key, value in spec.items() if key != "source"}}
        case _:  # installed kinds
            return {target.kind: spec}


def duration_text(microseconds: int | None) -> str | None:
    """Format a duration as it is written in a file.

    >>> duration_text(5_400_000_000), duration_text(None)
    ('1h30m', None)
    """
    if microseconds is None:
        return None
    seconds, text = microseconds // SECOND, ""
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text


def instant_text(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _jitter(definition: Definition) -> str | None:
    milliseconds = definition.jitter_ms
    if not milliseconds:
        return None
    if milliseconds % 1_000 and isinstance(definition.trigger, Every):  # only a percentage has such fractions
        return f"{milliseconds // (definition.trigger.seconds * 10)}%"
    return duration_text(milliseconds * 1_000)


def _limits(definition: Definition) -> Fields:
    breaker = definition.breaker
    return {
        "max_outstanding": definition.guard.limit if definition.guard else None,
        "max_concurrent": definition.capacity.limit if definition.capacity else None,
        "circuit_breaker": breaker
        and {"threshold": breaker.threshold, "reset_after": duration_text(breaker.reset_after)},
    }


def _watching(definition: Definition) -> Fields:
    within, grace = duration_text(definition.expect_within), duration_text(definition.expect_grace)
    return {
        "expect": _some({"within": within, "grace": grace}),
        "ping": {"url": definition.ping_url} if definition.ping_url else None,
    }


def _some(fields: Fields) -> Fields | None:
    """Return the keys that are set; None when there are none."""
    return {key: value for key, value in fields.items() if value is not None} or None
