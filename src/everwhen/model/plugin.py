"""Plugins: the manifest as a value, with its commands and their inputs, and the rules for schedules of plugins.

`targets` reads the files. The format is `ductile.plugin`, protocol 2. Unknown keys are ignored, so that a manifest of a
newer format can be read as far as it is supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from everwhen.errors import ManifestError, shown
from everwhen.model.fields import Definition
from everwhen.model.payload import defaults_of, payload_faults
from everwhen.model.scalars import hint
from everwhen.model.target_kinds import DEFAULT_COMMAND, Target

PROTOCOL = 2
_FORMAT: dict[str, str | int] = {
    "manifest_spec": "ductile.plugin",
    "manifest_version": 1,
    "protocol": PROTOCOL,
}
UNSCHEDULABLE = "handle"

CommandType = Literal["read", "write"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_COMMAND = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a plugin. `retry_safe` None: the manifest does not set it."""

    name: str
    type: CommandType = "write"
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    idempotent: bool | None = None
    retry_safe: bool | None = None
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The declaration of a plugin. `entrypoint` is a path inside its folder."""

    name: str
    version: str
    entrypoint: str
    commands: tuple[Command, ...]
    description: str = ""
    required_config: tuple[str, ...] = ()
    optional_config: tuple[str, ...] = ()
    concurrency_safe: bool = True
    fact_outputs: tuple[Mapping[str, Any], ...] = ()

    def command(self, name: str) -> Command | None:
        return next((command for command in self.commands if command.name == name), None)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that can be run: manifest, folder, its program with links resolved, and warnings for the operator."""

    manifest: Manifest
    folder: str
    entrypoint: str
    warnings: tuple[str, ...] = ()


class Plugins(Protocol):
    """The plugins that are installed."""

    def find(self, name: str) -> Plugin | None:
        """Return the plugin as it is on disk now; None when there is none; ManifestError when it is unusable."""
        ...


def parse_manifest(document: Any, where: str = "manifest.yaml") -> Manifest:
    """Parse a manifest; raise ManifestError with every problem in the document."""
    problems: list[str] = []
    if not isinstance(document, Mapping):
        raise ManifestError(where, ["must be a mapping that begins with manifest_spec: ductile.plugin"])
    for key, wanted in _FORMAT.items():
        _expect(document, key, wanted, problems)
    required, optional = _config_keys(document.get("config_keys"), problems)
    manifest = Manifest(
        name=_name(document.get("name"), problems),
        version=str(document.get("version") or ""),
        entrypoint=_entrypoint(document.get("entrypoint"), problems),
        commands=_commands(document.get("commands"), problems),
        description=str(document.get("description") or ""),
        required_config=required,
        optional_config=optional,
        concurrency_safe=_typed(document, "concurrency_safe", "", problems, bool) is not False,
        fact_outputs=_fact_outputs(document.get("fact_outputs"), problems),
    )
    if problems:
        raise ManifestError(where, problems)
    return manifest


def missing_config(manifest: Manifest, config: Mapping[str, Any]) -> list[str]:
    """Return the required keys that a plugin's configuration lacks."""
    return [key for key in manifest.required_config if config.get(key) is None]


def _expect(document: Mapping[str, Any], key: str, wanted: str | int, problems: list[str]) -> None:
    given = document.get(key)
    if given is None:
        problems.append(f"{key} is required: {wanted}")
    elif isinstance(given, bool) or given != wanted:
        problems.append(f'{key} "{shown(given)}" is not supported, only {wanted}')


def _name(value: Any, problems: list[str]) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    problems.append(f'name "{shown(value)}" must be letters, digits, - and _, at most 100')
    return ""


def _entrypoint(value: Any, problems: list[str]) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        problems.append("entrypoint is required: the program inside the plugin's folder")
        return ""
    if value.startswith("/") or ".." in value.split("/"):
        problems.append(f'entrypoint "{shown(value)}" must lie inside the plugin\'s folder')
    return value


def _commands(value: Any, problems: list[str]) -> tuple[Command, ...]:
    if not isinstance(value, list) or not value:
        problems.append("commands must be a list with at least one {name, type}")
        return ()
    commands = [_command(entry, f"commands[{number}]", problems) for number, entry in enumerate(value)]
    found = [command for command in commands if command is not None]
    for name in {c.name for c in found if [o.name for o in found].count(c.name) > 1}:
        problems.append(f'command "{name}" is declared twice')
    return tuple(found)


