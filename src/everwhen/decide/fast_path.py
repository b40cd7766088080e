"""The fast path for nearly every slot: it fires on time, and its run succeeds.

`tick` and `settle` try it first, and so does the code that writes messages. Its result equals that of the full path
exactly (property tests compare the two). None means that the full path must decide, and that nothing was changed.
"""

from __future__ import annotations

from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.claim import ORDINARY
from everwhen.model.job import Job, Line, NewJob, job_id
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Schedule, State


def fire_fast(schedule: Schedule, now: int, shared: Shared) -> Decision | None:
    """Fire the one slot that is due, or return None to leave everything to the full path."""
    state, plan, _ = schedule
    slot_at = state.next_slot_at
    if not plan.is_plain or slot_at is None or slot_at > now or state.next_run_at != slot_at:
        return None
    if state.status != "active" or state.outstanding or state.waiting:
        return None
    if state.held_slot_at is not None or state.skip_reason is not None:
        return None
    following = plan.calendar(state.anchor_at).next_after(slot_at)
    if following is None or following <= now:  # the last one, or one of several: lateness must be checked
        return None
    if now - slot_at > plan.grace_of(slot_at, following) or not _take_places(schedule, shared):
        return None
    number = state.fire_count + 1
    line: Line | None = None if plan.definition.if_running == "allow" else "own"
    job = NewJob(job_id(state.uid, number, 0), number, 0, "schedule", slot_at, due_at=slot_at, line=line)
    after = row_changes.fire_and_move_on(state, now, slot_at, following, following)
    return Decision(state, after, plan, [job], [], cancelled=[])


def _take_places(schedule: Schedule, shared: Shared) -> bool:
    """Take a place of the guard and of the capacity, if both have one, or may be exceeded; return whether it did."""
    definition = schedule.plan.definition
    guard, capacity = definition.guard, definition.capacity
    if definition.if_running in ("skip", "allow"):
        if guard is not None and shared.limit(guard.key).outstanding >= guard.limit:
            return False
        if capacity is not None and shared.limit(capacity.key).outstanding >= capacity.limit:
            return False
    if guard is not None:
        shared.move(guard.key, outstanding=1)
    if capacity is not None:
        shared.move(capacity.key, outstanding=1)
    return True


def succeed_fast(job: Job, outcome: Outcome, schedule: Schedule, now: int) -> Decision | None:
    """Count the success of an own job, if no breaker, repeat limit or chain depends on it."""
    state, plan, _ = schedule
    if outcome.status != "succeeded" or outcome.is_still_running or not job.is_own:
        return None
    if job.breaker_key is not None or plan.awaits_successes:
        return None
    after = row_changes.end_well(state, now, job.job_id, job.began_at)
    return Decision(state, after, plan, [], [], cancelled=[])


def end_fast(decision: Decision, now: int) -> State | None:
    """Return the row after an ordinary firing whose job succeeds at the same instant, as a message does.

    Return None when another job is ahead of it, or when something depends on its outcome.
    """
    before, after, definition = decision.before, decision.after, decision.plan.definition
    if len(decision.jobs) != 1 or decision.events or decision.cancelled:
        return None
    if before.outstanding or before.running_jobs:
        return None
    if before.held_slot_at is not None or before.skip_reason is not None:
        return None
    if after.status != "active" or after.outstanding != 1 or after.held_slot_at is not None:
        return None
    job = decision.jobs[0]
    if job.origin != "schedule" or job.not_before is not None:
        return None
    if not job.is_ready or job.line not in (None, "own") or job.cost_reserved is not None:
        return None
    if definition.guard or definition.capacity or definition.breaker or decision.plan.awaits_successes:
        return None
    return row_changes.end_well(ORDINARY.added_to(after, now), now, job.job_id, now)
