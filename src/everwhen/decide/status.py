"""Changes of status: pause, resume, revive, invalidate, restore, delete.

Slots reached but undecided when a schedule stops being active get their entry here. Slots inside the span get none:
the span is the entry. Leaving a span never fires the slots inside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.decide.draft import Draft
from everwhen.decide.expect import with_expectation
from everwhen.decide.slots import NextSlot, interval_from_now, next_slot, slot_after_span
from everwhen.errors import StatusError, TimetableError
from everwhen.model.changes import Decision
from everwhen.model.events import EventType
from everwhen.model.limits import Shared
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import Schedule
from everwhen.timetable.trigger import OnRequest

BUDGET = "budget"  # pauses, and ends the pause by itself


def pause(
    schedule: Schedule,
    now: int,
    shared: Shared,
    *,
    by: str,
    actor: str | None = None,
    note: str | None = None,
    until: int | None = None,
) -> Decision:
    """Stop firing: clear the next slot, end the held slot, cancel queued own jobs."""
    if schedule.state.status != "active":
        raise StatusError("pause", schedule.state.status)
    if until is not None and until <= now:
        raise TimetableError(
            "until is already past; give a time to come, or leave it out", key="until", value=until
        )
    draft = Draft(schedule, now, shared)
    end_open_slots(draft, "paused")
    draft.cancel_own("pause")
    draft.become("paused", "schedule.paused", "paused", by=actor or by, note=note, until=until)
    draft.state = draft.state._replace(paused_by=by, status_reason=note, resume_at=until)
    return draft.decision()


def pause_for_budget(draft: Draft, until: int) -> None:
    """Pause a schedule whose budget is spent, until it refills; slots inside the span never fire."""
    end_open_slots(draft, "paused")
    draft.cancel_own("pause")
    draft.become("paused", "schedule.paused", "budget", by=BUDGET, until=until)
    draft.state = draft.state._replace(paused_by=BUDGET, resume_at=until)


def resume(schedule: Schedule, now: int, shared: Shared, *, by: str | None = None) -> Decision:
    """Fire again from the next slot on; a one-shot whose instant has passed is done."""
    if schedule.state.status != "paused":
        raise StatusError("resume", schedule.state.status)
    draft = Draft(schedule, now, shared)
    _reactivate_from(draft, _after_span(schedule, now), "schedule.resumed", by=by)
    return draft.decision()


def end_pause(schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Resume when the end of a pause (`until`) has come; change nothing if it was ended or prolonged meanwhile."""
    state = schedule.state
    if state.status != "paused" or state.resume_at is None or state.resume_at > now:
        return Draft(schedule, now, shared).decision()
    try:
        return resume(schedule, now, shared, by="until")
    except Exception as error:  # it stays paused with the reason; other schedules are not affected
        draft = Draft(schedule, now, shared)
        draft.state = state._replace(resume_at=None, status_reason=f"cannot be resumed: {error}")
        return draft.decision()


def revive(schedule: Schedule, now: int, shared: Shared, *, by: str | None = None) -> Decision:
    """Restart a dead or done schedule; raise StatusError when it has no future slot."""
    if schedule.state.status not in ("dead", "done"):
        raise StatusError("revive", schedule.state.status)
    if not can_revive(schedule, now):
        raise StatusError("revive", schedule.state.status, "it has no slot to come; give it a new time first")
    draft = Draft(schedule, now, shared)
    draft.state = draft.state._replace(current_repeat=0, current_retry=0)
    _reactivate_from(draft, _after_span(schedule, now), "schedule.revived", by=by)
    return draft.decision()


def can_revive(schedule: Schedule, now: int) -> bool:
    """Return whether a schedule that is over has a future slot."""
    return comes_later(schedule) or _after_span(schedule, now).slot_at is not None


def invalidate(schedule: Schedule, now: int, shared: Shared, reason: str) -> Decision:
    """Stop a schedule that cannot run as configured, until it is valid again; a pause loses its `until`."""
    draft = Draft(schedule, now, shared)
    if schedule.state.status == "active":
        end_open_slots(draft, "paused")
        draft.become("invalid", "schedule.invalidated", reason)
    elif schedule.state.status == "paused" and schedule.state.resume_at is not None:
        draft.state = schedule.state._replace(resume_at=None, status_reason=reason)
    return draft.decision()