def _command(entry: Any, place: str, problems: list[str]) -> Command | None:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    if not isinstance(name, str) or not _COMMAND.fullmatch(name.strip()):
        problems.append(f"{place}: needs a name that begins with a letter, then letters, digits, - and _")
        return None
    kind = entry.get("type", "write")
    if kind not in ("read", "write"):
        problems.append(f'{place}: type "{shown(kind)}" must be read or write')
    return Command(
        name=name.strip(),
        type="read" if kind == "read" else "write",
        description=str(entry.get("description") or ""),
        input_schema=_typed(entry, "input_schema", f"{place}.", problems, Mapping),
        output_schema=_typed(entry, "output_schema", f"{place}.", problems, Mapping),
        idempotent=_typed(entry, "idempotent", f"{place}.", problems, bool),
        retry_safe=_typed(entry, "retry_safe", f"{place}.", problems, bool),
        values=_typed(entry, "values", f"{place}.", problems, Mapping),
    )


def _config_keys(value: Any, problems: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if value is None:
        return (), ()
    if not isinstance(value, Mapping):
        problems.append("config_keys must be {required: […], optional: […]}")
        return (), ()
    return _texts(value, "required", problems), _texts(value, "optional", problems)


def _texts(mapping: Mapping[str, Any], key: str, problems: list[str]) -> tuple[str, ...]:
    value = mapping.get(key) or []
    if not isinstance(value, list):
        problems.append(f"config_keys.{key} must be a list of names")
        return ()
    return tuple(str(name) for name in value)


def _fact_outputs(value: Any, problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(rule, Mapping) for rule in value):
        problems.append("fact_outputs must be a list of rules")
        return ()
    return tuple(value)


def _typed(entry: Mapping[str, Any], key: str, place: str, problems: list[str], kind: type) -> Any:
    value = entry.get(key)
    if value is None or isinstance(value, kind):
        return value
    problems.append(f"{place}{key}: must be {'true or false' if kind is bool else 'a mapping'}")
    return None


# Validation of a plugin's schedules: the rules that configuration, REST and every restart apply.


def plugin_schedule_faults(
    manifest: Manifest, schedule_id: str, command: str, payload: Mapping[str, Any]
) -> list[str]:
    """Return why a plugin's command cannot be scheduled with this payload; an empty list when it can."""
    if command == UNSCHEDULABLE:
        return [f'command "{UNSCHEDULABLE}" cannot be scheduled']
    declared = manifest.command(command)
    if declared is None:
        names = hint(command, [one.name for one in manifest.commands if one.name != UNSCHEDULABLE])
        return [f'schedule "{schedule_id}" references unsupported command "{command}"{names}']
    faults = payload_faults(declared.input_schema, merged_payload(declared, payload))
    return [f'schedule "{schedule_id}": {fault}' for fault in faults]


def merged_payload(command: Command, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload merged over the command's defaults: the plugin's input, which must satisfy its schema."""
    return {**defaults_of(command.input_schema), **payload}


def plugin_target(
    plugin: str, command: str, config: Mapping[str, Any] | None = None, *, tenant: str | None = None
) -> Target:
    """Return the target that runs a command of a plugin with the configuration of its group.

    `tenant` is an owner that uses a shared plugin of another owner: it has a separate plugin state.
    """
    spec = {"name": plugin, "command": command, "config": dict(config or {})}
    if tenant is not None:
        spec["tenant"] = tenant
    return Target("plugin", json.dumps(spec, sort_keys=True))


def memory_of(spec: Mapping[str, Any]) -> str:
    """Return the name under which the plugin state of this target is stored.

    >>> memory_of({"name": "echo"}), memory_of({"name": "echo", "tenant": "bob"})
    ('echo', 'echo@bob')
    """
    return f"{spec['name']}@{spec['tenant']}" if "tenant" in spec else str(spec["name"])


def plugin_drift(schedule_id: str, definition: Definition, manifest: Manifest | None) -> str | None:
    """Return why a stored schedule of a plugin cannot run any more, or None when it can."""
    spec = json.loads(definition.target.spec)
    if manifest is None:
        return f'plugin "{spec["name"]}" is not installed'
    faults = plugin_schedule_faults(
        manifest,
        schedule_id.rpartition(".")[2],
        spec.get("command") or DEFAULT_COMMAND,
        json.loads(definition.payload),
    )
    return "; ".join(faults) or None
