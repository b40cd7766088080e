"""The schedules of a simulation, each with its jobs: in full, or in brief while only its own calendar concerns it.

A row is brief while its slots fire on time, one after another, and its runs succeed. Then its next slot, the number of
its last job and that job are all that can matter, and a slot costs a fifth of what a decision costs. Everything else (a
slot that comes due while a job is outstanding, a closed time, an outage, a failure, the last slot) expands the row, and
`decide` decides it in full. Schedules with limits, breakers or budgets, which they may share, are never brief.
"""

from __future__ import annotations

from typing import ClassVar

from everwhen.model import row_changes
from everwhen.model.instants import SECOND
from everwhen.model.job import Job, NewJob, Origin, job_id
from everwhen.model.job import Line as JobLine
from everwhen.model.limits import FOR_EVER
from everwhen.model.schedule import Plan, Schedule, State

NODE = "virtual"


class BriefJob:
    """The job of a brief row, with the attributes of a `Job` that a simulation shows."""

    __slots__ = ("created_at", "due_at", "job_id", "row_id", "schedule_id", "slot_at", "started_at", "uid")

    origin: ClassVar[Origin] = "schedule"
    retry: ClassVar[int] = 0

    def __init__(
        self, row: SimulatedRow, number: int, row_id: int, slot_at: int, due_at: int, created_at: int
    ) -> None:
        self.uid = row.uid
        self.schedule_id = row.plan.schedule_id
        self.job_id = job_id(row.uid, number, 0)
        self.row_id = row_id
        self.slot_at = slot_at
        self.due_at = due_at
        self.created_at = created_at
        self.started_at: int | None = None


AnyJob = Job | BriefJob


class SimulatedRow:
    """A schedule with its outstanding jobs. While it is brief, `state` and `outstanding` are those of before."""

    __slots__ = (
        "_following",
        "_may_be_brief",
        "_next_slot_at",
        "_number",
        "_open_until",
        "brief_job",
        "is_brief",
        "outstanding",
        "plan",
        "state",
        "uid",
        "wake_at",
    )

    def __init__(self, state: State, plan: Plan, *, may_be_brief: bool) -> None:
        self.uid = state.uid
        self.state = state
        self.plan = plan
        self.outstanding: dict[str, Job] = {}
        self.wake_at = FOR_EVER
        self.is_brief = False
        self.brief_job: BriefJob | None = None
        self._may_be_brief = may_be_brief and _concerns_nobody_else(plan)
        self._next_slot_at = self._following = self._number = 0
        self._open_until = 0

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.state, self.plan, list(self.outstanding.values()))

    def abridge(self) -> None:
        """Make the row brief if nothing is under way, and nothing of its past can change a decision."""
        state = self.state
        if self._may_be_brief and not self.outstanding and _is_quiet(state):
            assert state.next_slot_at is not None
            self.is_brief = True
            self._next_slot_at, self._number = state.next_slot_at, state.fire_count

    def expand(self) -> None:
        """Make the row full again."""
        job, definition = self.brief_job, self.plan.definition
        self.is_brief, self.brief_job = False, None
        state = self.state = self.state._replace(
            next_slot_at=self._next_slot_at,
            next_run_at=self.wake_at,
            fire_count=self._number,
            outstanding=int(job is not None),
            running_jobs=int(job is not None and job.started_at is not None),
        )
        if job is None:
            return
        line: JobLine | None = None if definition.if_running == "allow" else "own"
        new = NewJob(job.job_id, self._number, 0, "schedule", job.slot_at, due_at=job.due_at, line=line)
        full = row_changes.queue_job(row_changes.job_row(new, state, self.plan, job.created_at), job.row_id)
        if job.started_at is not None:
            deadline_at = None if definition.timeout is None else job.started_at + definition.timeout
            full = row_changes.start_job(full, job.started_at, deadline_at, NODE, False)
        self.outstanding[job.job_id] = full

    def may_fire(self, now: int) -> bool:
        """Return whether the one slot that is due fires as the rules say of an ordinary one."""
        if self.brief_job is not None:
            return False
        calendar = self.plan.calendar(self.state.anchor_at)
        following = calendar.next_after(self._next_slot_at)
        if following is None or following <= now:
            return False
        if now >= self._open_until or now != self.wake_at:
            if now - self.wake_at > self.plan.grace_of(self._next_slot_at, following):
                return False
            if calendar.closed_reason(self.wake_at) or calendar.closed_reason(now):
                return False
            self._open_until = calendar.closed_times.steady_until(now // SECOND) * SECOND
        self._following = following
        return True

    def fire(self, now: int, row_id: int) -> BriefJob:
        """Fire the slot, and move on to the next; `may_fire` must have been asked before."""
        self._number += 1
        job = self.brief_job = BriefJob(
            self,
            self._number,
            row_id=row_id,
            slot_at=self._next_slot_at,
            due_at=self.wake_at,
            created_at=now,
        )
        self._next_slot_at = self._following
        if self.plan.definition.jitter_ms:
            self.wake_at = self.plan.calendar(self.state.anchor_at).due_at(self._following)
        else:
            self.wake_at = self._following
        return job


def _concerns_nobody_else(plan: Plan) -> bool:
    definition = plan.definition
    if plan.fault is not None or plan.awaits_successes or definition.is_chain or definition.is_one_shot:
        return False
    return not (definition.guard or definition.capacity or definition.breaker or definition.budgets)


def _is_quiet(state: State) -> bool:
    if state.status != "active" or state.next_slot_at is None or state.held_slot_at is not None:
        return False
    if state.outstanding or state.running_jobs or state.waiting:
        return False
    return not (state.skip_reason or state.current_retry or state.failed_slots)
