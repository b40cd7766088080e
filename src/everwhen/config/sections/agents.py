"""The `agents` section: each agent has a map of schedules, with keys of its own beside the general ones."""

from __future__ import annotations

import json
import re
from typing import Any

from everwhen.config.document import Node
from everwhen.config.sections.collector import NOTHING, ScheduleCollector, find_tenant, join
from everwhen.errors import SchedulerError
from everwhen.model.defaults import with_defaults
from everwhen.model.group import agent_target, general_fields_of_agent
from everwhen.model.schedule import Target

MOST_JITTER = 10  # percent
_TYPES = {"interval": ("interval", "every"), "cron": ("cron", "expression")}
_PERCENT = re.compile(r"\s*([0-9]+) ?%\s*")


def read_agents(node: Node, collector: ScheduleCollector) -> None:
    for name, agent in node.entries():
        group = join(agent, name, "agent", collector)
        _refuse_two_limits(agent, group)
        if "command" not in (agent.value if isinstance(agent.value, dict) else {}):
            agent.complain("command is required: the program that is the agent, as in [claude, -p]")
        schedules = agent["schedules"].entries() if group.get("schedules") or _has_schedules(agent) else []
        for schedule, entry in schedules:
            if isinstance(entry.value, dict):
                _read(entry, name, schedule, group, collector)


def _has_schedules(agent: Node) -> bool:
    return isinstance(agent.value, dict) and isinstance(agent.value.get("schedules"), dict)


def _refuse_two_limits(agent: Node, group: dict[str, Any]) -> None:
    instances = group.get("instances") or {}
    both = [group.get("max_concurrent"), instances.get("max_concurrent")]
    if None not in both and both[0] != both[1]:
        agent.complain(
            f"max_concurrent is {both[0]} here and {both[1]} in instances; keep one", "max_concurrent"
        )


def _read(
    entry: Node, agent: str, schedule: str, group: dict[str, Any], collector: ScheduleCollector
) -> None:
    fields = entry.fields()
    tenant = find_tenant(entry, fields, "agent", group)
    _refuse_mixture(entry, fields)
    spelled = {"every": "interval"} if "interval" in fields else {}
    spelled |= {"cron": "expression"} if "expression" in fields else {}
    try:
        complete = with_defaults(_translated(fields), "agent", group=group)
        target = with_secret(agent_target(agent, group, fields), fields) if "command" in group else NOTHING
    except SchedulerError as error:
        if entry.is_sound:
            entry.complain(str(error))
        return
    collector.add(entry, f"{agent}.{schedule}", complete, target, group=agent, tenant=tenant, spelled=spelled)


def _refuse_mixture(entry: Node, fields: dict[str, Any]) -> None:
    kind = fields.get("type")
    others = [
        key for type_, keys in _TYPES.items() if type_ != kind for key in keys if kind and key in fields
    ]
    others += [key for key in ("at", "after") if kind and key in fields]
    for key in others:
        entry.complain(f"does not go with type {kind}", key)
    if "cron" in fields and "expression" in fields:
        entry.complain("is another word for cron; keep one", "expression")
    for key in ("secret", "signature"):
        if fields.get(key) is not None and kind != "webhook":
            entry.complain("is for a webhook only", key)
    if fields.get("signature") is not None and fields.get("secret") is None:
        entry.complain("needs secret beside it", "signature")
    percent = _PERCENT.fullmatch(str(fields.get("jitter", "")))
    if percent is not None and int(percent[1]) > MOST_JITTER:
        entry.complain(f'jitter "{fields["jitter"]}" must be 0% to {MOST_JITTER}% here', "jitter")


def _translated(fields: dict[str, Any]) -> dict[str, Any]:
    """Translate the keys of a schedule: a trigger without `type` is recognised by its key."""
    if fields.get("type") is not None:
        return general_fields_of_agent(fields)
    for kind, keys in _TYPES.items():
        for key in keys:
            if key in fields:
                rest = {name: value for name, value in fields.items() if name != key}
                return general_fields_of_agent({**rest, "type": kind, kind: fields[key]})
    translated = general_fields_of_agent({**fields, "type": "chat"})
    del translated["type"]
    return translated


def with_secret(target: Target, fields: dict[str, Any]) -> Target:
    """Add the webhook's secret, still as a reference, and its signature scheme to the target."""
    if fields.get("secret") is None:
        return target
    signed = {key: fields[key] for key in ("secret", "signature") if fields.get(key) is not None}
    return Target(target.kind, json.dumps({**json.loads(target.spec), **signed}))
