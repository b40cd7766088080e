"""The arguments of a tool: checked with messages that say what to do, and translated to the body of a REST call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from everwhen.errors import SchedulerError
from everwhen.mcp.rest import Fields
from everwhen.mcp.schemas import DAYS, ToolSpec
from everwhen.timetable.zone_hints import zone_hint

TRIGGERS = ("after", "at", "every", "time", "cron")
TARGETS = ("agent", "workflow", "url", "message")
# What models call an argument, and what it is called here.
_MEANT = {
    "schedule": "cron",
    "pattern": "cron",
    "expression": "cron",
    "rrule": "cron",
    "tz": "timezone",
    "zone": "timezone",
    "when": "at",
    "datetime": "at",
    "date": "at",
    "run_at": "at",
    "interval": "every",
    "delay": "after",
    "in": "after",
    "weekdays": "days",
    "end": "until",
    "end_at": "until",
    "description": "purpose",
    "reason": "purpose",
    "title": "name",
    "task": "prompt",
    "instructions": "prompt",
    "text": "message",
    "schedule_id": "id",
    "job_id": "run_id",
}
# What the body of a REST call calls an argument.
_KEYS = {
    "end_at": "until",
    "misfire_grace": "skip_if_later_than",
    "total_repeats": "max_runs",
    "run.agent.name": "agent",
    "run.agent.prompt": "prompt",
    "run.workflow.id": "workflow",
    "run.http.url": "url",
    "run.message.text": "message",
}
_KEY = re.compile(rf"\b(?:{'|'.join(map(re.escape, _KEYS))})\b")
MOST_FAULTS = 5
_OFFSET = re.compile(r"([Zz]|[+-]\d{2}:\d{2})$", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_KINDS: Mapping[str, tuple[type, str]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}


class TeachingError(SchedulerError):
    """What is wrong with a call, and what to do: the model reads it and tries again."""


def check(tool: ToolSpec, arguments: Mapping[str, Any] | None) -> Fields:
    """Return the arguments that are given; raise TeachingError with everything that is wrong with them."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    unknown = [name for name in given if name not in tool.properties]
    faults = [
        _unknown(name, tool) for name in unknown[:MOST_FAULTS]
    ]  # each is compared with every known name
    faults += [f'"{name}" is needed{_example(tool, name)}.' for name in tool.required if name not in given]
    found: Fields = {}
    for name, value in given.items():
        if name in tool.properties:
            found[name] = _plain(value, tool.properties[name])
            if fault := _fault(name, found[name], tool.properties[name]):
                faults.append(fault)
    if faults:
        left = len(faults) + len(unknown[MOST_FAULTS:]) - MOST_FAULTS
        more = [f"{left} more are wrong."] if left > 0 else []
        raise TeachingError(" ".join([*faults[:MOST_FAULTS], *more]))
    return found


def _unknown(name: str, tool: ToolSpec) -> str:
    meant = _MEANT.get(name[:50].lower())
    if meant not in tool.properties:
        meant = next(iter(get_close_matches(name[:50].lower(), tool.properties, 1)), None)
    hint = f', did you mean "{meant}"?' if meant else f"; {tool.name} takes {_listed(tool)}."
    return f'unknown argument "{readable(name[:50])}"{hint}'


def readable(text: str) -> str:
    """Return a text that can be sent: half a character becomes a question mark."""
    return text.encode(errors="replace").decode()


def with_arguments(text: str) -> str:
    """Return what REST says with the names of the arguments, in place of the keys that they become.

    >>> with_arguments("end_at: end_at is already past")
    'until: until is already past'
    """
    return _KEY.sub(lambda found: _KEYS[found[0]], text)


def _listed(tool: ToolSpec) -> str:
    return ", ".join(tool.properties) or "no arguments"


def _example(tool: ToolSpec, name: str) -> str:
    about = tool.properties[name].get("description")
    return f": {about.rstrip('.')[0].lower()}{about.rstrip('.')[1:]}" if about else ""


