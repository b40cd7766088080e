"""Why did it fire, or why not? Answered from the record, for schedules that are gone as well."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.decide.explain import Evidence, Explanation, explain_slot, no_slot
from everwhen.errors import UnknownScheduleError
from everwhen.model.history import Life, Recorded, Revision
from everwhen.model.instants import SECOND
from everwhen.model.job import OWN_ORIGINS
from everwhen.ports.house import House
from everwhen.ports.ledger import JobFilter

NEAR = 30 * SECOND
_STOPPED_BY = {
    "schedule.paused": "paused",
    "schedule.invalidated": "invalid",
    "schedule.done": "done",
    "schedule.died": "dead",
    "schedule.deleted": "done",
}
_STARTED_BY = ("schedule.created", "schedule.resumed", "schedule.revived", "schedule.restored")


def why(house: House, schedule_id: str, at: int | None = None) -> Explanation:
    """What became of the slot nearest to an instant (default: the last one)."""
    now = house.clock.now()
    life, system = _life(house, schedule_id)
    revision = _revision_at(life, now if at is None else at)
    slot_at = _nearest(life, revision, now, at)
    if isinstance(slot_at, Explanation):
        return slot_at
    jobs = house.ledger.jobs(JobFilter(uid=life.uid, slot_at=slot_at, origins=OWN_ORIGINS), limit=100)
    evidence = Evidence(
        slot_at,
        revision.plan.definition.zone,
        life.state,
        list(reversed(jobs)),
        house.ledger.events_of_slot(life.uid, slot_at),
        "system" if _is_system_paused(system, slot_at) else _stopped_by(life, slot_at),
    )
    return explain_slot(evidence, now)


def _life(house: House, schedule_id: str) -> tuple[Life, Sequence[Recorded]]:
    uid = house.ledger.uid_of(schedule_id)
    if uid is None:
        raise UnknownScheduleError(schedule_id)
    with house.ledger.history([uid]) as history:
        for life in history.lives:
            return life, history.system
    raise UnknownScheduleError(schedule_id)


def _revision_at(life: Life, instant: int) -> Revision:
    in_force = [revision for revision in life.revisions if revision.in_force_at <= instant]
    return in_force[-1] if in_force else life.revisions[0]


def _nearest(life: Life, revision: Revision, now: int, at: int | None) -> int | Explanation:
    state = life.state
    if at is None:
        last = state.last_slot_at if state is not None else None
        if last is not None:
            return last
        at = now
    if revision.plan.definition.is_chain:
        known = (
            [slot for slot in (state.last_slot_at, state.next_slot_at) if slot] if state is not None else []
        )
        return min(known, key=lambda slot: abs(slot - at)) if known else at
    anchor = _anchor_at(life, at)
    calendar = revision.plan.calendar(anchor)
    before, after = calendar.last_until(at), calendar.next_after(at)
    near = [slot for slot in (before, after) if slot is not None and abs(slot - at) <= NEAR]
    if near:
        return min(near, key=lambda slot: abs(slot - at))
    return no_slot(revision.plan, at, before, after)


def _anchor_at(life: Life, instant: int) -> int | None:
    """The anchor in force then: events that move it carry it."""
    anchor: int | None = None
    for recorded in life.events:
        event = recorded.event
        if event.at <= instant + SECOND and "anchor_at" in event.detail:
            found = event.detail["anchor_at"]
            anchor = found if isinstance(found, int) else None
    return anchor


def _is_system_paused(system: Sequence[Recorded], slot_at: int) -> bool:
    switched = [r.event.type for r in system if r.event.at <= slot_at and r.event.type.startswith("system.")]
    return bool(switched) and switched[-1] == "system.paused"


def _stopped_by(life: Life, slot_at: int) -> str | None:
    """Why the schedule was not active at the slot; None when it was."""
    stopped: str | None = None
    for recorded in life.events:
        event = recorded.event
        if event.at > slot_at:
            break
        if event.type in _STARTED_BY:
            stopped = None
        elif event.type in _STOPPED_BY:
            stopped = "in_the_past" if event.reason == "in_the_past" else _STOPPED_BY[event.type]
    return stopped
