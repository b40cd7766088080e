"""Jobs that a person, a webhook or a chat requests, outside the calendar.

Guard, breaker and the budgets of groups and owners never refuse them; budgets count them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from everwhen.decide import breaker as breakers
from everwhen.decide import budgets
from everwhen.decide.draft import Draft, give_places_back
from everwhen.decide.overlap import is_ready, line_of, overlap
from everwhen.decide.tick import continue_idle_chain
from everwhen.errors import BackfillError, RequestError
from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.history import ScheduleHistory
from everwhen.model.instants import SECOND
from everwhen.model.job import Job, Line, NewJob, Origin, is_own, job_id
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.model.payload import payload_text
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import Schedule
from everwhen.timetable.trigger import OnRequest


def trigger(
    schedule: Schedule,
    now: int,
    shared: Shared,
    *,
    payload: Mapping[str, Any] | None = None,
    if_running: IfRunning = "queue",
    actor: str | None = None,
) -> Decision:
    """Enqueue a manual job, with the payload merged over the schedule's; next_run_at and counters stay."""
    draft = Draft(schedule, now, shared)
    refusal = _request_manual(draft, if_running, payload)
    if refusal is None and actor is not None:
        draft.record("job.triggered", slot_at=now, job_id=draft.jobs[-1].job_id, actor=actor)
    return draft.decision(refusal)


def rerun(
    schedule: Schedule,
    job: Job,
    now: int,
    shared: Shared,
    *,
    if_running: IfRunning = "queue",
    actor: str | None = None,
) -> Decision:
    """Enqueue a job again, for the same slot and with the same payload; next_run_at and counters stay."""
    draft = Draft(schedule, now, shared)
    refusal = _request_manual(draft, if_running)
    if refusal is None:
        again = draft.jobs[-1] = draft.jobs[-1]._replace(slot_at=job.slot_at, payload=job.payload)
        detail = {"of": job.job_id}
        draft.record("job.rerun", slot_at=job.slot_at, job_id=again.job_id, actor=actor, detail=detail)
    return draft.decision(refusal)


def _request_manual(
    draft: Draft, if_running: IfRunning, payload: Mapping[str, Any] | None = None
) -> SkipReason | None:
    refusal = _make_way(draft, if_running)
    if refusal is None:
        line = line_of("manual", draft.plan.definition.if_running, if_running)
        _enqueue(draft, "manual", draft.now, line, payload)
    return refusal


def fire(
    schedule: Schedule, now: int, shared: Shared, *, payload: Mapping[str, Any] | None = None
) -> Decision:
    """Enqueue an own job for a request to a webhook or chat schedule.

    Only a pause of the schedule or the system, a passed end_at, and if_running can skip the request. Every skip is
    recorded.
    """
    draft = Draft(schedule, now, shared)
    definition = draft.plan.definition
    if not isinstance(definition.trigger, OnRequest):
        raise RequestError(draft.state.schedule_id)
    refusal, origin = _refusal_of_request(draft), definition.trigger.kind
    if refusal is None:
        _enqueue(draft, origin, now, line_of(origin, definition.if_running), payload)
        draft.state = draft.state._replace(last_fired_at=now)
    else:  # a request is not a slot of the calendar: the origin tells the ledger checker to expect none
        draft.record("schedule.skipped", slot_at=now, reason=refusal, detail={"origin": origin})
    return draft.decision(refusal)


def _refusal_of_request(draft: Draft) -> SkipReason | None:
    end_at = draft.plan.definition.end_at
    is_over = end_at is not None and draft.now >= end_at * SECOND
    if draft.state.status != "active" or draft.shared.is_system_paused or is_over:
        return "paused"
    refusal = _make_way(draft, draft.plan.definition.if_running)
    return "already_running" if refusal == "retrying" else refusal  # requests have a closed list of reasons


def _make_way(draft: Draft, if_running: IfRunning) -> SkipReason | None:
    """Apply the overlap rule to a requested job: return the reason to skip it, or None when it may be enqueued."""
    verdict = overlap(draft.state, if_running, draft.plan.definition.queue_limit, draft.outstanding)
    if verdict == "cancel":
        draft.cancel_own("overlap", running=True)
        continue_idle_chain(draft)
    return None if verdict == "go" or verdict == "cancel" else verdict


