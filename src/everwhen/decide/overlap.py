"""What becomes of a slot whose schedule still has jobs outstanding (O1)."""

from __future__ import annotations

from typing import Literal

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


def is_ready(state: State, if_running: IfRunning, not_before: int | None) -> bool:
    """Whether a new job may be claimed as soon as its time comes, or stands behind another.

    One that waits for its not_before holds nobody back, and is looked at again when it is claimed.
    """
    return if_running in ("allow", "cancel") or not_before is not None or state.outstanding == state.waiting
