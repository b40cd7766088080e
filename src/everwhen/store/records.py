"""Rows as flows hand them to a transaction and get them back, and the columns that a new row sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from everwhen.model.job import JobStatus, Line, Origin
from everwhen.model.row_changes import JOB_INSERTED

Row = tuple[object, ...]

# Columns of a definition that its row shows to readers of the table; `source` and `created_at` never change.
SHOWN = tuple(
    """
name group command type spec timezone catch_up_policy quiet_hours_policy_id payload target pings local_queue
updated_at""".split()
)
# Columns that a new schedule sets; the other columns of a state begin with its defaults, which equal the table's.
BEGUN = tuple(
    """
uid schedule_id owner revision status anchor_at next_slot_at next_run_at paused_by status_reason expect_at""".split()
)
INSERTED = (*BEGUN, *SHOWN, "source", "created_at", "key", "token_id")

# Columns of a job that has begun and succeeded when it is created.
JOB_ENDED = (*JOB_INSERTED, *"status started_at deadline_at ended_at released_at node fence".split())


class Due(NamedTuple):
    """The rows that an evaluation takes: those due after `floor` and released ones, or (`behind`) those before it."""

    now: int
    floor: int
    limit: int
    behind: bool
    page: int = 0  # which batch of them, counted from the front: another scheduler may hold the first
    alive_since: int | None = None  # the first heartbeat of the node that takes them


class ReadyQuery(NamedTuple):
    """The jobs that a claim looks at, or (`is_delivery`) a hand-over to a queue: those that can be taken now.

    `limit` is how many; where `shares` are named, how many of each.
    """

    now: int
    limit: int
    queues: Sequence[str] | None = None
    is_delivery: bool = False
    shares: Sequence[str] | None = None


class LockHint(NamedTuple):
    """The keys that must be locked for a row, as they were a moment ago."""

    uid: str
    revision: int
    guard_key: str | None = None
    capacity_key: str | None = None
    breaker_key: str | None = None
    cost_reserved: str | None = None


class Finished(NamedTuple):
    """A job that is reported to have ended, with columns of its schedule's row: what an ordinary end needs.

    The last three are None where the schedule is deleted.
    """

    row_id: int
    job_id: str
    uid: str
    origin: Origin
    status: JobStatus
    is_counted: bool
    guard_key: str | None
    capacity_key: str | None
    breaker_key: str | None
    node: str | None
    fence: int
    released_at: int | None
    schedule_row: int | None
    revision: int | None
    outstanding: int | None
    started_at: int | None
    cost_reserved: str | None = None


class JobLine(NamedTuple):
    """The jobs of one schedule that wait in one line."""

    uid: str
    line: Line


class Offer(NamedTuple):
    """Free places of a key for the oldest of the slots that wait for it, behind the given one."""

    key: str
    free: int
    due_at: int = 0
    row_id: int = 0
