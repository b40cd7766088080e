"""The data of herdctl's state file, read from the database and written to it: one agent's schedules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, NamedTuple

from everwhen.errors import ConfigError, shown
from everwhen.model.instants import optional_moment
from everwhen.model.schedule import State, local_id
from everwhen.operations import schedules as operations
from everwhen.runtime import Runtime
from everwhen.wiring import open_stack

_PAGE = 500

ScheduleStatus = Literal["idle", "running", "disabled"]


class ScheduleState(NamedTuple):
    """`running` means that a job runs on some node, under a valid lease; else `disabled` is every status but active."""

    status: ScheduleStatus
    last_run_at: datetime | None
    next_run_at: datetime | None
    last_error: str | None


def get_schedule_state(database: str, agent: str, schedule: str) -> ScheduleState:
    """Return the state of one schedule of an agent."""
    with _runtime_of(database) as runtime:
        return _state(operations.get_schedule(runtime, f"{agent}.{schedule}").state)


def get_agent_schedule_states(database: str, agent: str) -> dict[str, ScheduleState]:
    """Return the states of all schedules of an agent, by name."""
    found: dict[str, ScheduleState] = {}
    with _runtime_of(database) as runtime:
        after: str | None = None
        while page := operations.list_schedules(runtime, group=agent, limit=_PAGE, after=after):
            found |= {local_id(state.schedule_id): _state(state) for state in page}
            after = page[-1].schedule_id
    return found


def update_schedule_state(database: str, agent: str, schedule: str, **changes: Any) -> ScheduleState:
    """Pause a schedule with `status="disabled"`, resume it with `status="idle"`; effective at the next evaluation.

    Setting the current status changes nothing. Times and errors record what happened, and cannot be set.
    """
    status = changes.pop("status", None)
    if changes or status is None:
        what = ", ".join(sorted(changes)) or "nothing"
        raise ConfigError(f"only status can be set, not {shown(what)}")
    if status not in ("idle", "disabled"):
        raise ConfigError(f'status "{shown(status)}" cannot be set: "disabled" pauses, "idle" resumes')
    schedule_id = f"{agent}.{schedule}"
    with _runtime_of(database) as runtime:
        state = operations.get_schedule(runtime, schedule_id).state
        if status == "disabled" and state.status == "active":
            state = operations.pause_schedule(runtime, schedule_id)
        elif status == "idle" and state.status != "active":
            state = operations.resume_schedule(runtime, schedule_id)
        return _state(state)


def _state(state: State) -> ScheduleState:
    return ScheduleState(
        _status(state),
        optional_moment(state.last_run_at),
        optional_moment(state.next_run_at),
        state.last_error,
    )


def _status(state: State) -> ScheduleStatus:
    if state.running_jobs:
        return "running"
    return "idle" if state.status == "active" else "disabled"


@contextmanager
def _runtime_of(database: str) -> Iterator[Runtime]:
    stack = open_stack(database, is_existing=True)
    try:
        yield stack.runtime
    finally:
        stack.close()
