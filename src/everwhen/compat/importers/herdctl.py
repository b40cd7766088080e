"""Agents of herdctl: one agent's file, or a fleet and the files of its agents."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from everwhen.compat.importers import Imported, IncludedFiles, Names, merged
from everwhen.errors import ConfigError, shown

_SCHEDULE = ("type", "interval", "cron", "expression", "prompt", "enabled")
_AGENT = ("default_prompt", "instances", "command", "env", "cwd")
_FOLDERS = ("cwd", "working_directory", "workspace")  # the first that is given counts
_KNOWN = (*_AGENT, "name", "schedules", "model", "work_source")
_SOURCES = ("directory", "command")
_DEFAULTS = ("instances", "model", "work_source")
_FILE = ("agents", "fleets", "defaults", "fleet", "version", "schedules", "name")

Read = Callable[[str], Any]


class _Fleet(NamedTuple):
    """Where a file of agents is: its folder, the fleet inside a fleet, and how many files name one another up to it."""

    files: IncludedFiles
    folder: str
    team: str = ""
    level: int = 1

    def read(self, path: str) -> Any:
        return self.files.read(_joined(self.folder, path), self.level)


class _Agent(NamedTuple):
    """An agent, and the folder of its file, to which its paths are relative; `team`: the fleet inside a fleet."""

    fields: Mapping[str, Any]
    folder: str
    team: str = ""


def import_herdctl(document: Any, read: Read, folder: str = ".") -> Imported:
    """Import the agents of a file in that folder; `read` reads the files of a fleet, by their paths from there."""
    if not isinstance(document, Mapping):
        raise ConfigError("this is not a herdctl file: it is not a mapping")
    if not any(key in document for key in _FILE):
        raise ConfigError("this is not a herdctl file: it has neither agents nor schedules")
    imported, names = Imported({"agents": {}}), Names()
    for found in _agents(document, _Fleet(IncludedFiles(read), folder), imported):
        wish = str(found.fields.get("name") or "agent")
        name = names.take(f"{found.team}-{wish}" if found.team else wish)
        imported.document["agents"][name] = _agent(name, found, imported)
    imported.note(".herdctl/state.yaml is not read: disabled schedules have to be paused again")
    return imported


def _agents(document: Mapping[str, Any], fleet: _Fleet, imported: Imported) -> Iterator[_Agent]:
    """Yield the agents of a file, then those of the fleets that it names."""
    if not any(key in document for key in ("agents", "fleets", "fleet", "defaults", "version")):
        yield _Agent(_with_cwd(document), fleet.folder, fleet.team)
        return
    place = f"{fleet.team}: " if fleet.team else ""
    imported.note_others(document, ("agents", "fleets", "defaults", "version"), place)
    shared = _defaults(document.get("defaults"), place, imported)
    for entry in _entries(document.get("agents"), f"{place}agents", imported):
        fields, home = _agent_fields(entry, fleet, imported)
        yield _Agent(merged(shared, fields), home, fleet.team)
    for number, entry in enumerate(_entries(document.get("fleets"), f"{place}fleets", imported)):
        yield from _fleet(entry, f"fleets[{number}]", fleet, imported)


def _fleet(entry: Any, place: str, above: _Fleet, imported: Imported) -> Iterator[_Agent]:
    path = entry if isinstance(entry, str) else entry.get("path") if isinstance(entry, Mapping) else None
    document = None if path is None else above.read(str(path))
    if path is None or not isinstance(document, Mapping):
        imported.note(f"{place}: left out, it names no file of a fleet")
        return
    given = entry if isinstance(entry, Mapping) else {}
    document = merged(document, _overrides(given, str(path), imported))
    about = document.get("fleet")
    called = given.get("name") or (about.get("name") if isinstance(about, Mapping) else None)
    name = str(called or posixpath.splitext(posixpath.basename(str(path)))[0])
    imported.note(f"{place}: its agents are named {name}-…, as everwhen knows one level of names")
    home = posixpath.dirname(_joined(above.folder, str(path)))
    team = f"{above.team}-{name}" if above.team else name
    yield from _agents(document, _Fleet(above.files, home, team, above.level + 1), imported)


def _defaults(defaults: Any, place: str, imported: Imported) -> dict[str, Any]:
    fields = defaults if isinstance(defaults, Mapping) else {}
    imported.note_others(fields, _DEFAULTS, f"{place}defaults.")
    return {key: fields[key] for key in _DEFAULTS if key in fields}


def _entries(entries: Any, place: str, imported: Imported) -> list[Any]:
    if isinstance(entries, Mapping):
        entries = [
            {"name": name, **fields} if isinstance(fields, Mapping) else fields
            for name, fields in entries.items()
        ]
    if entries is not None and not isinstance(entries, list):
        imported.note(f"{place}: left out, it is not a list")
    return list(entries) if isinstance(entries, list) else []


def _agent_fields(entry: Any, fleet: _Fleet, imported: Imported) -> tuple[Mapping[str, Any], str]:
    """Return the fields of an agent, with its fleet's overrides, and the folder of its file."""
    path = entry if isinstance(entry, str) else entry.get("path") if isinstance(entry, Mapping) else None
    if path is None:
        if not isinstance(entry, Mapping):
            imported.note(f"agents: {shown(entry)} is left out, it is neither an agent nor a path")
        return (_with_cwd(entry) if isinstance(entry, Mapping) else {}), fleet.folder
    fields = fleet.read(str(path))
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{path}: is not a herdctl agent: it is not a mapping")
    given = entry if isinstance(entry, Mapping) else {}
    for key in given:
        if key not in ("path", "overrides", "name"):
            imported.note(f"{path}: {key} beside the path is left out")
    named = {"name": given["name"]} if given.get("name") else {}
    whole = merged(_with_cwd(fields), _with_cwd(_overrides(given, str(path), imported)))
    return merged(whole, named), posixpath.dirname(_joined(fleet.folder, str(path)))


