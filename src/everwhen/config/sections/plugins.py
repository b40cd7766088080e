"""The `plugins` section: plugins and their schedules, checked against the installed manifests."""

from __future__ import annotations

from typing import Any

from everwhen.config.document import Node
from everwhen.config.problems import Path
from everwhen.config.sections.collector import ScheduleCollector, find_tenant, join
from everwhen.errors import ManifestError, shown
from everwhen.model.defaults import with_defaults
from everwhen.model.plugin import Manifest, missing_config, plugin_schedule_faults, plugin_target
from everwhen.model.scalars import Severity
from everwhen.model.target_kinds import DEFAULT_COMMAND

_BOTH = 'set either "schedule" or "schedules", not both'
_NO_ID = "id is required when a plugin has several schedules"


def read_plugins(node: Node, collector: ScheduleCollector) -> None:
    for name, plugin in node.entries():
        group = join(plugin, name, "plugin", collector)
        manifest = find_manifest(plugin, name, collector)
        if manifest is not None:
            _refuse_missing_config(plugin, manifest, group)
        entries = _entries(plugin)
        for entry in entries:
            schedule_id = entry.value.get("id") if isinstance(entry.value, dict) else None
            if schedule_id is None and len(entries) > 1:
                entry.complain(_NO_ID)
            elif isinstance(entry.value, dict):
                _read(
                    entry, name, str(schedule_id or "default"), group, manifest=manifest, collector=collector
                )


def find_manifest(node: Node, name: str, collector: ScheduleCollector) -> Manifest | None:
    """Return the manifest of an installed plugin; report a missing or broken one once."""
    if name in collector.manifests:
        return collector.manifests[name]
    manifest: Manifest | None = None
    try:
        plugin = collector.rules.plugins.find(name)
        manifest = plugin.manifest if plugin is not None else None
        for warning in plugin.warnings if plugin is not None else ():
            node.complain(warning, severity="warning")
        if plugin is None:
            severity: Severity = "warning" if node.value.get("enabled") is False else "error"
            node.complain(
                f'plugin "{shown(name)}" is not installed in {collector.rules.plugin_dirs}', severity=severity
            )
    except ManifestError as error:
        node.complain(str(error))
    collector.manifests[name] = manifest
    return manifest


def _refuse_missing_config(node: Node, manifest: Manifest, group: dict[str, Any]) -> None:
    for key in missing_config(manifest, group.get("config") or {}):
        node.complain(
            f'config lacks "{shown(key)}", which the plugin requires',
            *(["config"] if "config" in group else []),
        )


def _entries(plugin: Node) -> list[Node]:
    fields = plugin.value if isinstance(plugin.value, dict) else {}
    has_one, has_many = fields.get("schedule") is not None, fields.get("schedules") is not None
    if has_one and has_many:
        plugin.complain(_BOTH)
    return [plugin["schedule"]] if has_one else plugin["schedules"].items() if has_many else []


def _read(
    entry: Node,
    plugin: str,
    schedule_id: str,
    group: dict[str, Any],
    manifest: Manifest | None,
    collector: ScheduleCollector,
) -> None:
    own = entry.fields()
    command = own.get("command", DEFAULT_COMMAND)
    tenant = find_tenant(entry, own, "plugin", group, command)
    fields = with_defaults(own, "plugin", group=group, manifest=manifest)
    fields.pop("id", None)
    if manifest is not None:
        refuse_faults(entry, (), manifest, schedule_id, command=command, payload=fields.get("payload") or {})
    target = plugin_target(plugin, command, group.get("config"), tenant=tenant)
    collector.add(entry, f"{plugin}.{schedule_id}", fields, target, group=plugin, tenant=tenant)


def refuse_faults(
    entry: Node, within: Path, manifest: Manifest, schedule_id: str, command: str, payload: dict[str, Any]
) -> None:
    """Report what the plugin's manifest does not allow (D38–D40); `within` is the path to the command."""
    for fault in plugin_schedule_faults(manifest, schedule_id, command, payload):
        path = ("payload",) if "payload" in fault else (*within, "command")
        entry.complain(fault, *(path if entry.has(path) else within))
