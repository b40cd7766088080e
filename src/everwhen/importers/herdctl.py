"""Agents of herdctl: one agent's file, or a fleet and the files of its agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from everwhen.errors import ConfigError
from everwhen.importers.imported import Imported, Names

_SCHEDULE = ("type", "interval", "cron", "expression", "prompt", "enabled")
_AGENT = ("default_prompt", "instances", "command", "env", "cwd")
_RENAMED = {"working_directory": "cwd", "workspace": "cwd"}
_KNOWN = (*_AGENT, *_RENAMED, "name", "description", "schedules", "model")
_SOURCES = ("directory", "command")


def import_herdctl(document: Any, read: Callable[[str], Any]) -> Imported:
    """The agents of a file; `read` reads the files that a fleet names."""
    if not isinstance(document, Mapping):
        raise ConfigError("this is no file of herdctl: it is no mapping")
    imported, names = Imported({"agents": {}}), Names()
    for words in _agents(document, read, imported):
        name = names.take(str(words.get("name") or "agent"))
        imported.document["agents"][name] = _agent(name, words, imported)
    if not imported.document["agents"]:
        raise ConfigError("this is no file of herdctl: it has neither agents nor schedules")
    imported.note(".herdctl/state.yaml is not read: disabled schedules have to be paused again")
    return imported


def _agents(
    document: Mapping[str, Any], read: Callable[[str], Any], imported: Imported
) -> list[Mapping[str, Any]]:
    if "agents" not in document:
        return [document] if "schedules" in document or "name" in document else []
    for key in document:
        if key not in ("agents", "version", "fleet", "defaults"):
            imported.note(f"{key}: left out")
    defaults = document.get("defaults")
    found = [_agent_words(entry, read, imported) for entry in _entries(document["agents"])]
    shared = (
        {key: defaults[key] for key in ("instances", "model") if key in defaults}
        if isinstance(defaults, Mapping)
        else {}
    )
    return [{**shared, **words} for words in found]


def _entries(agents: Any) -> list[Any]:
    if isinstance(agents, Mapping):
        return [{"name": name, **words} for name, words in agents.items() if isinstance(words, Mapping)]
    return list(agents) if isinstance(agents, list) else []


def _agent_words(entry: Any, read: Callable[[str], Any], imported: Imported) -> Mapping[str, Any]:
    path = entry if isinstance(entry, str) else entry.get("path") if isinstance(entry, Mapping) else None
    if path is None:
        return entry if isinstance(entry, Mapping) else {}
    words = read(str(path))
    if not isinstance(words, Mapping):
        raise ConfigError(f"{path}: is no agent of herdctl: it is no mapping")
    if isinstance(entry, Mapping) and "overrides" in entry:
        imported.note(f"{path}: overrides are left out")
    return words


def _agent(name: str, words: Mapping[str, Any], imported: Imported) -> dict[str, Any]:
    agent: dict[str, Any] = {"command": _command(name, words, imported)}
    for key in ("default_prompt", "env", "cwd"):
        if words.get(key) is not None:
            agent[key] = words[key]
    for old, new in _RENAMED.items():
        if isinstance(words.get(old), str):
            agent[new] = words[old]
        elif words.get(old) is not None:
            imported.note(f"agents.{name}.{old}: left out, only a path is taken")
    instances = words.get("instances")
    if isinstance(instances, Mapping) and instances.get("max_concurrent") is not None:
        agent["max_concurrent"] = instances["max_concurrent"]
    for key in words:
        if key not in _KNOWN:
            imported.note(f"agents.{name}.{key}: left out, it belongs to the agent's program")
    schedules = words.get("schedules")
    agent["schedules"] = {
        str(key): _schedule(f"agents.{name}.schedules.{key}", entry, imported)
        for key, entry in (schedules.items() if isinstance(schedules, Mapping) else ())
        if isinstance(entry, Mapping)
    }
    return agent


def _command(name: str, words: Mapping[str, Any], imported: Imported) -> list[str]:
    if isinstance(words.get("command"), list):
        return [str(word) for word in words["command"]]
    imported.note(
        f"agents.{name}.command: herdctl runs the agent itself; here a program does, with the prompt on standard input"
    )
    model = ["--model", str(words["model"])] if words.get("model") else []
    return ["claude", "-p", *model]


def _schedule(place: str, entry: Mapping[str, Any], imported: Imported) -> dict[str, Any]:
    schedule = {key: entry[key] for key in _SCHEDULE if entry.get(key) is not None}
    source = entry.get("work_source")
    if isinstance(source, Mapping) and source.get("type") in _SOURCES:
        schedule["work_source"] = dict(source)
    elif source is not None:
        kind = source.get("type") if isinstance(source, Mapping) else source
        imported.note(
            f"{place}.work_source: {kind} is not among those that come with everwhen (directory, command); left out"
        )
    for key in entry:
        if key not in (*_SCHEDULE, "work_source"):
            imported.note(f"{place}.{key}: left out")
    return schedule