def _overrides(entry: Mapping[str, Any], path: str, imported: Imported) -> Mapping[str, Any]:
    overrides = entry.get("overrides") or {}
    if isinstance(overrides, Mapping):
        return overrides
    imported.note(f"{path}: overrides are left out, they are not a mapping")
    return {}


def _with_cwd(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with one name for the folder of the runs, so that overrides meet what they override."""
    folders = [fields[key] for key in _FOLDERS if fields.get(key) is not None]
    others = {key: value for key, value in fields.items() if key not in _FOLDERS}
    return others | {"cwd": folders[0]} if folders else others


def _joined(folder: str, path: str) -> str:
    """Join a folder and a path relative to it; `~` is the home of the user who imports."""
    return posixpath.normpath(posixpath.join(folder, posixpath.expanduser(path)))


def _agent(name: str, found: _Agent, imported: Imported) -> dict[str, Any]:
    fields = found.fields
    agent: dict[str, Any] = {"command": _command(name, fields, imported)}
    for key in ("default_prompt", "env"):
        if fields.get(key) is not None:
            agent[key] = fields[key]
    _take_folder(name, agent, found, imported)
    instances = fields["instances"] if isinstance(fields.get("instances"), Mapping) else {}
    if instances.get("max_concurrent") is not None:
        agent["max_concurrent"] = instances["max_concurrent"]
    imported.note_others(instances, ("max_concurrent",), f"agents.{name}.instances.")
    imported.note_others(fields, _KNOWN, f"agents.{name}.", ", it belongs to the agent's program")
    agent["schedules"] = _schedules(name, fields, imported)
    return agent


def _take_folder(name: str, agent: dict[str, Any], found: _Agent, imported: Imported) -> None:
    """Set the folder of the runs: relative to the agent's own file, whose folder it is where the agent names none."""
    value, place = found.fields.get("cwd"), f"agents.{name}.working_directory"
    path = value.get("root") if isinstance(value, Mapping) else value
    agent["cwd"] = _joined(found.folder, path if isinstance(path, str) else ".")
    if value is None:
        imported.note(f"{place}: is not given; cwd is the folder of the agent's file, as in herdctl")
    elif not isinstance(path, str):
        imported.note(f"{place}: left out, only a path is taken; cwd is the folder of the agent's file")
    imported.note_others(value if isinstance(value, Mapping) else (), ("root",), f"{place}.")
    if "${" not in agent["cwd"] and not posixpath.isdir(agent["cwd"]):
        imported.note(f"{place}: {agent['cwd']} is not a folder of this machine; runs fail until it is")


def _schedules(name: str, fields: Mapping[str, Any], imported: Imported) -> dict[str, Any]:
    schedules, source = fields.get("schedules"), fields.get("work_source")
    found: dict[str, Any] = {}
    for key, entry in schedules.items() if isinstance(schedules, Mapping) else ():
        place = f"agents.{name}.schedules.{key}"
        if not isinstance(entry, Mapping):
            imported.note(f"{place}: left out, it is not a mapping")
            continue
        given = entry if source is None or "work_source" in entry else {**entry, "work_source": source}
        found[str(key)] = _schedule(place, given, imported)
    if schedules is not None and not isinstance(schedules, Mapping):
        imported.note(f"agents.{name}.schedules: left out, they are not a mapping")
    return found


def _command(name: str, fields: Mapping[str, Any], imported: Imported) -> list[str]:
    if isinstance(fields.get("command"), list):
        return [str(word) for word in fields["command"]]
    imported.note(
        f"agents.{name}.command: herdctl runs the agent itself; here a program does, with the prompt on standard input"
    )
    model = ["--model", str(fields["model"])] if fields.get("model") else []
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
    imported.note_others(entry, (*_SCHEDULE, "work_source"), f"{place}.")
    return schedule
