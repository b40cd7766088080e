"""Jobs: executions of slots, with their identity and their states."""

from __future__ import annotations

from typing import Literal, NamedTuple

from everwhen.model.outcome import message_of
from everwhen.timetable.jitter import blake2b

JobStatus = Literal["queued", "running", "succeeded", "failed", "timed_out", "cancelled", "lost"]
Origin = Literal["schedule", "catch_up", "retry", "manual", "backfill", "webhook", "chat"]
CostSource = Literal["reported", "estimated"]
# Jobs of one schedule and one line run one after another, in order of slot_at. A job in line `own` also waits for every
# other running job of the schedule. None: the job runs concurrently with all others (`allow`).
Line = Literal["own", "catch_up", "backfill"]

OWN_ORIGINS: frozenset[Origin] = frozenset(("schedule", "catch_up", "retry", "webhook", "chat"))
FINAL: frozenset[JobStatus] = frozenset(("succeeded", "failed", "timed_out", "cancelled", "lost"))
FAILURES: frozenset[JobStatus] = frozenset(("failed", "timed_out", "lost"))


def job_id(uid: str, number: int, retry: int) -> str:
    """Return the id of a job: the same firing always has the same id, on every node.

    >>> job_id("a1b2c3d4e5f6", 5, 0)
    'sched-a1b2c3d4e5f6-n5-rc0'
    """
    return f"sched-{uid}-n{number}-rc{retry}"


def trace_id_of(job_id: str) -> str:
    """Return the trace of a job, derived from its id: all its attempts, requests, messages and events share it."""
    return blake2b(job_id.encode(), digest_size=16).hexdigest()


def is_own(origin: Origin) -> bool:
    """Return whether a job is an own job. Own jobs change counters, breaker and repeats; manual and backfill jobs
    change nothing."""
    return origin in OWN_ORIGINS


# The `node` of a job that was handed over to an external system: it is not a node, and it has no lease to expire.
EXTERNAL = "elsewhere"
# The `node` of a message's job: the transaction that fires it settles it, and no node runs it.
MESSAGE_NODE = "scheduler"


class NewJob(NamedTuple):
    """A job to be enqueued. `is_counted`: it counts towards guard and capacity from now on."""

    job_id: str
    number: int
    retry: int
    origin: Origin
    slot_at: int
    due_at: int
    not_before: int | None = None
    is_ready: bool = True
    is_counted: bool = True
    is_probe: bool = False
    payload: str | None = None
    stands_for: int = 1
    attempt: int = 0  # how often the slot's work has started so far
    line: Line | None = "own"
    cost_reserved: str | None = None  # JSON: amount and unit by budget


class Job(NamedTuple):
    """A job as the store keeps it, in the order of its columns."""

    row_id: int
    job_id: str
    schedule_row: int | None
    uid: str
    schedule_id: str
    revision: int
    number: int
    retry: int
    origin: Origin
    status: JobStatus
    slot_at: int
    due_at: int
    not_before: int | None
    is_ready: bool
    is_counted: bool
    is_probe: bool
    attempt: int
    rescues: int
    payload: str | None
    queue: str
    guard_key: str | None
    capacity_key: str | None
    capacity_limit: int | None
    breaker_key: str | None
    line: Line | None
    created_at: int
    started_at: int | None
    deadline_at: int | None
    ended_at: int | None
    released_at: int | None
    node: str | None
    fence: int
    cancel_requested: bool
    reason: str | None
    error: str | None
    result: str | None
    ready_at: int | None = None  # when it may be claimed; None: it waits for another job, or needs no claim
    cost_reserved: str | None = None  # JSON: amount and unit by budget
    cost_amount: int | None = None  # of all its attempts, in millionths
    cost_unit: str | None = None
    cost_source: CostSource | None = None
    is_result_json: bool | None = None  # the result is an object or a list, written as JSON
    error_type: str | None = None  # of the exception whose traceback `error` is

    @property
    def began_at(self) -> int:
        """Return when the last attempt of a job that has begun did so."""
        assert self.started_at is not None
        return self.started_at

    cost_estimated: int | None = (
        None  # what of `cost_amount` is; None: release 0.2 wrote it, or there is none
    )

    @property
    def estimated_cost(self) -> int:
        """Return what of its cost is estimated: of attempts that reported none."""
        if self.cost_estimated is not None:
            return self.cost_estimated
        return self.cost_amount or 0 if self.cost_source == "estimated" else 0

    @property
    def error_message(self) -> str | None:
        """Return the error without its type and its traceback."""
        return None if self.error is None else message_of(self.error, self.error_type)

    @property
    def is_own(self) -> bool:
        return self.origin in OWN_ORIGINS

    @property
    def is_outstanding(self) -> bool:
        return self.status in ("queued", "running")
