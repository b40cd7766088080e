"""What became of the last slots of many schedules at once, and how long their runs usually take.

Lists and the time line show both for every row, so the work is bounded for each schedule, however often it fired: the
last job numbers are known from its row, and jobs are found by number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Literal, NamedTuple

from everwhen.model.job import OWN_ORIGINS, JobStatus
from everwhen.model.queries import RecentJob
from everwhen.model.schedule import State
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

COUNT = 30

SlotOutcome = Literal[JobStatus, "skipped", "missed", "held"]


class RecentSlot(NamedTuple):
    """One slot, and what became of it; of one that was retried, what its last job became."""

    slot_at: int
    outcome: SlotOutcome


class Recent(NamedTuple):
    """The last slots of one schedule, the oldest first. `usual`: the median run time of the last jobs that succeeded,
    in microseconds."""

    slots: Sequence[RecentSlot] = ()
    usual: int | None = None


def recent_of(runtime: Runtime, states: Iterable[State], count: int = COUNT) -> dict[str, Recent]:
    """Return the last slots of each schedule, by uid."""
    wanted = list(states)
    ledger = store_of(runtime).ledger
    jobs: dict[str, list[RecentJob]] = defaultdict(list)
    for job in ledger.recent_jobs({state.uid: state.fire_count for state in wanted}, count=count):
        jobs[job.uid].append(job)
    skipped: dict[str, list[RecentSlot]] = defaultdict(list)
    for skip in ledger.recent_skips([state.uid for state in wanted], count=count):
        outcome: SlotOutcome = "skipped" if skip.type == "schedule.skipped" else "missed"
        skipped[skip.uid] += [RecentSlot(skip.slot_at, outcome)] * min(skip.slot_count, count)
    return {
        state.uid: Recent(
            _last_slots(state, jobs[state.uid], skipped[state.uid], count), _usual(jobs[state.uid])
        )
        for state in wanted
    }


def _last_slots(
    state: State, jobs: list[RecentJob], skipped: list[RecentSlot], count: int
) -> list[RecentSlot]:
    latest: dict[int, RecentJob] = {}
    for job in sorted(jobs, key=lambda job: (job.number, job.retry)):
        if job.origin in OWN_ORIGINS:
            latest[job.number] = job
    slots = [RecentSlot(job.slot_at, job.status) for job in latest.values()] + skipped
    if state.skip_last_at is not None:  # skips that are counted on the row until something else happens
        slots += [RecentSlot(state.skip_last_at, "skipped")] * min(state.skip_count, count)
    if state.held_slot_at is not None:
        slots.append(RecentSlot(state.held_slot_at, "held"))
    return sorted(slots)[-count:]


def _usual(jobs: Iterable[RecentJob]) -> int | None:
    lengths = [
        job.ended_at - job.started_at
        for job in jobs
        if job.status == "succeeded" and job.started_at is not None and job.ended_at is not None
    ]
    return median_low(lengths) if lengths else None
