"""Approval: a schedule waits until a person has reviewed one revision of it and approves or declines it.

A schedule that waits is paused by `approval`. A `done` or `dead` schedule keeps its status and waits as well, so that
a revision that was not reviewed cannot be revived.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from everwhen.decide import status
from everwhen.decide.budgets import cost_per_day
from everwhen.decide.draft import Draft
from everwhen.decide.slots import slot_after_span
from everwhen.errors import PreconditionError, StatusError
from everwhen.model.changes import Creation, Decision
from everwhen.model.events import Event, EventType
from everwhen.model.fields import reviewed_fields
from everwhen.model.instants import to_datetime
from everwhen.model.limits import Shared
from everwhen.model.schedule import Definition, Plan, Schedule, State
from everwhen.timetable.describe import describe
from everwhen.timetable.trigger import OnRequest

APPROVAL = "approval"  # the paused_by of a schedule that waits
WAITS = "waits for approval"
SHOWN_SLOTS = 3


def is_waiting(state: State) -> bool:
    return state.paused_by == APPROVAL


def warning_of(state: State) -> str | None:
    """Say which revision a job runs that a person asks for while the schedule waits; None: it does not wait."""
    if not is_waiting(state):
        return None
    return f"this schedule waits for approval: revision {state.revision} runs, which nobody has approved"


def needs_new_look(old: Definition, new: Definition) -> bool:
    """Return whether an edit changes what a person approved: by the table of keys, anything that reaches the run, and
    when and how it takes place."""
    return reviewed_fields(new) != reviewed_fields(old)


def request_for_new(creation: Creation, plan: Plan, now: int, *, actor: str | None) -> Creation:
    """Make a new schedule, which was created paused, wait for the approval of its first revision."""
    state = creation.state._replace(status_reason=WAITS)
    return Creation(state, (*creation.events, _requested(state, plan, now, actor)))


def accepted_when_new(creation: Creation, now: int, *, actor: str | None) -> Creation:
    """Record that the person at the client was asked about a new schedule and accepted it."""
    detail = {"of_revision": creation.state.revision, "asked": True}
    accepted = _event("schedule.approved", creation.state, now, actor, detail)
    return Creation(creation.state, (*creation.events, accepted))


def request(schedule: Schedule, now: int, shared: Shared, *, actor: str | None) -> Decision:
    """Wait for approval of the current revision; as with every pause, queued own jobs are cancelled."""
    if schedule.state.status == "active":
        decision = status.pause(schedule, now, shared, by=APPROVAL, actor=actor, note=WAITS)
    else:
        draft = Draft(schedule, now, shared)
        if schedule.state.status == "invalid":  # else it would be active once it is valid again
            draft.become("paused", "schedule.paused", "paused", by=actor)
        draft.state = draft.state._replace(paused_by=APPROVAL, status_reason=WAITS, resume_at=None)
        decision = draft.decision()
    event = _requested(decision.after, schedule.plan, now, actor)
    return decision._replace(events=(*decision.events, event))


def approve(schedule: Schedule, now: int, shared: Shared, *, revision: int, by: str | None) -> Decision:
    """Approve the reviewed revision; raise PreconditionError when another one is in force."""
    state = schedule.state
    _refuse_idle(schedule, "approve")
    if state.revision != revision:
        raise PreconditionError(revision, state.revision)
    approved = _event("schedule.approved", state, now, by, {"of_revision": revision})
    if state.status == "paused":
        decision = status.resume(schedule, now, shared, by=by)
    else:
        draft = Draft(schedule, now, shared)
        draft.state = state._replace(paused_by=None, status_reason=None)
        decision = draft.decision()
    return decision._replace(events=(approved, *decision.events))


def decline(schedule: Schedule, now: int, shared: Shared, *, note: str | None, by: str | None) -> Decision:
    """Delete the schedule, and record who declined it and why."""
    _refuse_idle(schedule, "decline")
    detail = {"of_revision": schedule.state.revision, "note": note, **_name_of(schedule)}
    declined = _event("schedule.declined", schedule.state, now, by, detail)
    decision = status.delete(schedule, now, shared, cancel_running=False, by=by)
    return decision._replace(events=(declined, *decision.events))


def expire(schedule: Schedule, now: int, shared: Shared, *, waited_since: int) -> Decision:
    """Delete a schedule that was not answered in time; the event says since when it waited."""
    _refuse_idle(schedule, "expire")
    waited = to_datetime(waited_since).isoformat()
    detail = {"of_revision": schedule.state.revision, "waited_since": waited, **_name_of(schedule)}
    expired = _event("schedule.expired", schedule.state, now, None, detail)
    decision = status.delete(schedule, now, shared, cancel_running=False, by=None)
    return decision._replace(events=(expired, *decision.events))


def _name_of(schedule: Schedule) -> dict[str, object]:
    """Return the name of what is deleted: afterwards only its events name it."""
    name = schedule.definition.name
    return {"name": name} if name else {}


def _refuse_idle(schedule: Schedule, verb: str) -> None:
    if not is_waiting(schedule.state):
        raise StatusError(verb, schedule.state.status, "it does not wait for approval")


def _requested(state: State, plan: Plan, now: int, actor: str | None) -> Event:
    """Return the event that requests approval: the revision, its next slots, its cost and its prompt."""
    definition = plan.definition
    detail: dict[str, object] = {
        "of_revision": state.revision,
        "words": describe(definition.trigger, definition.zone),
        "next": _next_slots(state, plan, now),
    }
    if (cost := cost_per_day(definition, now)) is not None:
        detail |= {"cost_per_day": str(cost.mean), "most_cost_per_day": str(cost.most)}
    if definition.description:
        detail["purpose"] = definition.description
    prompt = json.loads(definition.target.spec).get("prompt") if definition.target.kind == "agent" else None
    if prompt is not None:
        detail["prompt"] = prompt
    return _event("schedule.approval_requested", state, now, actor, detail)


def _next_slots(state: State, plan: Plan, now: int) -> list[str]:
    """Return the first slots for an approval now."""
    if isinstance(plan.definition.trigger, OnRequest):
        return []
    found = slot_after_span(plan, state.anchor_at, now, state.last_slot_at)
    calendar, slot_at = plan.calendar(found.anchor_at), found.slot_at
    slots: list[str] = []
    while slot_at is not None and len(slots) < SHOWN_SLOTS:
        slots.append(to_datetime(slot_at).isoformat())
        slot_at = None if calendar.is_chain else calendar.next_after(slot_at)
    return slots


def _event(kind: EventType, state: State, now: int, actor: str | None, detail: Mapping[str, object]) -> Event:
    return Event(kind, now, state.schedule_id, state.uid, state.owner, actor=actor, detail=detail)