def restore(schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Make a schedule that is valid again active, with the next slot of its old grid."""
    draft = Draft(schedule, now, shared)
    if schedule.state.status == "invalid":
        _reactivate_from(draft, _on_old_grid(draft), "schedule.restored")
    return draft.decision()


def leave_system_span(schedule: Schedule, paused_at: int, now: int, shared: Shared) -> Decision:
    """Continue after a system pause: end the slots reached before it; those inside the span never fire.

    The grid is kept; a chain whose slot lay in the span counts from now. A held slot continues to wait.
    """
    draft = Draft(schedule, now, shared)
    state = draft.state
    if state.status != "active" or state.next_slot_at is None:
        return draft.decision()
    if not draft.plan.calendar(state.anchor_at).is_reached(state.next_slot_at, now):
        return draft.decision()
    _end_reached(draft, "paused", min(paused_at, now))
    is_chain = draft.plan.definition.is_chain
    found = interval_from_now(draft.plan, now) if is_chain else next_slot(draft.plan, state.anchor_at, now)
    draft.state = draft.state._replace(next_slot_at=found.slot_at, next_run_at=found.due_at)
    if found.slot_at is None and state.held_slot_at is None:
        draft.become("done", "schedule.done", "in_the_past")
    return draft.decision()


def delete(schedule: Schedule, now: int, shared: Shared, *, cancel_running: bool, by: str | None) -> Decision:
    """Delete a schedule: cancel queued jobs of every origin; running ones continue unless `cancel_running`."""
    draft = Draft(schedule, now, shared)
    if schedule.state.status == "active":
        end_open_slots(draft, "paused")
    for job in schedule.outstanding:
        if cancel_running or job.status == "queued":
            draft.cancel(job, "deleted")
    draft.end_gathering()
    draft.record("schedule.deleted", actor=by)
    return draft.decision()


def comes_later(schedule: Schedule | Draft) -> bool:
    """Return whether the next slot only comes later: with a request, or when the run in flight has ended."""
    definition = schedule.plan.definition
    if isinstance(definition.trigger, OnRequest):
        return True
    return definition.is_chain and any(job.is_own for job in schedule.outstanding)


def _after_span(schedule: Schedule, now: int) -> NextSlot:
    state = schedule.state
    return slot_after_span(schedule.plan, state.anchor_at, now, state.last_slot_at)


def _on_old_grid(draft: Draft) -> NextSlot:
    """Return the next slot: the grid is kept, a chain counts from now, a decided slot never comes again."""
    state, now = draft.state, draft.now
    if draft.plan.definition.is_chain:
        return slot_after_span(draft.plan, state.anchor_at, now, state.last_slot_at)
    return next_slot(draft.plan, state.anchor_at, now, state.last_slot_at)


def _reactivate_from(draft: Draft, found: NextSlot, kind: EventType, *, by: str | None = None) -> None:
    waits = comes_later(draft)
    reactivate(
        draft, NextSlot(draft.state.anchor_at, None, None) if waits else found, kind, by=by, waits=waits
    )


def reactivate(
    draft: Draft, found: NextSlot, kind: EventType, *, by: str | None = None, waits: bool = False
) -> None:
    """Make the schedule active with that next slot, or done without one, unless it `waits` for a request or a run."""
    draft.become("active", kind)
    draft.events[-1] = draft.events[-1]._replace(actor=by, detail={"anchor_at": found.anchor_at})
    draft.state = draft.state._replace(
        anchor_at=found.anchor_at, next_slot_at=found.slot_at, next_run_at=found.due_at
    )
    draft.state = with_expectation(draft.state, draft.plan, draft.now)
    if found.slot_at is None and not waits:
        draft.become("done", "schedule.done", "in_the_past")


def end_open_slots(draft: Draft, reason: SkipReason, until: int | None = None) -> None:
    """End the held slot, and every slot that was reached by now or `until`, and not decided, also one with a jitter."""
    draft.end_held(reason)
    _end_reached(draft, reason, draft.now if until is None else until)


def _end_reached(draft: Draft, reason: SkipReason, until: int) -> None:
    state, calendar = draft.state, draft.plan.calendar(draft.state.anchor_at)
    if state.next_slot_at is None or not calendar.is_reached(state.next_slot_at, until):
        return
    reached: Sequence[int] = [state.next_slot_at]  # a chain has one
    if not calendar.is_chain:
        reached = calendar.reached_slots(state.next_slot_at, until)
    if len(reached) == 1:
        draft.skip(reached[0], reason)
    else:
        draft.range_over("schedule.skipped", reached[0], reached[-1], len(reached), reason)


# Schedules after the restore of a backup that contains them.
#
# Between the backup and the restore the schedule continued, and how is unknown: slots fired, queued jobs ran.
# What was open when the backup was taken was most likely done afterwards, so it ends here, on record, and the
# time between is a span. `catch_up` declares that nothing happened meanwhile: then all of it is still to be
# done, as after an outage. In both cases no job number is used twice, because receivers identify jobs by
# their ids.


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
            draft.state = with_expectation(draft.state, draft.plan, now)
    return draft.decision()


def _leave_span(draft: Draft, backed_up_at: int) -> None:
    """End the slots reached by the backup; later ones belong to the span, and the next slot is after now."""
    now, is_chain = draft.now, draft.plan.definition.is_chain
    had_slot_open = draft.state.held_slot_at is not None
    end_open_slots(draft, "paused", min(backed_up_at, now))
    state = draft.state
    if isinstance(draft.plan.definition.trigger, OnRequest):
        return
    calendar = draft.plan.calendar(state.anchor_at)
    is_to_come = state.next_slot_at is not None and not calendar.is_reached(state.next_slot_at, now)
    if is_to_come and not (is_chain and had_slot_open):
        return
    found = _on_old_grid(draft)
    draft.state = state._replace(next_slot_at=found.slot_at, next_run_at=found.due_at)
    if found.slot_at is None:
        draft.become("done", "schedule.done", "in_the_past")
