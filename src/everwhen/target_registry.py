"""The targets of one node, assembled; and the reasons why a schedule cannot run here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from everwhen.engine.call_executor import CallableLoop, CallExecutor
from everwhen.errors import ManifestError
from everwhen.model.message import MESSAGE
from everwhen.model.outcome import Outcome
from everwhen.model.plugin_schedule import plugin_drift
from everwhen.model.schedule import Definition, local_id
from everwhen.model.work_item import WorkItem
from everwhen.model.workflow import NOT_FOUND
from everwhen.ports.runtime import Runtime
from everwhen.ports.target import Run, Target
from everwhen.ports.workflows import Workflows
from everwhen.targets.agent import AgentTarget
from everwhen.targets.command import CommandTarget
from everwhen.targets.family import MARK
from everwhen.targets.guardian import Guardian
from everwhen.targets.http import HttpTarget
from everwhen.targets.installed import installed_targets
from everwhen.targets.plugin import PluginTarget
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.targets.process import Processes
from everwhen.targets.python_call import Calls, PythonTarget
from everwhen.targets.python_function import Functions, UnknownFunctionError, load
from everwhen.targets.python_run import python_run
from everwhen.targets.trigger_info import TriggerCallback, TriggerInfo
from everwhen.targets.workflow import WorkflowRegistry, WorkflowTarget
from everwhen.work_sources.installed import installed_sources


@dataclass(frozen=True, slots=True)
class TargetRegistry:
    """The targets of a node by kind, and where plugins, workflows and work sources are looked up."""

    targets: Mapping[str, Target]
    plugins: PluginFolders
    workflows: Workflows
    functions: Functions | None = None
    has_host: bool = False
    greet: Callable[[float, float], None] | None = None  # greets the guardian of its processes

    def fault_of(self, schedule_id: str, definition: Definition) -> str | None:
        """Return why this node cannot run a schedule; None when it can (R7)."""
        kind = definition.target.kind
        if kind == MESSAGE:
            return None
        if kind not in self.targets:
            return f'no target of kind "{kind}" on this node'
        spec = json.loads(definition.target.spec)
        if kind == "plugin":
            return self._plugin_fault(schedule_id, definition, spec)
        if kind == "workflow" and self.workflows.find(spec["workflow_id"]) is None:
            return NOT_FOUND
        if kind == "agent" and "command" not in spec and not self.has_host:
            return "it has no command, and no host runs it here"
        return self._python_fault(schedule_id, spec) if kind == "python" else None

    def _python_fault(self, schedule_id: str, spec: Mapping[str, Any]) -> str | None:
        name = spec.get("name")
        if name is None:
            return _function_fault(spec["function"])
        if self.functions is None or self.functions.name != name:
            return f'it is run by programs that declare the name "{name}"'
        is_declared = self.functions.find(schedule_id, spec["function"]) is not None
        return None if is_declared else _function_fault(spec["function"])

    def _plugin_fault(self, schedule_id: str, definition: Definition, spec: Mapping[str, Any]) -> str | None:
        try:
            plugin = self.plugins.find(spec["name"])
        except ManifestError as error:
            return str(error)
        return plugin_drift(schedule_id, definition, None if plugin is None else plugin.manifest)


def _function_fault(name: str) -> str | None:
    try:
        load(name)
    except UnknownFunctionError as error:
        return str(error)
    return None


def open_target_registry(
    runtime: Runtime,
    *,
    plugin_dirs: Iterable[str | Path] = (),
    workflows: Workflows | None = None,
    max_workers: int = 8,
    allow_private_urls: bool = False,
    functions: Functions | None = None,
    on_trigger: TriggerCallback | None = None,
    loop: CallableLoop | None = None,
) -> TargetRegistry:
    """Assemble the targets of this package and of installed packages; this package's kinds override others.

    A program can provide the functions that it declares, a callback that runs agents in place of their commands, and
    the event loop for its coroutines.
    """
    # One instance for all, so that a second signal to stop reaches all processes, and one guardian watches them.
    guardian = Guardian()
    processes = Processes(guardian=guardian)
    plugins = PluginFolders(plugin_dirs)
    workflows = workflows or WorkflowRegistry()
    call_executor = CallExecutor(max_workers, loop)
    host = None if on_trigger is None else partial(_hand_over, Calls(call_executor), on_trigger)
    targets: dict[str, Target] = installed_targets()
    targets |= {
        "command": CommandTarget(processes),
        "http": HttpTarget(runtime.clock.now, allow_private_urls=allow_private_urls),
        "python": PythonTarget(call_executor, processes, functions),
        "plugin": PluginTarget(plugins, runtime.plugin_state, processes),
        "agent": AgentTarget(installed_sources(also={MARK: guardian.mark}), runtime.clock, processes, host),
        "workflow": WorkflowTarget(workflows, targets, runtime.clock),
    }
    return TargetRegistry(targets, plugins, workflows, functions, host is not None, processes.greet_guardian)


async def _hand_over(
    calls: Calls,
    on_trigger: TriggerCallback,
    fields: Mapping[str, Any],
    run: Run,
    item: WorkItem | None,
    prompt: str,
) -> Outcome:
    """Let the host perform an agent's run."""
    about = python_run(run, partial(run.output.write, "log"))
    info = TriggerInfo(fields.get("agent"), local_id(run.schedule_id), prompt, about, item)
    return await calls.call(on_trigger, info, run)
