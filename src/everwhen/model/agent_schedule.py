"""A schedule of an agent, from the words that herdctl uses to those that every schedule is declared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from everwhen.errors import TimetableError, shown
from everwhen.model.schedule import Target

WHEN_EMPTY = ("run", "skip")
SIGNATURES = ("everwhen", "github")
_TRIGGERS = {"interval": "every", "cron": "cron"}


def agent_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule of an agent in the words that every schedule is declared with.

    `{type: interval, interval: 5m}` is `every: 5m`; `{type: cron, cron | expression}` is `cron`; `webhook` and `chat`
    stay what they are. What is left unsaid is left unsaid.
    """
    trigger = _trigger(words.get("type"), words)
    passed_over = ("type", "interval", "cron", "expression", "prompt", "work_source", "secret", "signature")
    own = {key: value for key, value in words.items() if key not in passed_over and value is not None}
    return {**own, **trigger}


def _trigger(kind: Any, words: Mapping[str, Any]) -> dict[str, Any]:
    if kind in ("webhook", "chat"):
        return {"type": kind}
    if kind not in _TRIGGERS:
        known = "interval, cron, webhook, chat"
        raise TimetableError(f'type: "{shown(kind)}" must be one of {known}', key="type", value=kind)
    given = words.get("interval") if kind == "interval" else words.get("cron", words.get("expression"))
    if given is None:
        raise TimetableError(f"a schedule of type {kind} needs {kind}", key=kind)
    return {_TRIGGERS[kind]: given}


def agent_target(agent: str, group: Mapping[str, Any], words: Mapping[str, Any]) -> Target:
    """The target that runs an agent's command for one of its schedules."""
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
        "prompt": words.get("prompt"),
        "default_prompt": group.get("default_prompt"),
        "cwd": group.get("cwd"),
        "env": group.get("env"),
        "work_source": _work_source(words.get("work_source")),
    }
    return Target("agent", json.dumps({key: value for key, value in spec.items() if value is not None}))


def _work_source(words: Any) -> dict[str, Any] | None:
    if words is None:
        return None
    if not isinstance(words, Mapping) or not isinstance(words.get("type"), str):
        raise TimetableError(
            "work_source needs a type, as in {type: directory, path: inbox}", key="work_source", value=words
        )
    when_empty = words.get("when_empty", "run")
    if when_empty not in WHEN_EMPTY:
        raise TimetableError(
            f'work_source.when_empty: "{shown(when_empty)}" must be run or skip',
            key="work_source.when_empty",
            value=when_empty,
        )
    return dict(words)
