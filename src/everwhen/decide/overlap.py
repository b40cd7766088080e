"""Overlap: what happens to a slot whose schedule still has outstanding jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from everwhen.model.job import Job, Line, Origin
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import State

Overlap = Literal["go", "cancel"] | SkipReason


def overlap(state: State, if_running: IfRunning, queue_limit: int, jobs: Sequence[Job] = ()) -> Overlap:
    """Return `go`, `cancel` (cancel the own jobs, then go), or the reason to skip. `jobs`: see `may_be_full`."""
    if not state.outstanding or if_running == "allow":
        return "go"
    if if_running == "cancel":
        return "cancel"
    if if_running == "queue":
        # A cancelled run whose worker has not released it is not outstanding, though the row counts it as running.
        running = sum(job.status == "running" and job.origin != "backfill" for job in jobs)
        queued = state.outstanding - state.waiting - (running if jobs else state.running_jobs)
        return "queue_full" if may_be_full(state, queue_limit) and queued >= queue_limit else "go"
    return "retrying" if state.outstanding == state.waiting else "already_running"


def may_be_full(state: State, queue_limit: int) -> bool:
    """Return whether the queue is full unless some of its jobs run: then the caller must pass the outstanding jobs."""
    return state.outstanding - state.waiting >= queue_limit


def line_of(origin: Origin, *if_running: IfRunning) -> Line | None:
    """Return the line of a job; `allow`, of the schedule or of the request, takes it out of the schedule's own line.

    Catch-up jobs run one after another even where the jobs of a schedule may overlap.
    """
    if "allow" not in if_running:
        return "own"
    return "catch_up" if origin == "catch_up" else None


def is_ready(state: State, line: Line | None, not_before: int | None = None) -> bool:
    """Return whether a new job may be claimed as soon as its time comes, or is queued behind another.

    A job that waits for its not_before blocks no other, and is checked again when it is claimed. In the other lines the
    store makes the next job ready when none is ahead of it, because the row does not count the jobs of those lines.
    """
    if line is None:
        return True
    return line == "own" and (not_before is not None or state.outstanding == state.waiting)
