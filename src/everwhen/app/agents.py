"""Agents that a program brings: the same words as behind the agents door of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from everwhen import system_clock
from everwhen.app.options import AgentScheduleInfo
from everwhen.app.words import checked_name, plain
from everwhen.config.doors.groups import inherited
from everwhen.errors import ConfigError, SchedulerError
from everwhen.model.agent_schedule import agent_target, agent_words
from everwhen.model.declare import declare
from everwhen.model.declared import Declared
from everwhen.ports.house import House

Agents = Iterable[AgentScheduleInfo] | Mapping[str, Mapping[str, Any]]


def read_agents(house: House, agents: Agents, *, has_host: bool, place: str) -> list[Declared]:
    """The schedules of all agents; the first mistake names its agent and schedule."""
    return [
        _read(house, name, schedule, group, words, has_host=has_host, place=place)
        for name, group in _named(agents)
        for schedule, words in (group.get("schedules") or {}).items()
    ]


def _named(agents: Agents) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(agents, Mapping):
        found = [(name, plain(group)) for name, group in agents.items()]
    else:
        found = [(agent["name"], plain(agent)) for agent in agents]
    names = [checked_name("agent", name) for name, _ in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"agents that are given twice: {', '.join(sorted(twice))}")
    return found


def _read(
    house: House,
    agent: str,
    schedule: str,
    group: dict[str, Any],
    words: dict[str, Any],
    *,
    has_host: bool,
    place: str,
) -> Declared:
    schedule_id = f"{checked_name('agent', agent)}.{checked_name('schedule', schedule)}"
    try:
        target = agent_target(agent, group, words, has_host=has_host)
        complete = agent_words(inherited(words, group), group=group)
        if complete.get("timezone") == "local":
            complete["timezone"] = system_clock.local_zone_name()
        definition = declare(
            schedule_id, complete, target=target, now=house.clock.now(), timezone=house.timezone, group=agent
        )
    except SchedulerError as error:
        raise ConfigError(f"{schedule_id}: {error}") from error
    return Declared(schedule_id, complete, target, definition, agent, place)
