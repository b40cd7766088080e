"""A claim: the job that a node has claimed, and the part of a schedule's row that claims read and change."""

from __future__ import annotations

from typing import NamedTuple

from everwhen.model import row_changes
from everwhen.model.job import Job
from everwhen.model.schedule import Definition, State


class ClaimedJob(NamedTuple):
    """A job that this node runs, with its definition. To settle it, the node must present the job's `fence`."""

    job: Job
    definition: Definition
    schedule_name: str
    repeat_number: int

    @property
    def dedupe_key(self) -> str:
        return self.definition.dedupe_key(self.job.schedule_id, self.job.origin, self.job.slot_at)


Held = tuple[str, int]  # a job and the fence of its claim


# The part of a schedule's row that a claim reads, and the changes that the start of a job makes to it.


class ScheduleCounters(NamedTuple):
    """The counters of a schedule that its waiting jobs depend on."""

    row_id: int
    uid: str
    outstanding: int
    running_jobs: int
    current_repeat: int

    def started(self, running_jobs: int) -> ScheduleCounters:
        return ScheduleCounters(
            self.row_id, self.uid, self.outstanding, self.running_jobs + running_jobs, self.current_repeat
        )


class Start(NamedTuple):
    """The changes that the start of a job makes to the row of its schedule; an own job also sets its last run."""

    running_jobs: int = 1
    waiting: int = 0
    retries_waiting: int = 0
    is_own: bool = True

    def added_to(self, state: State, now: int) -> State:
        run_at = now if self.is_own else None
        return row_changes.start(state, self.running_jobs, self.waiting, self.retries_waiting, run_at)


ORDINARY = Start()
NO_CHANGE = Start(running_jobs=0, is_own=False)  # a backfill changes no counter


def counters_of(state: State) -> ScheduleCounters:
    return ScheduleCounters(
        state.row_id, state.uid, state.outstanding, state.running_jobs, state.current_repeat
    )
