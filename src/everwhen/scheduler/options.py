"""What may be said when a scheduler is made, a schedule declared, a stop asked for; for type checkers and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict, TypeVar

from everwhen.engine.service import Status as SchedulerStatus
from everwhen.model.policy import IfRunning, IntervalFrom, OnExhausted, OnLost, WhenClosed
from everwhen.targets.python_run import PythonRun as Run
from everwhen.targets.trigger_info import SchedulerTriggerCallback
from everwhen.telemetry.log_to import SchedulerLogger
from everwhen.timetable.occurrences import FirstRun

__all__ = [
    "AgentScheduleInfo",
    "AnyFunction",
    "Duration",
    "Function",
    "Instant",
    "NewSchedule",
    "Run",
    "ScheduleOptions",
    "SchedulerLogger",
    "SchedulerOptions",
    "SchedulerStatus",
    "SchedulerTriggerCallback",
    "StopOptions",
    "TaskOptions",
    "TriggerOptions",
]

Duration = str | timedelta
Instant = str | datetime

Function = Callable[[Run], object] | Callable[[], object]
"""What a schedule may run: a function, plain or async, of the run or of nothing."""
AnyFunction = TypeVar("AnyFunction", bound=Function)


class SchedulerOptions(TypedDict, total=False):
    """The keys of a `Scheduler` beside its database."""

    name: str
    check_interval: float
    on_trigger: SchedulerTriggerCallback | None
    logger: SchedulerLogger | None
    timezone: str
    max_workers: int
    lease: float
    queues: Sequence[str]


class StopOptions(TypedDict, total=False):
    """How a scheduler is to stop: whether it waits for running jobs, and for how many seconds at most."""

    wait_for_jobs: bool
    timeout: float


class Dst(TypedDict, total=False):
    """What happens to wall-clock times when clocks change."""

    gap: Literal["shift", "skip"]
    fold: Literal["first", "second", "both"]


class CircuitBreaker(TypedDict, total=False):
    """Stop firing after so many failures in a row, and try one again after a while."""

    threshold: int
    reset_after: Duration


class Expect(TypedDict, total=False):
    """How often a success is expected, and how late it may be."""

    within: Required[Duration]
    grace: Duration


class Ping(TypedDict):
    """A watcher that is told of each run."""

    url: str


class ScheduleOptions(TypedDict, total=False):
    """The keys of a schedule beside its trigger and what it runs; the same as in a configuration file."""

    name: str
    description: str
    owner: str
    enabled: bool
    timezone: str
    dst: Dst
    start_at: Instant
    end_at: Instant
    first_run: FirstRun
    interval_from: IntervalFrom
    jitter: Duration
    only_between: str
    not_on: Sequence[str | int]
    outside_window: WhenClosed
    quiet_hours: str
    misfire_grace: Duration
    catch_up: Literal["skip", "run_once", "run_all", "run_all_capped"]
    catch_up_limit: int
    if_running: IfRunning
    queue_limit: int
    max_outstanding: int
    max_concurrent: int
    total_repeats: int
    max_retries: int
    retry_delay: Duration
    on_exhausted: OnExhausted
    on_lost: OnLost
    timeout: Duration | int
    circuit_breaker: CircuitBreaker
    queue: str
    payload: Mapping[str, Any]
    expect: Expect
    ping: Ping


class TaskOptions(ScheduleOptions, total=False):
    """The keys of a decorator: `id` (else module and function), and `isolate` for a process of its own."""

    id: str
    isolate: bool


class TriggerOptions(ScheduleOptions, total=False):
    """The keys of `add`: exactly one of the first four."""

    every: Duration
    cron: str
    at: Instant
    after: Duration
    run: Mapping[str, Any]


class NewSchedule(TriggerOptions, total=False):
    """One schedule of `add_many`."""

    id: Required[str]
    function: Function


class AgentScheduleInfo(TypedDict, total=False):
    """An agent with its schedules, as `start` and `set_agents` take them: the words of the agents door of a file."""

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
    max_outstanding: int
    circuit_breaker: CircuitBreaker