def _plain(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a list or an object that a model wrote as text, as that."""
    if schema["type"] in ("array", "object") and isinstance(value, str):
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return read if isinstance(read, list | dict) else value
    return value


def _fault(name: str, value: Any, schema: Mapping[str, Any]) -> str | None:
    kind, words = _KINDS[schema["type"]]
    if not isinstance(value, kind) or isinstance(value, bool):
        example = {"days": ' such as ["mon", "fri"]', "payload": ' such as {"topic": "news"}'}.get(name, "")
        return f'"{name}" must be {words}{example}.'
    if isinstance(value, str):
        return _text_fault(name, value, schema)
    if isinstance(value, int) and value < schema.get("minimum", value):
        return f'"{name}" must be at least {schema["minimum"]}.'
    if isinstance(value, int) and value > schema.get("maximum", value):
        return f'"{name}" must be at most {schema["maximum"]}.'
    if isinstance(value, list):
        known = schema["items"]["enum"]
        if not value or any(item not in known for item in value) or len(set(value)) < len(value):
            return f'"{name}" has each of {", ".join(known)} at most once, and one at least.'
    return None


def _text_fault(name: str, value: str, schema: Mapping[str, Any]) -> str | None:
    if readable(value) != value:
        return f'"{name}" has characters that are not valid Unicode.'
    if len(value) < schema.get("minLength", 0):
        return f'"{name}" is empty.'
    if len(value) > schema.get("maxLength", 1 << 20):
        return f'"{name}" has {len(value):,} characters; at most {schema["maxLength"]:,} are taken.'
    if "enum" in schema and value not in schema["enum"]:
        return f'"{name}" must be one of {", ".join(schema["enum"])}.'
    if "pattern" in schema and not re.search(schema["pattern"], value, re.ASCII):
        like = "HH:MM such as 09:00" if name == "time" else "letters, digits, - and _, 100 at most"
        return f'"{name}" must be {like}.'
    return None


# -- the body of a REST call --


def refuse_ambiguous(given: Fields) -> None:
    """Refuse arguments of a creation that say when or what not at all, or twice."""
    for names, what in ((TRIGGERS, "when"), (TARGETS, "what runs")):
        said = [name for name in names if name in given]
        if not said:
            raise TeachingError(f"nothing says {what}: give exactly one of {', '.join(names)}.")
        if len(said) > 1:
            raise TeachingError(
                f"{' and '.join(said)} both say {what}: give exactly one of {', '.join(names)}."
            )
    if "prompt" in given and "agent" not in given:
        raise TeachingError('"prompt" is for an agent: name one of get_context in "agent".')
    if "days" in given and "time" not in given:
        raise TeachingError('"days" goes with "time": give the time of day as HH:MM.')
    refuse_unzoned(given)


def refuse_unzoned(given: Fields, known: str | None = None) -> None:
    """Refuse a wall-clock time without a zone, and abbreviations of zones; `known` is the zone of a stored schedule."""
    named = given.get("timezone")
    if named is not None and "/" not in named and named != "UTC":
        raise TeachingError(
            f'timezone "{named[:50]}" is not an IANA name: ask the person where they are, for example Europe/Berlin. '
            f"Abbreviations mean several zones: {zone_hint(named[:50])}."
        )
    if named is not None or known is not None:
        return
    for name in ("time", "cron", "at"):
        if name in given and not (name == "at" and _OFFSET.search(given["at"])):
            raise TeachingError(
                f'timezone is needed with "{name}": ask the person, for example Europe/Berlin.'
            )


def body_of(given: Fields) -> Fields:
    """Return the body of a schedule with these arguments."""
    body: Fields = {}
    for name, key in (("name", "name"), ("purpose", "description"), ("timezone", "timezone")):
        if name in given:
            body[key] = given[name]
    body |= _trigger(given)
    if run := _run(given):
        body["run"] = run
    if "payload" in given:
        body["payload"] = given["payload"]
    if "until" in given:
        body["end_at"] = end_after(given["until"])
    if "max_runs" in given:
        body["total_repeats"] = given["max_runs"]
    if "skip_if_later_than" in given:
        body |= {"misfire_grace": given["skip_if_later_than"], "catch_up": "skip"}
    return body


def _trigger(given: Fields) -> Fields:
    if "time" not in given:
        return {name: given[name] for name in TRIGGERS if name in given}
    hour, minute = given["time"].split(":")
    days = sorted(given.get("days", DAYS), key=DAYS.index)
    weekdays = "*" if len(days) == len(DAYS) else ",".join(days)
    return {"cron": f"{int(minute)} {int(hour)} * * {weekdays}"}


def _run(given: Fields) -> Fields | None:
    if "agent" in given:
        prompt = {"prompt": given["prompt"]} if "prompt" in given else {}
        return {"agent": {"name": given["agent"], **prompt}}
    if "workflow" in given:
        return {"workflow": {"id": given["workflow"]}}
    if "url" in given:
        return {"http": {"url": given["url"]}}
    return {"message": {"text": given["message"]}} if "message" in given else None


def end_after(until: str) -> str:
    """Return the first instant after the last one: a schedule ends before its `end_at`.

    >>> end_after("2026-12-24"), end_after("2026-12-24T09:00"), end_after("2026-12-24T09:00:00+01:00")
    ('2026-12-25T00:00:00', '2026-12-24T09:00:01', '2026-12-24T09:00:01+01:00')
    """
    try:
        if _DATE.fullmatch(until):
            return f"{date.fromisoformat(until) + timedelta(days=1)}T00:00:00"
        return (datetime.fromisoformat(until) + timedelta(seconds=1)).isoformat()
    except (ValueError, OverflowError):
        raise TeachingError(
            f'until "{until[:50]}" is not an instant: write 2026-12-24, or 2026-12-24T18:00.'
        ) from None
