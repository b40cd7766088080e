"""herdctl's `runSchedule`: run one schedule of an agent now, in this process, and wait for it.

It is a job like any other, in addition to the schedule's slots, and marked running under a lease, so that no other
node runs it, too. An item of the work source is claimed, the prompt is built, the agent runs, and the outcome is
reported and recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everwhen.engine.service import Service
from everwhen.errors import ScheduleTriggerError, UnknownScheduleError, shown
from everwhen.model.instants import moment_of, optional_moment
from everwhen.model.job import FINAL, Job, JobStatus
from everwhen.operations.firing import trigger_schedule
from everwhen.operations.jobs import get_job
from everwhen.operations.schedules import get_schedule
from everwhen.runtime import Runtime
from everwhen.target_registry import open_target_registry
from everwhen.targets.trigger_info import SchedulerTriggerCallback, TriggerMetadata
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
        return self.metadata.job_id


def run_schedule(options: RunScheduleOptions) -> ScheduleRunResult:
    """Run a schedule, and wait for its end; raise ScheduleTriggerError when it does not exist or is running."""
    log_to = None if options.logger is None else LogTo(options.logger)
    stack = open_stack(options.database, is_existing=True)
    service = build_service(
        stack,
        role="worker",
        queues=(),
        check_interval=LOOK,
        max_workers=1,
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
    about = TriggerMetadata(job.job_id, job.origin, moment_of(job.slot_at), job.attempt, 0)
    return ScheduleRunResult(
        success=job.status == "succeeded",
        status=job.status,
        result=job.result,
        error=job.error,
        started_at=optional_moment(job.started_at),
        completed_at=optional_moment(job.ended_at),
        next_run_at=optional_moment(get_schedule(runtime, job.schedule_id).state.next_run_at),
        metadata=about,
    )
