"""Events for operators (ALERTS 2): a schedule whose slots fail (R3), and slots that are due or held for too long."""

from __future__ import annotations

from everwhen.decide.draft import Draft
from everwhen.model.events import Event
from everwhen.model.instants import HOUR, MINUTE
from everwhen.model.job import Job
from everwhen.model.schedule import Schedule
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


def overdue_since(schedule: Schedule) -> int | None:
    """Return when the next slot becomes overdue: its due_at plus the gap to the following slot, at least 1m."""
    state = schedule.state
    if state.next_slot_at is None or state.next_run_at is None:
        return None
    return state.next_run_at + _patience(schedule, state.next_slot_at)


def held_too_long_since(schedule: Schedule) -> int | None:
    """Return the same for the held slot; one that waits for an opening is never overdue."""
    state = schedule.state
    if state.held_slot_at is None or state.held_since is None or state.held_key is None:
        return None
    return state.held_since + _patience(schedule, state.held_slot_at)


def overdue_event(schedule: Schedule, slot_at: int, since: int, now: int) -> Event:
    state = schedule.state
    is_held = slot_at == state.held_slot_at
    return Event(
        "schedule.overdue",
        at=now,
        schedule_id=state.schedule_id,
        uid=state.uid,
        owner=state.owner,
        slot_at=slot_at,
        reason=state.held_reason if is_held else None,
        detail={"due_at": state.held_due_at if is_held else state.next_run_at, "overdue_at": since},
    )


def _patience(schedule: Schedule, slot_at: int) -> int:
    if schedule.definition.is_chain:
        return MINUTE
    following = schedule.plan.calendar(schedule.state.anchor_at).next_after(slot_at)
    return MINUTE if following is None else max(following - slot_at, MINUTE)
