"""Schedules of agents: their own keys, translated to the keys that every schedule is declared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from everwhen.errors import TimetableError, shown
from everwhen.model.target_kinds import Target

WHEN_EMPTY = ("run", "skip")
SIGNATURES = ("everwhen", "github")
_TRIGGERS = {"interval": "every", "cron": "cron"}


def general_fields_of_agent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a schedule of an agent to the keys that every schedule is declared with.

    `{type: interval, interval: 5m}` becomes `every: 5m`; `{type: cron, cron | expression}` becomes `cron`; `webhook`
    and `chat` stay unchanged. Keys that are not set stay unset.
    """
    trigger = _trigger(fields.get("type"), fields)
    passed_over = ("type", "interval", "cron", "expression", "prompt", "work_source", "secret", "signature")
    own = {key: value for key, value in fields.items() if key not in passed_over and value is not None}
    return {**own, **trigger}


def _trigger(kind: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    if kind in ("webhook", "chat"):
        return {"type": kind}
    if kind not in _TRIGGERS:
        known = "interval, cron, webhook, chat"
        raise TimetableError(f'type: "{shown(kind)}" must be one of {known}', key="type", value=kind)
    given = fields.get("interval") if kind == "interval" else fields.get("cron", fields.get("expression"))
    if given is None:
        raise TimetableError(f"a schedule of type {kind} needs {kind}", key=kind)
    return {_TRIGGERS[kind]: given}


def agent_target(agent: str, group: Mapping[str, Any], fields: Mapping[str, Any]) -> Target:
    """Return the target that runs an agent's command for one of its schedules."""
    command = group.get("command")
    if (
        not isinstance(command, list)
        or not command
        or not all(isinstance(word, str | int | float) for word in command)
    ):
        raise TimetableError(
            f'agent "{agent}" needs command: [program, argument, …]', key="command", value=command
        )
    spec = {
        "agent": agent,
        "command": [str(word) for word in command],
        "prompt": fields.get("prompt"),
        "default_prompt": group.get("default_prompt"),
        "cwd": group.get("cwd"),
        "env": group.get("env"),
        "work_source": _work_source(fields.get("work_source")),
    }
    return Target("agent", json.dumps({key: value for key, value in spec.items() if value is not None}))


def _work_source(fields: Any) -> dict[str, Any] | None:
    if fields is None:
        return None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("type"), str):
        raise TimetableError(
            "work_source needs a type, as in {type: directory, path: inbox}", key="work_source", value=fields
        )
    when_empty = fields.get("when_empty", "run")
    if when_empty not in WHEN_EMPTY:
        raise TimetableError(
            f'work_source.when_empty: "{shown(when_empty)}" must be run or skip',
            key="work_source.when_empty",
            value=when_empty,
        )
    return dict(fields)
