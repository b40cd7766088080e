"""Slow runs: those that take much longer than the runs of the same schedule before them.

A run is slow when it has taken three times the 95th percentile of the last successful runs, and a minute. The minute
keeps runs of milliseconds quiet; below 20 runs it is not known what is usual.
"""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.model.events import Event
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.job import Job

RUNS = 100  # the last ones, by which the usual duration is measured
LEAST_RUNS = 20
TIMES = 3
PERCENT = 95


def usual_duration(durations: Sequence[int]) -> int | None:
    """Return the duration that 95 of 100 runs do not exceed; None when there are too few.

    >>> usual_duration(range(1, 101)), usual_duration([7] * 20), usual_duration([7] * 19)
    (95, 7, None)
    """
    if len(durations) < LEAST_RUNS:
        return None
    return sorted(durations)[-(-PERCENT * len(durations) // 100) - 1]


def slow_from(started_at: int, usual: int) -> int:
    """Return the instant from which a run counts as slow."""
    return started_at + TIMES * usual + MINUTE


def slow_event(job: Job, owner: str | None, usual: int, now: int) -> Event:
    detail: dict[str, object] = {
        "attempt": job.attempt,
        "seconds": (now - (job.started_at or now)) / SECOND,
        "usual_seconds": usual / SECOND,
    }
    return Event(
        "schedule.slow",
        now,
        job.schedule_id,
        job.uid,
        owner,
        slot_at=job.slot_at,
        job_id=job.job_id,
        detail=detail,
    )
