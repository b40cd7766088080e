"""The targets of one node, assembled; and the reasons why a schedule cannot run here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from everwhen.engine.call_executor import CallableLoop, CallExecutor
from everwhen.installed_kinds import installed_targets
from everwhen.model.group import Workflows
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Definition, local_id
from everwhen.model.work_item import WorkItem
from everwhen.operations.agent_runs import AgentRuns
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.target import Run, Target
from everwhen.targets.guardian import MARK, Guardian
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.targets.process import Processes
from everwhen.targets.python_call import call_on
from everwhen.targets.python_function import (
    Functions,
    JobContext,
    TriggerCallback,
    TriggerInfo,
    python_run,
)
from everwhen.targets.registry import Resources, fault_of, make_targets
from everwhen.targets.workflow import WorkflowRegistry
from everwhen.work_sources import installed_sources


@dataclass(frozen=True, slots=True)
class TargetRegistry:
    """The targets of a node by kind, and where plugins, workflows and work sources are looked up."""

    targets: Mapping[str, Target]
    plugins: PluginFolders
    workflows: Workflows
    functions: Functions | None = None
    has_host: bool = False
    greet: Callable[[float, float], None] | None = None  # greets the guardian of its processes
    is_on_job_thread: Callable[[], bool] = lambda: False  # whether the caller is a function that it runs

    def fault_of(self, schedule_id: str, definition: Definition) -> str | None:
        """Return why this node cannot run a schedule; None when it can."""
        return fault_of(self.targets, schedule_id, definition)


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
    agent_runs: AgentRuns | None = None,
) -> TargetRegistry:
    """Assemble the targets of this package and of installed packages; this package's kinds override others.

    A program can provide the functions that it declares, a callback that runs agents in place of their commands, and
    the event loop for its coroutines.
    """
    guardian = Guardian()  # one watches all processes
    call_executor = CallExecutor(max_workers, loop)
    plugins = PluginFolders(plugin_dirs)
    context = nullcontext if functions is None else functions.context
    resources = Resources(
        runtime.clock,
        processes=Processes(guardian=guardian),
        hands=call_executor,
        plugins=plugins,
        plugin_state=store_of(runtime).catalogue.plugin_state,
        workflows=workflows or WorkflowRegistry(),
        sources=installed_sources(also={MARK: guardian.mark}),
        functions=functions,
        host=None if on_trigger is None else partial(_hand_over, call_executor, on_trigger, context),
        allow_private_urls=allow_private_urls,
        agent_runs=agent_runs,
    )
    targets = make_targets(resources, installed_targets())
    greet = resources.processes.guardian.greet
    return TargetRegistry(
        targets,
        plugins,
        resources.workflows,
        functions,
        has_host=resources.host is not None,
        greet=greet,
        is_on_job_thread=call_executor.is_on_own_thread,
    )


async def _hand_over(
    hands: CallExecutor,
    on_trigger: TriggerCallback,
    context: JobContext,
    fields: Mapping[str, Any],
    run: Run,
    item: WorkItem | None,
    prompt: str,
) -> Outcome:
    """Let the host perform an agent's run."""
    about = python_run(run)
    info = TriggerInfo(fields.get("agent"), local_id(run.schedule_id), prompt, about, item)
    return await call_on(hands, on_trigger, info, run, context=context)
