"""The agents door: herdctl's agents, each with a map of schedules."""

from __future__ import annotations

import json
import re
from typing import Any

from everwhen.config.doors.admission import NOTHING, Admission
from everwhen.config.doors.groups import find_tenant, join
from everwhen.config.node import Node
from everwhen.errors import SchedulerError
from everwhen.model.agent_schedule import agent_target, agent_words
from everwhen.model.fields import with_defaults
from everwhen.model.schedule import Target

MOST_JITTER = 10  # percent
_TYPES = {"interval": ("interval", "every"), "cron": ("cron", "expression")}
_PERCENT = re.compile(r"\s*([0-9]+) ?%\s*")


def read_agents(node: Node, admission: Admission) -> None:
    for name, agent in node.entries():
        group = join(agent, name, "agent", admission)
        _refuse_two_limits(agent, group)
        if "command" not in (agent.value if isinstance(agent.value, dict) else {}):
            agent.complain("command is required: the program that is the agent, as in [claude, -p]")
        schedules = agent["schedules"].entries() if group.get("schedules") or _has_schedules(agent) else []
        for schedule, entry in schedules:
            if isinstance(entry.value, dict):
                _read(entry, name, schedule, group, admission)


def _has_schedules(agent: Node) -> bool:
    return isinstance(agent.value, dict) and isinstance(agent.value.get("schedules"), dict)


def _refuse_two_limits(agent: Node, group: dict[str, Any]) -> None:
    instances = group.get("instances") or {}
    both = [group.get("max_concurrent"), instances.get("max_concurrent")]
    if None not in both and both[0] != both[1]:
        agent.complain(
            f"max_concurrent is {both[0]} here and {both[1]} in instances; keep one", "max_concurrent"
        )


def _read(entry: Node, agent: str, schedule: str, group: dict[str, Any], admission: Admission) -> None:
    words = entry.words()
    tenant = find_tenant(entry, words, "agent", group)
    _refuse_mixture(entry, words)
    spelled = {"every": "interval"} if "interval" in words else {}
    spelled |= {"cron": "expression"} if "expression" in words else {}
    try:
        complete = with_defaults(_translated(words), "agent", group=group)
        target = with_secret(agent_target(agent, group, words), words) if "command" in group else NOTHING
    except SchedulerError as error:
        if entry.is_sound:
            entry.complain(str(error))
        return
    admission.admit(
        entry, f"{agent}.{schedule}", complete, target, group=agent, tenant=tenant, spelled=spelled
    )


def _refuse_mixture(entry: Node, words: dict[str, Any]) -> None:
    kind = words.get("type")
    others = [key for type_, keys in _TYPES.items() if type_ != kind for key in keys if kind and key in words]
    others += [key for key in ("at", "after") if kind and key in words]
    for key in others:
        entry.complain(f"does not go with type {kind}", key)
    if "cron" in words and "expression" in words:
        entry.complain("is another word for cron; keep one", "expression")
    for key in ("secret", "signature"):
        if words.get(key) is not None and kind != "webhook":
            entry.complain("is for a webhook only", key)
    if words.get("signature") is not None and words.get("secret") is None:
        entry.complain("needs secret beside it", "signature")
    percent = _PERCENT.fullmatch(str(words.get("jitter", "")))
    if percent is not None and int(percent[1]) > MOST_JITTER:
        entry.complain(f'jitter "{words["jitter"]}" must be 0% to {MOST_JITTER}% here', "jitter")


def _translated(words: dict[str, Any]) -> dict[str, Any]:
    """herdctl's words, and the general ones: a trigger without `type` says itself what it is."""
    if words.get("type") is not None:
        return agent_words(words)
    for kind, keys in _TYPES.items():
        for key in keys:
            if key in words:
                rest = {name: value for name, value in words.items() if name != key}
                return agent_words({**rest, "type": kind, kind: words[key]})
    translated = agent_words({**words, "type": "chat"})
    del translated["type"]
    return translated


def with_secret(target: Target, words: dict[str, Any]) -> Target:
    """The webhook's secret travels with the target, as the reference that it is, and so does the way of signing."""
    if words.get("secret") is None:
        return target
    signed = {key: words[key] for key in ("secret", "signature") if words.get(key) is not None}
    return Target(target.kind, json.dumps({**json.loads(target.spec), **signed}))
