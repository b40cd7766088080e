"""A configuration of Ductile: its plugins are taken over unchanged, and the keys of its other parts are noted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from everwhen.compat.importers import Imported, IncludedFiles, Names, merged
from everwhen.errors import ConfigError

_PLUGIN = "enabled config timeouts circuit_breaker max_outstanding_polls schedule schedules".split()
_SCHEDULE = (
    "id command every cron at after jitter catch_up if_running only_between timezone not_on payload".split()
)
_BREAKER = ("threshold", "reset_after")
_SERVICE = {"name": "name", "tick_interval": "check_interval", "max_workers": "max_workers"}
_FILE = ("plugins", "service", "state", "include")
_DIRECTORIES = ("plugin_dirs", "plugin_roots", "plugins_dir", "plugin_dir")


def import_ductile(document: Any, read: Callable[[str], Any] | None = None) -> Imported:
    """Import the plugins of a Ductile configuration, with their schedules; `read` reads the included files."""
    imported = Imported()
    document = _whole(document, None if read is None else IncludedFiles(read), imported)
    if not isinstance(document, Mapping) or not any(key in document for key in _FILE):
        raise ConfigError("this is not a Ductile configuration: it has no plugins")
    _service(document, imported)
    imported.document["plugin_dirs"] = _directories(document)
    plugins = {
        str(name): _plugin(str(name), fields, imported)
        for name, fields in _plugins(document, imported).items()
    }
    imported.document["plugins"] = {name: fields for name, fields in plugins.items() if fields}
    imported.note_others(document, (*_FILE, *_DIRECTORIES), why=", it is not part of the scheduler")
    return imported


def _whole(document: Any, files: IncludedFiles | None, imported: Imported, level: int = 1) -> Any:
    """Merge a file with its includes: mappings are joined, and later files override earlier ones."""
    if not isinstance(document, Mapping) or not document.get("include"):
        return document
    paths = document["include"] if isinstance(document["include"], list) else [document["include"]]
    found: dict[str, Any] = {key: value for key, value in document.items() if key != "include"}
    for path in paths:
        included = None
        if files is not None:
            included = _whole(files.read(_at_home(path), level), files, imported, level + 1)
        if isinstance(included, Mapping):
            found = merged(found, included)
        else:
            imported.note(f"include {path}: left out, it is not a Ductile configuration")
    return {**found, "include": paths}


def _plugins(document: Mapping[str, Any], imported: Imported) -> dict[str, Any]:
    """Return the plugins by the name of the one that is run. A plugin with aliases (`uses`) can be used once here."""
    plugins = document.get("plugins")
    if plugins is not None and not isinstance(plugins, Mapping):
        imported.note("plugins: left out, they are not a mapping")
    given = plugins if isinstance(plugins, Mapping) else {}
    found = {name: fields for name, fields in given.items() if _used_by(fields) in (None, name)}
    for name, fields in given.items():
        base = _used_by(fields)
        if base in (None, name):
            continue
        if base in found:
            imported.note(
                f"plugins.{name}: left out, it uses {base}, which is here once; copy that plugin's folder as {name}"
            )
        else:
            found[base] = fields
            imported.note(f"plugins.{name}: is named {base}, the plugin that it uses")
    return found


def _used_by(fields: Any) -> str | None:
    uses = fields.get("uses") if isinstance(fields, Mapping) else None
    return None if uses is None else str(uses)


def _service(document: Mapping[str, Any], imported: Imported) -> None:
    fields = document.get("service")
    given = fields if isinstance(fields, Mapping) else {}
    service = {_SERVICE[key]: value for key, value in given.items() if key in _SERVICE}
    imported.note_others(given, (*_SERVICE, *_DIRECTORIES), "service.")
    if "state" in document:
        imported.note("state: Ductile's database is not read; counters, breakers and plugin state begin anew")
    if service:
        imported.document["service"] = service


def _directories(document: Mapping[str, Any]) -> list[str]:
    service = document.get("service")
    for place in (document, service if isinstance(service, Mapping) else {}):
        for key in _DIRECTORIES:
            value = place.get(key)
            if value:
                return [_at_home(path) for path in (value if isinstance(value, list) else [value])]
    return ["plugins"]


def _at_home(path: Any) -> str:
    """Expand `~` to the home of the user who imports."""
    return str(Path(str(path)).expanduser())


def _plugin(name: str, fields: Any, imported: Imported) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        imported.note(f"plugins.{name}: left out, it is not a mapping")
        return {}
    plugin = {key: fields[key] for key in _PLUGIN if fields.get(key) is not None}
    if fields.get("parallelism") is not None:
        plugin["max_concurrent"] = fields["parallelism"]
    imported.note_others(fields, (*_PLUGIN, "parallelism", "uses"), f"plugins.{name}.")
    if isinstance(plugin.get("circuit_breaker"), Mapping):
        plugin["circuit_breaker"] = _only(
            plugin["circuit_breaker"], _BREAKER, f"plugins.{name}.circuit_breaker", imported
        )
    if "schedule" in plugin and "schedules" in plugin:
        imported.note(
            f"plugins.{name}: has schedule and schedules, which Ductile refuses; schedules is taken"
        )
        del plugin["schedule"]
    if "schedule" in plugin:
        plugin["schedule"] = _schedule(plugin["schedule"], f"plugins.{name}.schedule", imported)
    if "schedules" in plugin:
        plugin["schedules"] = _schedules(name, plugin["schedules"], imported)
    return plugin


def _schedules(plugin: str, entries: Any, imported: Imported) -> list[dict[str, Any]]:
    found = [
        _schedule(entry, f"plugins.{plugin}.schedules[{number}]", imported)
        for number, entry in enumerate(entries if isinstance(entries, list) else [])
    ]
    names = Names()
    for entry in found:
        names.take(str(entry.get("id", "")), "default")
    for number, entry in enumerate(found if len(found) > 1 else ()):
        if "id" not in entry:
            found[number] = {"id": names.take(str(entry.get("command", "poll"))), **entry}
            imported.note(
                f'plugins.{plugin}.schedules[{number}]: has no id, which several schedules need; it is "'
                f'{found[number]["id"]}"'
            )
    return found


def _schedule(entry: Any, place: str, imported: Imported) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        imported.note(f"{place}: left out, it is not a mapping")
        return {}
    if entry.get("every") is None and entry.get("catch_up") not in (None, "skip"):
        imported.note(f"{place}.catch_up: Ductile catches up for every only; here it holds for each trigger")
    if entry.get("after") is not None:
        imported.note(
            f"{place}.after: counts from the first load of this file, not from each start of the service"
        )
    return _only(entry, _SCHEDULE, place, imported)


def _only(
    fields: Mapping[str, Any], known: Collection[str], place: str, imported: Imported
) -> dict[str, Any]:
    imported.note_others(fields, known, f"{place}.")
    return {key: fields[key] for key in known if fields.get(key) is not None}
