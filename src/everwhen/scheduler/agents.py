"""Agents that a program brings: the same words, and the same checks, as behind the agents door of a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from everwhen.config.submission import SubmissionRules, read_agent_submission
from everwhen.errors import ConfigError, shown
from everwhen.model.declared import Declared
from everwhen.model.schedule import Target
from everwhen.scheduler.options import AgentScheduleInfo
from everwhen.scheduler.submission import plain

Agents = Iterable[AgentScheduleInfo] | Mapping[str, Mapping[str, Any]]
_HOST = ["on_trigger"]  # stands for the command of an agent that the host runs, until it was judged


def read_agents(agents: Agents, around: SubmissionRules, *, has_host: bool) -> list[Declared]:
    """The schedules of all agents, or everything that is wrong with them."""
    groups = named(agents)
    hosted = {name for name, group in groups.items() if has_host and group.get("command") is None}
    for name in hosted:
        groups[name]["command"] = _HOST
    found = read_agent_submission(groups, around)
    return [_without_command(one) if one.group in hosted else one for one in found]


def named(agents: Agents) -> dict[str, dict[str, Any]]:
    """The agents by name, as plain data."""
    if isinstance(agents, Mapping):
        return {name: plain(group) for name, group in agents.items()}
    found: dict[str, dict[str, Any]] = {}
    for agent in agents:
        group = plain(agent)
        name = group.pop("name", None)
        if name in found:
            raise ConfigError(f'agent "{shown(name)}" is given twice')
        found[name] = group
    return found


def _without_command(declared: Declared) -> Declared:
    spec = {key: value for key, value in json.loads(declared.target.spec).items() if key != "command"}
    target = Target(declared.target.kind, json.dumps(spec))
    return replace(declared, target=target, definition=replace(declared.definition, target=target))
