"""What becomes of a slot whose schedule still has jobs outstanding (O1)."""

from __future__ import annotations

from typing import Literal

from everwhen.model.job import Line, Origin
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import State

Overlap = Literal["go", "cancel"] | SkipReason


def overlap(state: State, if_running: IfRunning, queue_limit: int) -> Overlap:
    """`go`, `cancel` (cancel the own ones, then go), or the reason to skip."""
    if not state.outstanding or if_running == "allow":
        return "go"
    if if_running == "cancel":
        return "cancel"
    if if_running == "queue":
        queued = state.outstanding - state.waiting - state.running_jobs
        return "queue_full" if queued >= queue_limit else "go"
    return "retrying" if state.outstanding == state.waiting else "already_running"


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
