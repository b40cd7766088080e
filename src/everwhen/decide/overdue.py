"""Overdue slots: which are due or held for too long, and the event that reports it (ALERTS 2)."""

from __future__ import annotations

from everwhen.model.events import Event
from everwhen.model.instants import MINUTE
from everwhen.model.schedule import Schedule


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
