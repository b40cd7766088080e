"""The options of a scheduler, of a schedule and of a stop, for type checkers and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Required, TypedDict, TypeVar

from everwhen.engine.service import Status as SchedulerStatus
from everwhen.scheduler.schedule_options import (
    CircuitBreaker,
    Duration,
    Instant,
    ScheduleChanges,
    ScheduleOptions,
    TimeZone,
    TriggerOptions,
)
from everwhen.targets.python_function import JobContext, SchedulerTriggerCallback
from everwhen.targets.python_function import PythonRun as Run
from everwhen.telemetry.log_to import SchedulerLogger

__all__ = [
    "AddOptions",
    "AgentScheduleInfo",
    "AnyFunction",
    "ApiOptions",
    "Duration",
    "Function",
    "Instant",
    "NewSchedule",
    "Run",
    "ScheduleChanges",
    "ScheduleOptions",
    "SchedulerLogger",
    "SchedulerOptions",
    "SchedulerStatus",
    "SchedulerTriggerCallback",
    "StopOptions",
    "TaskOptions",
    "TimeZone",
    "TriggerOptions",
]

Function = Callable[..., object]
"""What a schedule may run: a function, plain or async; a parameter annotated `Run`, or named `run`, gets the run."""
AnyFunction = TypeVar("AnyFunction", bound=Function)


class SchedulerOptions(TypedDict, total=False):
    """The keys of a `Scheduler` beside its database.

    `max_workers_per_owner`: how many of its workers the jobs of one owner may have; one less than `max_workers` where
    it is None. Jobs without an owner may have all.
    """

    name: str
    check_interval: float
    on_trigger: SchedulerTriggerCallback | None
    logger: SchedulerLogger | None
    timezone: TimeZone | None
    max_workers: int
    max_workers_per_owner: int | None
    lease: float
    queues: Sequence[str]
    context: JobContext | None


class ApiOptions(TypedDict, total=False):
    """The keys of `asgi`, as in the `api` section of a configuration file.

    `allowed_hosts`: the Host headers that the API answers to; `*` (the default) is any, `.example.com` stands for all
    names below it. `max_timeout`: the longest timeout that a caller whose token has an owner may set, one hour where
    it is not given. `trusted_proxies`: networks whose X-Forwarded-For and X-Forwarded-Proto count, if the server
    does not read them. `mcp`: serve agents, too, over streamable HTTP at `/api/v1/mcp/`; needs the extra `mcp`.
    """

    allowed_hosts: Sequence[str]
    allow_code_targets: bool
    max_payload: int | str
    max_body: int | str
    max_timeout: Duration | int
    trusted_proxies: Sequence[str]
    mcp: bool


class StopOptions(TypedDict, total=False):
    """How a scheduler is to stop: whether it waits for running jobs, and for how many seconds at most."""

    wait_for_jobs: bool
    timeout: float


class Call(TypedDict, total=False):
    """The arguments of a function beside its run: JSON, because they are kept in the database."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class TaskOptions(ScheduleOptions, Call, total=False):
    """The keys of a decorator: `id` (else module and function), and `isolate` for a process of its own."""

    id: str
    isolate: bool


class AddOptions(TriggerOptions, Call, total=False):
    """The keys of `add`. `replace_existing`: change the schedule of that id, where there is one."""

    replace_existing: bool


class UpdateOptions(ScheduleChanges, total=False):
    """The keys of `update`: those that change; None clears a key, and empties the arguments of a function."""

    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None


class NewSchedule(TriggerOptions, Call, total=False):
    """One schedule of `add_many`."""

    id: Required[str]
    function: Function


class AgentScheduleInfo(TypedDict, total=False):
    """An agent with its schedules, as `start` and `set_agents` take them: the keys of the agents section of a file."""

    name: Required[str]
    schedules: Required[Mapping[str, Mapping[str, Any]]]
    command: Sequence[str]
    default_prompt: str
    max_concurrent: int
    instances: Mapping[str, int]
    enabled: bool
    owner: str
    shared: bool
    queue: str
    timezone: str
    timeout: Duration
    cwd: str
    env: Mapping[str, str]
    report: str
    max_outstanding: int
    circuit_breaker: CircuitBreaker
