"""The event `schedule.failing`: when failed slots are reported, once until the next success (R3, ALERTS 2)."""

from __future__ import annotations

from everwhen.decide.draft import Draft
from everwhen.model.instants import HOUR
from everwhen.model.job import Job
from everwhen.timetable.trigger import OnRequest

# Failed slots in a row, where slots are an hour or more apart, and where they are closer.
SELDOM, OFTEN = 1, 3


def note_failed_slot(draft: Draft, job: Job, failed_slots: int) -> None:
    """Record `schedule.failing` when the own slots failed in a row reach the threshold."""
    if failed_slots == threshold_of(draft, job.slot_at):
        detail = {"failed_slots": failed_slots, "last_error": draft.state.last_error}
        draft.record("schedule.failing", slot_at=job.slot_at, job_id=job.job_id, detail=detail)


def threshold_of(draft: Draft, slot_at: int) -> int:
    if isinstance(draft.plan.definition.trigger, OnRequest):
        return OFTEN
    following = draft.plan.calendar(draft.state.anchor_at).next_after(slot_at)
    return SELDOM if following is None or following - slot_at >= HOUR else OFTEN
