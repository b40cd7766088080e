"""herdctl's functions: run one schedule of an agent now, in this process, and wait for it (`runSchedule`); read and
write the data of its state file.

A run is a job like any other, in addition to the schedule's slots, and marked running under a lease, so that no other
node runs it, too. An item of the work source is claimed, the prompt is built, the agent runs, and the outcome is
reported and recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from everwhen.engine.service import Service, ServiceOptions
from everwhen.errors import ConfigError, ScheduleTriggerError, UnknownScheduleError, shown
from everwhen.model.instants import optional_datetime, to_datetime
from everwhen.model.job import FINAL, Job, JobStatus
from everwhen.model.schedule import State, local_id
from everwhen.operations import schedules as operations
from everwhen.operations.jobs import get_job, trigger_schedule
from everwhen.operations.schedules import get_schedule
from everwhen.runtime import Runtime
from everwhen.target_registry import open_target_registry
from everwhen.targets.python_function import SchedulerTriggerCallback, TriggerMetadata
from everwhen.telemetry.log_to import LogTo, SchedulerLogger
from everwhen.wiring import build_service, open_stack

LOOK = 0.1

ScheduleRunnerLogger = SchedulerLogger


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScheduleOptions:
    """The schedule and its agent; `execute` runs it in place of the agent's command, as `on_trigger` does."""

    database: str
    agent: str
    schedule: str
    payload: Mapping[str, Any] | None = None
    execute: SchedulerTriggerCallback | None = None
    logger: ScheduleRunnerLogger | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRunResult:
    """The outcome of the run, and the next run of the schedule itself."""

    success: bool
    status: JobStatus
    result: str | None
    error: str | None
    started_at: datetime | None
    completed_at: datetime | None
    next_run_at: datetime | None
    metadata: TriggerMetadata

    @property
    def job_id(self) -> str:
        """Return the id of the job of this run."""
        return self.metadata.job_id


def run_schedule(options: RunScheduleOptions) -> ScheduleRunResult:
    """Run a schedule, and wait for its end; raise ScheduleTriggerError when it does not exist or is running."""
    log_to = None if options.logger is None else LogTo(options.logger)
    stack = open_stack(options.database, is_existing=True)
    service = build_service(
        stack,
        ServiceOptions(role="worker", queues=(), check_interval=LOOK, max_workers=1),
        target_registry=open_target_registry(stack.runtime, max_workers=1, on_trigger=options.execute),
    )
    try:
        job_id = _enqueued(stack.runtime, options)
        if log_to is not None:
            log_to.begin()
        service.start()
        try:
            return _result(stack.runtime, _awaited(stack.runtime, service, job_id))
        finally:
            service.stop()
    finally:
        if log_to is not None:
            log_to.end()
        stack.close()


def _enqueued(runtime: Runtime, options: RunScheduleOptions) -> str:
    name = f"{options.agent}.{options.schedule}"
    try:
        fired = trigger_schedule(runtime, name, payload=options.payload, if_running="skip")
    except UnknownScheduleError as error:
        said = f'agent "{shown(options.agent)}" has no schedule "{shown(options.schedule)}"'
        raise ScheduleTriggerError(said, agent=options.agent, schedule=options.schedule) from error
    if fired.job_id is None:
        said = f"{name} cannot be run now: {fired.skip_reason}"
        raise ScheduleTriggerError(said, agent=options.agent, schedule=options.schedule)
    return fired.job_id


def _awaited(runtime: Runtime, service: Service, job_id: str) -> Job:
    """Wait until the job is over and return it; another node may have claimed it first."""
    service.worker.want(job_id)
    nothing = threading.Event()
    while (job := get_job(runtime, job_id)).status not in FINAL:
        nothing.wait(LOOK)
    return job


def _result(runtime: Runtime, job: Job) -> ScheduleRunResult:
    about = TriggerMetadata(job.job_id, job.origin, to_datetime(job.slot_at), job.attempt, 0)
    return ScheduleRunResult(
        success=job.status == "succeeded",
        status=job.status,
        result=job.result,
        error=job.error,
        started_at=optional_datetime(job.started_at),
        completed_at=optional_datetime(job.ended_at),
        next_run_at=optional_datetime(get_schedule(runtime, job.schedule_id).state.next_run_at),
        metadata=about,
    )


# The data of herdctl's state file, read from the database and written to it: one agent's schedules.


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
    status: ScheduleStatus = "idle" if state.status == "active" else "disabled"
    if state.running_jobs:
        status = "running"
    last_run_at, next_run_at = optional_datetime(state.last_run_at), optional_datetime(state.next_run_at)
    return ScheduleState(status, last_run_at, next_run_at, state.last_error)


@contextmanager
def _runtime_of(database: str) -> Iterator[Runtime]:
    stack = open_stack(database, is_existing=True)
    try:
        yield stack.runtime
    finally:
        stack.close()
