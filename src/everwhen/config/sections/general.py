"""The `schedules` section, whose `run` is any target; a schedule that runs a group's work takes the group's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.config.document import DocumentNode
from everwhen.config.sections.collector import NOTHING, ScheduleCollector
from everwhen.config.sections.groups import find_manifest, find_tenant, refuse_faults
from everwhen.config.target_fields import target_of
from everwhen.errors import SchedulerError, shown
from everwhen.model.defaults import with_defaults
from everwhen.model.group import NOT_FOUND, agent_target, tenant_of, workflow_target
from everwhen.model.plugin import plugin_target
from everwhen.model.scalars import hint
from everwhen.model.schedule import Target
from everwhen.model.target_kinds import DEFAULT_COMMAND, GROUP_KINDS


def read_schedules(node: DocumentNode, collector: ScheduleCollector) -> None:
    for item in node.items():
        if not collector.add_again(item) and "id" in (fields := item.fields()):
            read_schedule(item, fields["id"], collector)


def read_schedule(
    item: DocumentNode,
    schedule_id: str,
    collector: ScheduleCollector,
    given: Target | None = None,
    group_of_given: str | None = None,
) -> None:
    """Read one general schedule whose keys were checked; `given` is its target, whatever its `run` says."""
    fields = {key: value for key, value in item.fields().items() if key != "id"}
    if collector.rules.owner is not None:
        fields.setdefault("owner", collector.rules.owner)
    run = fields.pop("run", None)
    found = group_in(run or {})
    if run is None or found is None:
        target = given or _target(item, run, collector)
        fields = with_defaults(fields, target.kind, shape=collector.shape)
        collector.add(item, schedule_id, fields, target, group=group_of_given)
        return
    kind, name = found
    group = collector.groups.get(found)
    if group is None:
        _refuse_unknown(item, kind, name, collector)
        return
    tenant = find_tenant(item, fields, kind, group, run[kind].get("command") or DEFAULT_COMMAND)
    manifest = None
    if kind == "plugin":
        fields["command"] = run[kind].get("command") or DEFAULT_COMMAND
        manifest = find_manifest(item["run"][kind], name, collector)
    fields = with_defaults(fields, kind, group=group, manifest=manifest, shape=collector.shape)
    target = NOTHING
    match kind:
        case "plugin":
            target = _plugin_target(item, schedule_id, name, fields, collector)
        case "agent" if "command" in group:
            target = agent_target(name, group, run[kind])
        case "workflow":
            target = _workflow_target(item, name, run[kind], fields.get("owner"), collector)
    collector.add(item, schedule_id, fields, target, group=name, tenant=tenant)


def group_in(run: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the kind and the name of the group that `run` names; None if it names another target."""
    for kind in GROUP_KINDS:
        if isinstance(run.get(kind), dict):
            return kind, str(run[kind].get("id" if kind == "workflow" else "name"))
    return None


def _target(item: DocumentNode, run: dict[str, Any] | None, collector: ScheduleCollector) -> Target:
    if run is None:
        return NOTHING
    if run.get("python") is not None and collector.rules.python_fault is not None:
        fault = collector.rules.python_fault(run["python"])
        if fault is not None:
            item["run"].complain(fault, "python")
    try:
        return target_of(run)
    except SchedulerError as error:
        item["run"].complain(str(error))
        return NOTHING


def _refuse_unknown(item: DocumentNode, kind: str, name: str, collector: ScheduleCollector) -> None:
    known = [other for group, other in collector.groups if group == kind]
    names = hint(name, known)  # over REST: those that the caller may use
    if kind == "workflow":
        sentence = names.lstrip(",; ")
        more = f" {sentence[0].upper()}{sentence[1:]}" if sentence else ""
        item["run"]["workflow"].complain(f"{NOT_FOUND}{more}", "id")
    else:
        where = "this file" if collector.is_file else "the configuration"
        item["run"][kind].complain(f'there is no {kind} "{shown(name)}" in {where}{names}', "name")


def _plugin_target(
    item: DocumentNode, schedule_id: str, name: str, fields: dict[str, Any], collector: ScheduleCollector
) -> Target:
    command, manifest, payload = fields["command"], collector.manifests[name], fields.get("payload") or {}
    if manifest is not None:
        refuse_faults(item, ("run", "plugin"), manifest, schedule_id, command=command, payload=payload)
    group = collector.groups["plugin", name]
    return plugin_target(name, command, group.get("config"), tenant=tenant_of(group, fields.get("owner")))


def _workflow_target(
    item: DocumentNode, name: str, run: dict[str, Any], owner: str | None, collector: ScheduleCollector
) -> Target:
    """Refuse an unknown trigger in a file, which names both; what is submitted may name one that comes later."""
    workflow, trigger = collector.workflows.get(name), run.get("trigger_node_id")
    known = () if workflow is None or trigger is None else workflow.triggers
    if collector.is_file and known and trigger not in known:
        item["run"]["workflow"].complain(
            f'workflow "{name}" has no trigger "{shown(trigger)}", only {", ".join(known)}', "trigger_node_id"
        )
    return workflow_target(name if collector.is_file else run["id"], trigger_node_id=trigger, owner=owner)
