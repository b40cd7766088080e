"""A workflow: `dispatch_event("schedule", event_data, owner)`, to a handler of this process or over another target.

The outcome is that of the work: a handler that only starts the work returns an awaitable or a future, which is
awaited; over HTTP a response 202 leaves the job running until its outcome is posted.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import traceback
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from everwhen.clock import Clock
from everwhen.model.group import EVENT, NOT_FOUND, DispatchEvent, Workflow, Workflows, event_data, no_trigger
from everwhen.model.host_fault import NotBegunError, before_target
from everwhen.model.outcome import Outcome, drifted, type_of
from everwhen.model.schedule import Definition
from everwhen.model.schedule import Target as Declared
from everwhen.target import Run, Target
from everwhen.targets.registry import Resources, aside
from everwhen.targets.secrets import escape_references

LONGEST_RESULT = 4_096


class WorkflowRegistry:
    """Workflows by id; registering an id again replaces its workflow."""

    def __init__(self) -> None:
        self._workflows: dict[str, Workflow] = {}

    def register(self, workflow: Workflow) -> None:
        self._workflows[workflow.workflow_id] = workflow

    def find(self, workflow_id: str) -> Workflow | None:
        return self._workflows.get(workflow_id)


class WorkflowTarget:
    """Runs `{"workflow_id", "trigger_node_id", "owner"}`; `targets` are those that workflows run over."""

    def __init__(self, workflows: Workflows, targets: Mapping[str, Target], clock: Clock) -> None:
        self._workflows = workflows
        self._targets = targets
        self._clock = clock

    def fault_of(self, schedule_id: str, definition: Definition) -> str | None:
        """Return why the workflow cannot run here; None when it can."""
        workflow_id = json.loads(definition.target.spec)["workflow_id"]
        return NOT_FOUND if self._workflows.find(workflow_id) is None else None

    async def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        workflow = self._workflows.find(fields["workflow_id"])
        if workflow is None:
            return drifted(NOT_FOUND)
        trigger = fields.get("trigger_node_id")
        if trigger is not None and workflow.triggers and trigger not in workflow.triggers:
            return Outcome("failed", error=no_trigger(run.schedule_id), is_final=True)
        data = event_data(
            schedule_id=run.schedule_id,
            schedule_name=run.schedule_name,
            repeat_number=run.repeat_number,
            payload=run.payload,
            now=self._clock.now(),
        )
        if isinstance(workflow.run, Declared):
            return await self._over(workflow.run, data, run)
        return await _dispatch(workflow.run, data, fields.get("owner"), run)

    async def _over(self, declared: Declared, data: dict[str, Any], run: Run) -> Outcome:
        """Run over another target, which gets the event in place of the payload; over HTTP the event is the body."""
        target = self._targets.get(declared.kind)
        if target is None:
            return drifted(f'no target of kind "{declared.kind}" on this node')
        spec = declared.spec
        if declared.kind == "http":
            # The submitter writes name and payload, and may not read this node's environment through them.
            spec = json.dumps({**json.loads(spec), "body": escape_references(data)})
        started = replace(run, payload=data)
        work = partial(target.run, spec, started)
        if inspect.iscoroutinefunction(target.run):
            outcome: Outcome = await work()  # type: ignore[misc]
            return outcome
        with before_target():
            begun = aside(work)
        found: Outcome = await _waited_for(begun, run)
        return found


async def _dispatch(handler: DispatchEvent, data: dict[str, Any], owner: str | None, run: Run) -> Outcome:
    try:
        if inspect.iscoroutinefunction(handler):
            result = await handler(EVENT, data, owner)
        else:
            with before_target():
                work = aside(lambda: handler(EVENT, data, owner))
            result = await _waited_for(work, run)
        if isinstance(result, Future):
            result = await _waited_for(result, run)
        elif inspect.isawaitable(result):
            result = await result
    except NotBegunError:
        raise
    except Exception as error:  # a handler is user code: its exception is the outcome of the work
        trace = "".join(traceback.format_exception(error)).strip()[-LONGEST_RESULT:]
        return Outcome("failed", error=trace, error_type=type_of(error))
    if isinstance(result, Outcome):
        return result
    return Outcome("succeeded", result="" if result is None else str(result)[:LONGEST_RESULT])


async def _waited_for(work: Future[Any], run: Run) -> Any:
    """Return the result. A thread cannot be stopped: work that continues after a cancel occupies the worker."""
    try:
        return await asyncio.shield(asyncio.wrap_future(work))
    except asyncio.CancelledError:
        run.still_running.append(work)
        raise


def make_target(resources: Resources) -> WorkflowTarget:
    return WorkflowTarget(resources.workflows, resources.targets, resources.clock)
