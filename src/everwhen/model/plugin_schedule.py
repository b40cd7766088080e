"""Validation of a plugin's schedules: the rules that configuration, REST and every restart apply (D38–D40)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from everwhen.model.fields import Definition
from everwhen.model.manifest import UNSCHEDULABLE, Command, Manifest
from everwhen.model.payload_schema import defaults_of, payload_faults
from everwhen.model.target_kinds import DEFAULT_COMMAND, Target


def plugin_schedule_faults(
    manifest: Manifest, schedule_id: str, command: str, payload: Mapping[str, Any]
) -> list[str]:
    """Return why a plugin's command cannot be scheduled with this payload; an empty list when it can."""
    if command == UNSCHEDULABLE:
        return [f'command "{UNSCHEDULABLE}" cannot be scheduled']
    declared = manifest.command(command)
    if declared is None:
        return [f'schedule "{schedule_id}" references unsupported command "{command}"']
    faults = payload_faults(declared.input_schema, merged_payload(declared, payload))
    return [f'schedule "{schedule_id}": {fault}' for fault in faults]


def merged_payload(command: Command, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload merged over the command's defaults: the plugin's input, which must satisfy its schema."""
    return {**defaults_of(command.input_schema), **payload}


def plugin_target(
    plugin: str, command: str, config: Mapping[str, Any] | None = None, *, tenant: str | None = None
) -> Target:
    """Return the target that runs a command of a plugin with the configuration of its group.

    `tenant` is an owner that uses a shared plugin of another owner: it has a separate plugin state (X9).
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
    """Return why a stored schedule of a plugin cannot run any more, or None when it can (R7)."""
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
