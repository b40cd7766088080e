"""Jobs that a person, a webhook or a chat asks for: beside the slots, and never refused by guard, breaker or
budget (O5, X3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from everwhen.decide.draft import Draft
from everwhen.decide.overlap import is_ready, overlap
from everwhen.decide.tick import continue_chain
from everwhen.errors import BackfillError
from everwhen.model.decision import Decision
from everwhen.model.history import Life
from everwhen.model.instants import SECOND
from everwhen.model.job import NewJob, Origin, is_own, job_id
from everwhen.model.policy import IfRunning
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.timetable.trigger import OnRequest


def trigger(
    schedule: Schedule,
    now: int,
    shared: Shared,
    *,
    payload: Mapping[str, Any] | None = None,
    if_running: IfRunning = "queue",
    origin: Origin = "manual",
) -> Decision:
    """A job now, with the payload merged over the schedule's; next_run_at and counters stay."""
    draft = Draft(schedule, now, shared)
    verdict = overlap(draft.state, if_running, draft.plan.definition.queue_limit)
    if verdict not in ("go", "cancel"):
        return draft.decision()
    if verdict == "cancel":
        draft.cancel_own("overlap", running=True)
        _go_on_with_chain(draft)
    state = draft.state
    number = state.fire_count + 1
    slot_at = now
    draft.jobs.append(
        NewJob(
            job_id(state.uid, number, 0),
            number,
            0,
            origin,
            slot_at,
            now,
            is_ready=is_ready(state, draft.plan.definition.if_running, None),
            payload=None if payload is None else _merged(draft.plan.definition.payload, payload),
        )
    )
    draft.state = draft.state._replace(fire_count=number, outstanding=draft.state.outstanding + 1)
    if is_own(origin):  # a webhook or a chat: it counts for the guard, which never refuses it
        draft.state = draft.state._replace(last_fired_at=now)
        draft.take_places(1)
    elif draft.plan.definition.capacity is not None:
        shared.move(draft.plan.definition.capacity.key, outstanding=1)
    return draft.decision()


def cancel_job(schedule: Schedule, job_id: str, now: int, shared: Shared) -> Decision:
    """A person ends one job; the slot of a chain is over with it, and the chain goes on."""
    draft = Draft(schedule, now, shared)
    for job in schedule.outstanding:
        if job.job_id == job_id:
            draft.cancel(job, "person")
    if draft.cancelled and all(job.job_id == job_id or not job.is_own for job in schedule.outstanding):
        _go_on_with_chain(draft)
    return draft.decision()


def _go_on_with_chain(draft: Draft) -> None:
    """A chain whose job was cancelled is not in flight any more: its next slot comes into being."""
    state = draft.state
    is_waiting = state.next_slot_at is None and state.held_slot_at is None
    if draft.plan.definition.is_chain and state.status == "active" and is_waiting:
        continue_chain(draft, state.last_slot_at or 0, draft.now)


def backfill(
    schedule: Schedule, slots: Sequence[int], now: int, shared: Shared, *, if_running: IfRunning = "queue"
) -> Decision:
    """Jobs for past slots, beside the ledger, one after another unless they may run side by side."""
    draft = Draft(schedule, now, shared)
    definition = draft.plan.definition
    is_free = not any(job.origin == "backfill" for job in schedule.outstanding)
    for slot_at in slots:
        number = draft.state.fire_count + 1
        draft.jobs.append(
            NewJob(
                job_id(draft.state.uid, number, 0),
                number,
                0,
                "backfill",
                slot_at,
                slot_at,
                is_ready=is_free or if_running == "allow",
            )
        )
        is_free = False
        draft.state = draft.state._replace(fire_count=number)
        if definition.capacity is not None:
            shared.move(definition.capacity.key, outstanding=1)
    return draft.decision()


def slots_of_life(life: Life, first: int, last: int, most: int) -> list[int]:
    """Up to `most` slots that a schedule's revisions had in a span [first, last), each on the grid of its time."""
    found: list[int] = []
    grids = _grids_of(life)
    plans = {revision.revision: revision.plan for revision in life.revisions}
    for position, (begins_at, revision, anchor_at) in enumerate(grids):
        definition = plans[revision].definition
        if definition.is_chain or isinstance(definition.trigger, OnRequest):
            raise BackfillError("a chain, a webhook or a chat has no past slots to fill")
        ends_at = grids[position + 1][0] if position + 1 < len(grids) else last
        calendar = plans[revision].calendar(anchor_at)
        # Slots come after the event that brought the grid, but for one in the very second of creation.
        is_immediate = anchor_at is not None and begins_at - SECOND < anchor_at <= begins_at
        slot_at = calendar.next_after(max(first - 1, begins_at - SECOND if is_immediate else begins_at))
        while slot_at is not None and slot_at < min(last, ends_at) and len(found) < most:
            found.append(slot_at)
            slot_at = calendar.next_after(slot_at)
    return found


def _grids_of(life: Life) -> list[tuple[int, int, int | None]]:
    """From when on which revision was in force, with which anchor: events that move either carry it."""
    grids: list[tuple[int, int, int | None]] = []
    revision, anchor_at = 1, None
    for recorded in life.events:
        detail = recorded.event.detail
        if "revision" not in detail and "anchor_at" not in detail:
            continue
        revision = int(str(detail.get("revision", revision)))
        moved = detail.get("anchor_at", anchor_at)
        anchor_at = moved if isinstance(moved, int) else None
        grids.append((recorded.event.at, revision, anchor_at))
    return grids


def _merged(base: str, payload: Mapping[str, Any]) -> str:
    return json.dumps({**json.loads(base), **payload})
