"""What becomes of a slot whose schedule still has jobs outstanding (O1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from everwhen.model.job import Job, Line, Origin
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import State

Overlap = Literal["go", "cancel"] | SkipReason


def overlap(state: State, if_running: IfRunning, queue_limit: int, jobs: Sequence[Job] = ()) -> Overlap:
    """`go`, `cancel` (cancel the own ones, then go), or the reason to skip. `jobs`: see `may_be_full`."""
    if not state.outstanding or if_running == "allow":
        return "go"
    if if_running == "cancel":
        return "cancel"
    if if_running == "queue":
        is_full = may_be_full(state, queue_limit) and _queued(state, jobs) >= queue_limit
        return "queue_full" if is_full else "go"
    return "retrying" if state.outstanding == state.waiting else "already_running"


def may_be_full(state: State, queue_limit: int) -> bool:
    """Whether the queue is full unless some of these run: then whoever decides needs the outstanding jobs."""
    return state.outstanding - state.waiting >= queue_limit


def _queued(state: State, jobs: Sequence[Job]) -> int:
    """Those that wait for their turn. A run that was cancelled and has not let go yet is no longer outstanding,
    though it counts as running on the row."""
    running = sum(job.status == "running" and job.origin != "backfill" for job in jobs)
    return state.outstanding - state.waiting - (running if jobs else state.running_jobs)


def line_of(origin: Origin, *if_running: IfRunning) -> Line | None:
    """Where a job stands; what a schedule and a request say about overlap must both let it stand in line.

    Catch-up jobs of a schedule whose jobs may overlap run one after another all the same (C7).
    """
    if "allow" not in if_running:
        return "own"
    return "catch_up" if origin == "catch_up" else None


def is_ready(state: State, line: Line | None, not_before: int | None = None) -> bool:
    """Whether a new job may be claimed as soon as its time comes, or stands behind another.

    One that waits for its not_before holds nobody back, and is looked at again when it is claimed. In the lines
    beside the schedule's own the store calls the next when nobody is in front: a row does not count those.
    """
    if line is None:
        return True
    return line == "own" and (not_before is not None or state.outstanding == state.waiting)
