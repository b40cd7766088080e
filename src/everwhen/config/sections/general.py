"""The `schedules` section, whose `run` is any target; a schedule that runs a group's work takes the group's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.config.document import Node
from everwhen.config.sections.collector import NOTHING, ScheduleCollector, find_tenant
from everwhen.config.sections.plugins import find_manifest, refuse_faults
from everwhen.config.target_fields import target_of
from everwhen.errors import SchedulerError, shown
from everwhen.model.agent_schedule import agent_target
from everwhen.model.defaults import with_defaults
from everwhen.model.group import NOT_FOUND, tenant_of, workflow_target
from everwhen.model.plugin import plugin_target
from everwhen.model.scalars import unknown
from everwhen.model.schedule import Target
from everwhen.model.target_kinds import DEFAULT_COMMAND, GROUP_KINDS


def read_schedules(node: Node, collector: ScheduleCollector) -> None:
    for item in node.items():
        if not collector.add_again(item) and "id" in (fields := item.fields()):
            read_schedule(item, fields["id"], collector)


def read_schedule(
    item: Node,
    schedule_id: str,
    collector: ScheduleCollector,
    given: Target | None = None,
    group_of_given: str | None = None,
) -> None:
    """Read one general schedule whose keys were checked; `given` is its target, whatever its `run` says."""
    fields = {key: value for key, value in item.fields().items() if key != "id"}
    if collector.owner is not None:
        fields.setdefault("owner", collector.owner)
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
    target = _TARGETS[kind](item, schedule_id, name, run[kind], fields, collector=collector)
    collector.add(item, schedule_id, fields, target, group=name, tenant=tenant)


def group_in(run: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the kind and the name of the group that `run` names; None if it names another target."""
    for kind in GROUP_KINDS:
        if isinstance(run.get(kind), dict):
            return kind, str(run[kind].get("id" if kind == "workflow" else "name"))
    return None


def _target(item: Node, run: dict[str, Any] | None, collector: ScheduleCollector) -> Target:
    if run is None:
        return NOTHING
    if run.get("python") is not None and collector.python_fault is not None:
        fault = collector.python_fault(run["python"])
        if fault is not None:
            item["run"].complain(fault, "python")
    try:
        return target_of(run)
    except SchedulerError as error:
        item["run"].complain(str(error))
        return NOTHING


def _refuse_unknown(item: Node, kind: str, name: str, collector: ScheduleCollector) -> None:
    known = [other for group, other in collector.groups if group == kind]
    hint = unknown(kind, name, known).removeprefix(f"unknown {kind}") if collector.is_file else ""
    if kind == "workflow":
        item["run"]["workflow"].complain(f"{NOT_FOUND.rstrip('.')}{hint or '.'}", "id")
    else:
        where = "this file" if collector.is_file else "the configuration"
        item["run"][kind].complain(f'there is no {kind} "{shown(name)}" in {where}{hint}', "name")


def _plugin(
    item: Node,
    schedule_id: str,
    name: str,
    run: dict[str, Any],
    fields: dict[str, Any],
    collector: ScheduleCollector,
) -> Target:
    command, manifest = fields["command"], collector.manifests[name]
    if manifest is not None:
        refuse_faults(
            item,
            ("run", "plugin"),
            manifest,
            schedule_id,
            command=command,
            payload=fields.get("payload") or {},
        )
    group = collector.groups["plugin", name]
    return plugin_target(name, command, group.get("config"), tenant=tenant_of(group, fields.get("owner")))


def _agent(
    item: Node,
    schedule_id: str,
    name: str,
    run: dict[str, Any],
    fields: dict[str, Any],
    collector: ScheduleCollector,
) -> Target:
    group = collector.groups["agent", name]
    return agent_target(name, group, run) if "command" in group else NOTHING


def _workflow(
    item: Node,
    schedule_id: str,
    name: str,
    run: dict[str, Any],
    fields: dict[str, Any],
    collector: ScheduleCollector,
) -> Target:
    workflow, trigger = collector.workflows.get(name), run.get("trigger_node_id")
    if (
        workflow is not None
        and trigger is not None
        and workflow.triggers
        and trigger not in workflow.triggers
    ):
        item["run"]["workflow"].complain(
            f'workflow "{name}" has no trigger "{shown(trigger)}", only {", ".join(workflow.triggers)}',
            "trigger_node_id",
        )
    given = name if collector.is_file else run["id"]
    return workflow_target(given, trigger_node_id=trigger, owner=fields.get("owner"))


_TARGETS = {"plugin": _plugin, "agent": _agent, "workflow": _workflow}
