"""Groups (plugins, agents and workflows) as the fields of their section: who owns them, which keys another owner cannot
set on a shared one, and the targets of agents and workflows.

A *tenant* is an owner that uses a shared group of another owner.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from everwhen.errors import TimetableError, shown
from everwhen.model.declare import timeout_of
from everwhen.model.defaults import with_defaults
from everwhen.model.fields import WHEN_EMPTY
from everwhen.model.instants import MINUTE, rfc3339_text
from everwhen.model.schedule import Target

Group = dict[str, Any]
Groups = Mapping[tuple[str, str], Group]
"""The fields of each group, by kind and name."""

RESERVED = ("circuit_breaker", "max_outstanding", "max_concurrent", "queue", "on_lost")
"""The keys that a shared group sets for all its tenants."""


def is_shared(group: Group) -> bool:
    return group.get("shared") is True


def tenant_of(group: Group, owner: str | None) -> str | None:
    """Return the owner if it is a tenant of the group, else None.

    >>> tenant_of({"owner": "ada", "shared": True}, "bob"), tenant_of({"owner": "ada", "shared": True}, "ada")
    ('bob', None)
    """
    return owner if is_shared(group) and owner != group.get("owner") else None


def is_anothers(group: Group, owner: str | None) -> bool:
    """Return whether the group belongs to another owner who does not share it."""
    return not is_shared(group) and None not in (owner, group.get("owner")) and owner != group["owner"]


def is_longer(timeout: int | None, kind: str, group: Group, command: str | None) -> bool:
    """Return whether a schedule's timeout in microseconds exceeds that of its group; None means no timeout."""
    by_default = with_defaults({"command": command}, kind, group=group).get("timeout")
    most = timeout_of(by_default, 10 * MINUTE)
    return most is not None and (timeout is None or timeout > most)


# Schedules of agents: their own keys, translated to the keys that every schedule is declared with.


_TRIGGERS = {"interval": "every", "cron": "cron"}


def general_fields_of_agent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a schedule of an agent to the keys that every schedule is declared with.

    `{type: interval, interval: 5m}` becomes `every: 5m`; `{type: cron, cron | expression}` becomes `cron`; `webhook`
    and `chat` stay unchanged. Keys that are not set stay unset.
    """
    trigger = _trigger(fields.get("type"), fields)
    passed_over = ("type", "interval", "cron", "expression", "prompt", "work_source", "secret", "signature")
    own = {key: value for key, value in fields.items() if key not in passed_over and value is not None}
    return {**own, **trigger}


def _trigger(kind: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    if kind in ("webhook", "chat"):
        return {"type": kind}
    if kind not in _TRIGGERS:
        known = "interval, cron, webhook, chat"
        raise TimetableError(f'type: "{shown(kind)}" must be one of {known}', key="type", value=kind)
    given = fields.get("interval") if kind == "interval" else fields.get("cron", fields.get("expression"))
    if given is None:
        raise TimetableError(f"a schedule of type {kind} needs {kind}", key=kind)
    return {_TRIGGERS[kind]: given}


def agent_target(agent: str, group: Mapping[str, Any], fields: Mapping[str, Any]) -> Target:
    """Return the target that runs an agent's command for one of its schedules."""
    command = group.get("command")
    if (
        not isinstance(command, list)
        or not command
        or not all(isinstance(word, str | int | float) for word in command)
    ):
        raise TimetableError(
            f'agent "{agent}" needs command: [program, argument, …]', key="command", value=command
        )
    spec = {
        "agent": agent,
        "command": [str(word) for word in command],
        "prompt": fields.get("prompt"),
        "default_prompt": group.get("default_prompt"),
        "report": group.get("report"),
        "cwd": group.get("cwd"),
        "env": group.get("env"),
        "work_source": _work_source(fields.get("work_source")),
    }
    return Target("agent", json.dumps({key: value for key, value in spec.items() if value is not None}))


MAX_COST = "{max_cost}"  # in the command of an agent: what one run may cost


def asks_for_max_cost(target: Target) -> bool:
    """Return whether the command of an agent contains the most that a run may cost."""
    command = json.loads(target.spec).get("command", ()) if target.kind == "agent" else ()
    return any(MAX_COST in word for word in command)


def needs_max_cost(agent: str) -> str:
    return (
        f'{MAX_COST} in the command of agent "{agent}" needs a budget with cost_per_run, and there is none; '
        f"set cost_per_run in budgets.{agent}, or leave {MAX_COST} out"
    )


def _work_source(fields: Any) -> dict[str, Any] | None:
    if fields is None:
        return None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("type"), str):
        raise TimetableError(
            "work_source needs a type, as in {type: directory, path: inbox}", key="work_source", value=fields
        )
    when_empty = fields.get("when_empty", "run")
    if when_empty not in WHEN_EMPTY:
        raise TimetableError(
            f'work_source.when_empty: "{shown(when_empty)}" must be run or skip',
            key="work_source.when_empty",
            value=when_empty,
        )
    return dict(fields)


# Workflows that schedules start: their target, and the data they receive (`dispatch_event`).


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
        "timestamp": rfc3339_text(now),
    }
