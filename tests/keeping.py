"""How a store keeps a new job, for worlds in memory."""

from __future__ import annotations

from everwhen.model.job import OWN_ORIGINS, Job, NewJob
from everwhen.model.schedule import Plan, State


def kept(new: NewJob, row_id: int, state: State, plan: Plan, now: int) -> Job:
    """The row of a job that was just enqueued. By position: a simulated year makes a million of them."""
    definition = plan.definition
    guard, capacity, breaker = definition.guard, definition.capacity, definition.breaker
    return Job(
        row_id,
        new.job_id,
        state.row_id,
        state.uid,
        state.schedule_id,
        state.revision,
        new.number,
        new.retry,
        new.origin,
        "queued",
        new.slot_at,
        new.due_at,
        new.not_before,
        new.is_ready,
        new.is_counted,
        new.is_probe,
        new.attempt,
        0,  # rescues
        new.payload,
        definition.queue,
        guard.key if guard is not None and new.origin in OWN_ORIGINS else None,
        capacity.key if capacity is not None else None,
        capacity.limit if capacity is not None else None,
        breaker.key if breaker is not None else None,
        new.line,
        now,
        None,  # started_at
        None,  # deadline_at
        None,  # ended_at
        None,  # released_at
        None,  # node
        0,  # fence
        False,  # cancel_requested
        None,  # reason
        None,  # error
        None,  # result
        (new.not_before or now) if new.is_ready else None,
    )
