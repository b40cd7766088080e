"""The rescue of a running job whose node's lease has expired (R8), or whose node ended it while stopping (G1)."""

from __future__ import annotations

from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.policy import MOST_RESCUES, OnLost


def rescue(job: Job, on_lost: OnLost) -> Outcome | None:
    """Return None to put the job back to queued, same id, new fencing token; otherwise it ends as lost, a failure.

    A rescue is not a retry: it repeats an attempt whose outcome is unknown.
    """
    if on_lost == "fail":
        return Outcome("lost", error="its worker died while running it, and it must not run twice")
    if job.rescues >= MOST_RESCUES:
        return Outcome("lost", error=f"its worker died {job.rescues + 1} times while running it")
    return None


def give_back(on_lost: OnLost) -> Outcome | None:
    """Return None to put the job back to queued, which is not a rescue, as no node died; otherwise it ends as lost."""
    if on_lost == "fail":
        return Outcome("lost", error="its node stopped while running it, and it must not run twice")
    return None