def _enqueue(
    draft: Draft, origin: Origin, slot_at: int, line: Line | None, payload: Mapping[str, Any] | None = None
) -> None:
    """Add a job outside the calendar: it counts as outstanding unless it is a backfill, and takes its places."""
    state, definition = draft.state, draft.plan.definition
    number = state.fire_count + 1
    new_id = job_id(state.uid, number, 0)
    draft.jobs.append(
        NewJob(
            new_id,
            number,
            0,
            origin,
            slot_at,
            due_at=slot_at,
            is_ready=is_ready(state, line),
            payload=None if payload is None else payload_text({**json.loads(definition.payload), **payload}),
            line=line,
            cost_reserved=draft.charge(new_id, counted=budgets.requested_budgets(definition, origin)),
        )
    )
    draft.state = row_changes.request(state, origin != "backfill")
    if is_own(origin):  # it counts towards the guard, which never refuses it
        draft.take_place()
    elif definition.capacity is not None:
        draft.shared.move(definition.capacity.key, outstanding=1)


def cancel_job(
    schedule: Schedule, job_id: str, now: int, shared: Shared, *, actor: str | None = None
) -> Decision:
    """Cancel one job for a person; this ends the slot of a chain, and the chain continues."""
    draft = Draft(schedule, now, shared)
    for job in schedule.outstanding:
        if job.job_id == job_id:
            draft.cancel(job, "person", actor=actor)
    if draft.cancelled and all(job.job_id == job_id or not job.is_own for job in schedule.outstanding):
        continue_idle_chain(draft)
    return draft.decision()


def cancel_orphan(job: Job, now: int, shared: Shared) -> Event:
    """Cancel a job whose schedule is deleted: give its places back, and end the probe of its breaker."""
    give_places_back(job, shared)
    if job.cost_reserved is not None and job.status == "queued":
        budgets.release(shared, job)
    elif job.cost_reserved is not None:
        budgets.settle(shared, job, None, None, now)
    breakers.count_outcome(shared, job, Outcome("cancelled"), now, None)
    schedule = (job.schedule_id, job.uid)
    return Event("job.cancelled", now, *schedule, slot_at=job.slot_at, reason="person", job_id=job.job_id)


def backfill(
    schedule: Schedule, slots: Sequence[int], now: int, shared: Shared, *, if_running: IfRunning = "queue"
) -> Decision:
    """Enqueue jobs for past slots, outside the ledger: in a line of their own, or in parallel with `allow`.

    if_running is applied to the schedule's other jobs once, for the whole call.
    """
    draft = Draft(schedule, now, shared)
    refusal = None if if_running == "queue" else _make_way(draft, if_running)
    for slot_at in slots if refusal is None else ():
        _enqueue(draft, "backfill", slot_at, None if if_running == "allow" else "backfill")
    return draft.decision(refusal)


def slots_of_history(history: ScheduleHistory, first: int, last: int, most: int) -> list[int]:
    """Return up to `most` slots of a schedule in [first, last), each on the grid of the revision in force then."""
    found: list[int] = []
    grids = _grids_of(history)
    plans = {revision.revision: revision.plan for revision in history.revisions}
    for position, (begins_at, revision, anchor_at) in enumerate(grids):
        definition = plans[revision].definition
        if definition.is_chain or isinstance(definition.trigger, OnRequest):
            raise BackfillError("a chain, a webhook or a chat has no past slots to fill")
        ends_at = grids[position + 1][0] if position + 1 < len(grids) else last
        calendar = plans[revision].calendar(anchor_at)
        # Slots lie after the event that set the grid, except for one in the second of creation.
        is_immediate = anchor_at is not None and begins_at - SECOND < anchor_at <= begins_at
        slot_at = calendar.next_to_come(max(first - 1, begins_at - SECOND if is_immediate else begins_at))
        until = min(last, ends_at) - 1
        while slot_at is not None and calendar.is_reached(slot_at, until) and len(found) < most:
            found.append(slot_at)
            slot_at = calendar.next_after(slot_at)
    return found


def _grids_of(history: ScheduleHistory) -> list[tuple[int, int, int | None]]:
    """Return the start, revision and anchor of each grid; the events that change revision or anchor contain them."""
    grids: list[tuple[int, int, int | None]] = []
    revision, anchor_at = 1, None
    for recorded in history.events:
        detail = recorded.event.detail
        if "revision" not in detail and "anchor_at" not in detail:
            continue
        revision = int(str(detail.get("revision", revision)))
        moved = detail.get("anchor_at", anchor_at)
        anchor_at = moved if isinstance(moved, int) else None
        grids.append((recorded.event.at, revision, anchor_at))
    return grids
