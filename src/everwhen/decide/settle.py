"""The settlement: what the end of a run changes for its job, its schedule and its breaker.

Only own jobs change counters, breaker, repeats and chains. A job ends once: a later outcome changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.decide import budgets
from everwhen.decide.approval import is_waiting
from everwhen.decide.draft import Draft, give_places_back
from everwhen.decide.expect import with_expectation
from everwhen.decide.failing import last_error_of, note_failed_slot
from everwhen.decide.fast_path import succeed_fast
from everwhen.decide.status import end_open_slots
from everwhen.decide.tick import continue_idle_chain
from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.job import Job, NewJob, job_id
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome, message_of
from everwhen.model.policy import BACKOFF_CAP, MOST_RESCUES, OnLost
from everwhen.model.schedule import Definition, Schedule


class Settlement(NamedTuple):
    """The end of one job, and the decision about its schedule (None when that is deleted)."""

    job: Job
    outcome: Outcome
    decision: Decision | None


def settle(job: Job, outcome: Outcome, schedule: Schedule | None, now: int, shared: Shared) -> Settlement:
    """Decide the end of a running job."""
    give_places_back(job, shared)
    if not outcome.is_still_running:
        shared.move(job.capacity_key, running=-1)
    is_there = schedule is not None and schedule.state.uid == job.uid
    if job.cost_reserved is not None:
        definition = schedule.definition if schedule is not None and is_there else None
        budgets.settle(shared, job, outcome.cost, definition, now)
    if schedule is None or not is_there:
        if job.is_own:  # schedule deleted: only the job and its breaker are written
            breakers.count_outcome(shared, job, outcome, now, None)
        return Settlement(job, outcome, None)
    decision = succeed_fast(job, outcome, schedule, now)
    return Settlement(job, outcome, decision or settle_full(job, outcome, schedule, now, shared))


def settle_full(job: Job, outcome: Outcome, schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Decide what the end of a job changes for its schedule, with every rule applied."""
    draft = Draft(schedule, now, shared)
    if job.origin != "backfill":  # which the row does not count
        draft.state = row_changes.end_job(draft.state)
        if not outcome.is_still_running:  # work that continues counts as running
            draft.state = row_changes.release(draft.state)
    if job.is_own:
        draft.state = row_changes.ran(draft.state, job.began_at)
        _settle_own(draft, job, outcome)
    elif is_relief(job, outcome, draft.plan.definition) and draft.state.expect_at is None:
        draft.state = with_expectation(draft.state, draft.plan, now)  # it was silent
    return draft.decision()


def is_relief(job: Job, outcome: Outcome, definition: Definition) -> bool:
    """Return whether a person's run ends the silence of a schedule, although it counts for nothing else."""
    return job.origin == "manual" and outcome.status == "succeeded" and definition.is_expected


def cancel_catch_up(schedule: Schedule, keys: Collection[str], now: int, shared: Shared) -> Decision:
    """Cancel the queued catch-up jobs of breakers that open; a chain continues from there."""
    draft = Draft(schedule, now, shared)
    is_own_left = False
    for job in schedule.outstanding:
        if job.origin == "catch_up" and job.status == "queued" and job.breaker_key in keys:
            draft.cancel(job, "circuit_open")
        else:
            is_own_left |= job.is_own
    if draft.cancelled and not is_own_left:
        continue_idle_chain(draft)
    return draft.decision()


def _settle_own(draft: Draft, job: Job, outcome: Outcome) -> None:
    draft.count_outcome(job, outcome)
    if outcome.status == "succeeded":
        _succeed(draft, job)
    elif outcome.is_failure:
        _fail(draft, job, outcome)
        if not draft.jobs:
            note_failed_slot(draft, job)
        if outcome.invalidates and draft.state.status == "active":
            end_open_slots(draft, "paused")
            draft.become("invalid", "schedule.invalidated", draft.state.last_error, job_id=job.job_id)
    else:
        draft.end_retries(job)
    if not draft.jobs:  # no retry
        _end_slot(draft, job)


def _succeed(draft: Draft, job: Job) -> None:
    """Count a success; the schedule ends when it was the last one of `total_repeats`."""
    draft.state = row_changes.succeed(draft.state, draft.now, job.job_id)
    if draft.plan.definition.is_expected:
        draft.state = with_expectation(draft.state, draft.plan, draft.now)
    if _is_complete(draft):
        if draft.state.status not in ("done", "dead"):
            _end_open(draft)
            draft.become("done", "schedule.done", "done", job_id=job.job_id)
        draft.cancel_own("done")


