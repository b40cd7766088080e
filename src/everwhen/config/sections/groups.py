"""The sections `plugins`, `agents` and `workflows`: groups, which share one name space, with their schedules.

Schedules of workflows come from the `schedules` section or over REST.
"""

from __future__ import annotations

import json
import re
from typing import Any

from everwhen.config.document import DocumentNode
from everwhen.config.problems import Path
from everwhen.config.sections.collector import NOTHING, ScheduleCollector
from everwhen.config.target_fields import target_of
from everwhen.errors import ManifestError, SchedulerError, shown
from everwhen.model.declare import timeout_of
from everwhen.model.defaults import with_defaults
from everwhen.model.group import (
    RESERVED,
    Workflow,
    agent_target,
    general_fields_of_agent,
    is_anothers,
    is_longer,
    tenant_of,
)
from everwhen.model.plugin import Manifest, missing_config, plugin_schedule_faults, plugin_target
from everwhen.model.scalars import Severity
from everwhen.model.schedule import Target
from everwhen.model.target_kinds import DEFAULT_COMMAND, GROUP_KINDS


def join(node: DocumentNode, name: str, kind: str, collector: ScheduleCollector) -> dict[str, Any]:
    """Reserve the name, or report that it is taken; return the group's own valid fields."""
    place = node.place
    first, first_kind = collector.group_places.setdefault(name, (place, kind))
    if first is not place:
        node.complain(
            f"the name is taken by a{'n' if first_kind == 'agent' else ''} {first_kind}, in {first}"
        )
    fields = node.fields()
    collector.groups.setdefault((kind, name), fields)
    return fields


def find_tenant(
    node: DocumentNode, fields: dict[str, Any], kind: str, group: dict[str, Any], command: str | None = None
) -> str | None:
    """Return the owner that uses another owner's shared group; None if the schedule belongs to the group's owner.

    Report the keys that such an owner may not set, and an owner who does not own the group.
    """
    owner = fields.get("owner")
    if is_anothers(group, owner):
        node.complain(f'must be "{group["owner"]}", whose {kind} it runs; leave it out', "owner")
    tenant = tenant_of(group, owner)
    if tenant is None:
        return None
    for key in RESERVED:
        if key in fields:
            node.complain(f"is set by the shared {kind} for all its users; leave it out", key)
    if "timeout" in fields and _is_too_long(fields["timeout"], kind, group, command):
        node.complain(f"is longer than the timeout of the shared {kind}; use a shorter one", "timeout")
    return tenant


def _is_too_long(value: Any, kind: str, group: dict[str, Any], command: str | None) -> bool:
    try:
        return is_longer(timeout_of(value, 0), kind, group, command)
    except SchedulerError:  # reported where it is declared
        return False


# -- plugins: their schedules are checked against the installed manifests --

_BOTH = 'set either "schedule" or "schedules", not both'
_NO_ID = "id is required when a plugin has several schedules"


def read_plugins(node: DocumentNode, collector: ScheduleCollector) -> None:
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
                _read_plugin_schedule(
                    entry, name, str(schedule_id or "default"), group, manifest=manifest, collector=collector
                )


def find_manifest(node: DocumentNode, name: str, collector: ScheduleCollector) -> Manifest | None:
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


def _refuse_missing_config(node: DocumentNode, manifest: Manifest, group: dict[str, Any]) -> None:
    for key in missing_config(manifest, group.get("config") or {}):
        node.complain(
            f'config has no "{shown(key)}", which the plugin requires',
            *(["config"] if "config" in group else []),
        )


def _entries(plugin: DocumentNode) -> list[DocumentNode]:
    fields = plugin.value if isinstance(plugin.value, dict) else {}
    has_one, has_many = fields.get("schedule") is not None, fields.get("schedules") is not None
    if has_one and has_many:
        plugin.complain(_BOTH)
    return [plugin["schedule"]] if has_one else plugin["schedules"].items() if has_many else []


def _read_plugin_schedule(
    entry: DocumentNode,
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
    entry: DocumentNode,
    within: Path,
    manifest: Manifest,
    schedule_id: str,
    command: str,
    payload: dict[str, Any],
) -> None:
    """Report what the plugin's manifest does not allow; `within` is the path to the command."""
    for fault in plugin_schedule_faults(manifest, schedule_id, command, payload):
        path = ("payload",) if "payload" in fault else (*within, "command")
        entry.complain(fault, *(path if entry.has(path) else within))


# -- agents: schedules have keys of their own beside the general ones --

MOST_JITTER = 10  # percent
_TYPES = {"interval": ("interval", "every"), "cron": ("cron", "expression")}
_PERCENT = re.compile(r"\s*([0-9]+) ?%\s*")


def read_agents(node: DocumentNode, collector: ScheduleCollector) -> None:
    for name, agent in node.entries():
        group = join(agent, name, "agent", collector)
        _refuse_two_limits(agent, group)
        if "command" not in (agent.value if isinstance(agent.value, dict) else {}):
            agent.complain("command is required: the program that is the agent, as in [claude, -p]")
        schedules = agent["schedules"].entries() if group.get("schedules") or _has_schedules(agent) else []
        for schedule, entry in schedules:
            if isinstance(entry.value, dict):
                _read_agent_schedule(entry, name, schedule, group, collector)


def _has_schedules(agent: DocumentNode) -> bool:
    return isinstance(agent.value, dict) and isinstance(agent.value.get("schedules"), dict)


def _refuse_two_limits(agent: DocumentNode, group: dict[str, Any]) -> None:
    instances = group.get("instances") or {}
    both = [group.get("max_concurrent"), instances.get("max_concurrent")]
    if None not in both and both[0] != both[1]:
        agent.complain(
            f"max_concurrent is {both[0]} here and {both[1]} in instances; keep one", "max_concurrent"
        )


def _read_agent_schedule(
    entry: DocumentNode, agent: str, schedule: str, group: dict[str, Any], collector: ScheduleCollector
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


def _refuse_mixture(entry: DocumentNode, fields: dict[str, Any]) -> None:
    kind = fields.get("type")
    others = [
        key for type_, keys in _TYPES.items() if type_ != kind for key in keys if kind and key in fields
    ]
    others += [key for key in ("at", "after") if kind and key in fields]
    for key in others:
        entry.complain(f"is not allowed with type {kind}", key)
    if "cron" in fields and "expression" in fields:
        entry.complain("means the same as cron; keep only one of them", "expression")
    for key in ("secret", "signature"):
        if fields.get(key) is not None and kind != "webhook":
            entry.complain("is only for a webhook", key)
    if fields.get("signature") is not None and fields.get("secret") is None:
        entry.complain("requires secret", "signature")
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


# -- workflows: what a workflow_id starts --

_NOT_A_WORKFLOW = "is started by the workflow; a workflow itself runs over command, http or python"


def read_workflows(node: DocumentNode, collector: ScheduleCollector) -> None:
    for workflow_id, child in node.entries():
        fields = join(child, workflow_id, "workflow", collector)
        run = fields.get("run")
        if run is None:
            continue
        for kind in GROUP_KINDS:
            if kind in run:
                child["run"].complain(_NOT_A_WORKFLOW, kind)
                return
        collector.workflows[workflow_id] = Workflow(
            workflow_id, target_of(run), fields.get("name") or "", tuple(fields.get("triggers") or ())
        )
