"""Schedules after the restore of a backup that contains them (R5).

Between the backup and the restore the schedule continued, and how is unknown: slots fired, queued jobs ran. What was
open when the backup was taken was most likely done afterwards, so it ends here, on record, and the time between is a
span. `catch_up` declares that nothing happened meanwhile: then all of it is still to be done, as after an outage. In
both cases no job number is used twice, because receivers identify jobs by their ids.
"""

from __future__ import annotations

from everwhen.decide.draft import Draft
from everwhen.decide.slots import NextSlot, next_slot, slot_after_span
from everwhen.decide.status import end_slots_before
from everwhen.model.decision import Decision
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.timetable.trigger import OnRequest

ACTOR = "restore"
NUMBERS_SKIPPED = 1_000_000


def renumber_restored(
    schedule: Schedule,
    backed_up_at: int,
    now: int,
    shared: Shared,
    *,
    catch_up: bool,
    leap: int = NUMBERS_SKIPPED,
) -> Decision:
    """Number jobs `leap` higher than any that may have been used; end what was open, unless it is to be caught up."""
    draft = Draft(schedule, now, shared)
    state = draft.state
    draft.state = state._replace(
        fire_count=state.fire_count + leap, numbers_skipped=state.numbers_skipped + leap
    )
    if not catch_up:
        for job in schedule.outstanding:
            draft.cancel(job, "person", actor=ACTOR)
        if state.status == "active":
            _leave_span(draft, backed_up_at)
    return draft.decision()


def _leave_span(draft: Draft, backed_up_at: int) -> None:
    """End the slots reached by the backup; later ones belong to the span, and the next slot is after now (X7)."""
    now, is_chain = draft.now, draft.plan.definition.is_chain
    had_slot_open = draft.state.held_slot_at is not None
    end_slots_before(draft, "paused", min(backed_up_at, now))
    state = draft.state
    if isinstance(draft.plan.definition.trigger, OnRequest):
        return
    if state.next_slot_at is not None and state.next_slot_at > now and not (is_chain and had_slot_open):
        return
    found = _next_of(draft)
    draft.state = state._replace(next_slot_at=found.slot_at, next_run_at=found.due_at)
    if found.slot_at is None:
        draft.become("done", "schedule.done", "in_the_past")


def _next_of(draft: Draft) -> NextSlot:
    """Return the next slot: the grid is kept, a chain counts from now, a decided slot never comes again (E9)."""
    state, now = draft.state, draft.now
    if draft.plan.definition.is_chain:
        return slot_after_span(draft.plan, state.anchor_at, now, state.last_slot_at)
    return next_slot(draft.plan, state.anchor_at, max(now, state.last_slot_at or now))