def _fail(draft: Draft, job: Job, outcome: Outcome) -> None:
    """Count a failure; then retry the slot, or end it.

    With `on_exhausted: stop`, the schedule dies when failures in a row exceed `max_retries`, over any number of slots.
    """
    definition = draft.plan.definition
    most, stops = definition.max_retries, definition.stops_when_exhausted
    message = message_of(outcome.error or outcome.status, outcome.error_type)
    draft.state = row_changes.fail(draft.state, message, outcome.error_type)
    if stops and draft.state.current_retry > (most or 0):
        _die(draft, job)
    may_retry = most is not None and job.retry < most and not outcome.is_final and not _is_complete(draft)
    # A retry runs the revision in force. One that waits for approval was not reviewed, whatever the status is.
    may_run = draft.state.status in ("active", "done") and not is_waiting(draft.state)
    if not (may_retry and may_run and _retry(draft, job, outcome)):
        draft.state = row_changes.fail_slot(draft.state, stops)  # only here does `failed_slots` grow


def _die(draft: Draft, job: Job) -> None:
    if draft.state.status != "dead":
        _end_open(draft)
        draft.become("dead", "schedule.died", "dead", job_id=job.job_id, **last_error_of(draft.state))
    draft.cancel_own("dead")


def _is_complete(draft: Draft) -> bool:
    """Return whether total_repeats is reached."""
    most = draft.plan.definition.total_repeats
    return bool(most) and draft.state.current_repeat >= most


def _end_open(draft: Draft) -> None:
    """End the slots that a schedule holds, or has reached and not decided, because the schedule ends."""
    if draft.state.status == "active":
        end_open_slots(draft, "paused")


def _retry(draft: Draft, job: Job, outcome: Outcome) -> bool:
    """Add a job for the same slot, after a delay that doubles; return False when a closed time never ends."""
    definition, state = draft.plan.definition, draft.state
    base = definition.retry_base
    pause = min(base * 2 ** (state.current_retry - 1), BACKOFF_CAP * base)
    if outcome.retry_after is not None:
        pause = max(pause, min(outcome.retry_after, BACKOFF_CAP * base))
    calendar = draft.plan.calendar(state.anchor_at)
    not_before = calendar.opening_from(draft.now + pause)
    if not_before is None:  # no opening in 400 days: the slot is over
        return False
    draft.jobs.append(
        NewJob(
            job_id(state.uid, job.number, job.retry + 1),
            job.number,
            job.retry + 1,
            "retry",
            job.slot_at,
            due_at=job.due_at,
            not_before=not_before,
            is_counted=False,
            payload=job.payload,
            attempt=job.attempt,
            line="own" if job.line == "own" else None,
        )
    )
    draft.state = row_changes.retry(state)
    return True


def put_off_retry(
    schedule: Schedule, job: Job, refusal: budgets.Refusal, now: int, shared: Shared
) -> Decision | int:
    """Decide about a retry that a budget refuses: return when it may begin, or the decision to give it up.

    It is given up when the schedule's next slot is due first, and where there is no next slot and no refill helps: it
    would wait for ever. Then its slot ends as failed, and `on_exhausted` is not asked.
    """
    draft = Draft(schedule, now, shared)
    begins_at = draft.plan.calendar(draft.state.anchor_at).opening_from(refusal.refill_at)
    next_run_at = draft.state.next_run_at
    if begins_at is not None:
        waits = not refusal.is_lasting if next_run_at is None else next_run_at >= begins_at
        if waits:
            return begins_at
    draft.cancel(job, "budget")
    draft.state = row_changes.fail_slot(draft.state, draft.plan.definition.stops_when_exhausted)
    note_failed_slot(draft, job)
    _end_slot(draft, job)
    return draft.decision()


def _end_slot(draft: Draft, job: Job) -> None:
    """Record the end of the slot's last attempt; a chain continues from here."""
    draft.state = row_changes.end_slot(draft.state, draft.now)
    is_last = not any(other.is_own and other.job_id != job.job_id for other in draft.outstanding)
    if is_last:  # a grid that was edited into a chain may have left several
        continue_idle_chain(draft, job.slot_at)


def rescue(job: Job, on_lost: OnLost) -> Outcome | None:
    """Decide about a running job whose node's lease has expired.

    Return None to put it back to queued, same id, new fencing token; otherwise it ends as lost, a failure. A rescue is
    not a retry: it repeats an attempt whose outcome is unknown.
    """
    if on_lost == "fail":
        return Outcome("lost", error="its worker died while running it, and it must not run twice")
    if job.rescues >= MOST_RESCUES:
        return Outcome("lost", error=f"its worker died {job.rescues + 1} times while running it")
    return None


def give_back(on_lost: OnLost) -> Outcome | None:
    """Decide the same for a node that stops: no rescue, as no node died."""
    if on_lost == "fail":
        return Outcome("lost", error="its node stopped while running it, and it must not run twice")
    return None
