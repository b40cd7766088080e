"""Workflows that schedules start: their target, and the data they receive (`dispatch_event`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from everwhen.errors import TimetableError
from everwhen.model.instants import moment_of
from everwhen.model.schedule import Target

EVENT = "schedule"
NOT_FOUND = "Workflow not found."


DispatchEvent = Callable[[str, dict[str, Any], str | None], Any]
"""`dispatch_event("schedule", event_data, owner)`. The work is done when the call has returned and any
awaitable that it returned is done; the work has failed when the call raises."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow: a handler of this process, or another target. Without `triggers`, every trigger node is accepted."""

    workflow_id: str
    run: DispatchEvent | Target
    name: str = ""
    triggers: tuple[str, ...] = ()


class Workflows(Protocol):
    """The workflows that are known now."""

    def find(self, workflow_id: str) -> Workflow | None: ...


def workflow_target(
    workflow_id: str | int, *, trigger_node_id: str | None = None, owner: str | None = None
) -> Target:
    """Return the target that starts a workflow, at one of its triggers where `trigger_node_id` is given.

    A workflow is looked up by its id as text; the target records whether the id was a number, because responses return
    it as it was given.
    """
    if isinstance(workflow_id, bool) or not isinstance(workflow_id, str | int) or workflow_id == "":
        raise TimetableError("workflow_id must be a number or text", key="workflow_id", value=workflow_id)
    spec = {
        "workflow_id": str(workflow_id),
        "is_number": True if isinstance(workflow_id, int) else None,
        "trigger_node_id": trigger_node_id,
        "owner": owner,
    }
    return Target("workflow", json.dumps({key: value for key, value in spec.items() if value is not None}))


def no_trigger(schedule_id: str) -> str:
    return f"No matching trigger found for scheduled job {schedule_id}"


def event_data(
    *, schedule_id: str, schedule_name: str, repeat_number: int, payload: Mapping[str, Any], now: int
) -> dict[str, Any]:
    """Return the data that a workflow receives; over HTTP it is the whole body."""
    return {
        "scheduled_job_id": schedule_id,
        "scheduled_job_name": schedule_name,
        "repeat_number": repeat_number,
        "payload": dict(payload),
        "timestamp": moment_of(now).isoformat().replace("+00:00", "Z"),
    }
