"""Why did it fire, or why not? Answered from the record, for schedules that are gone as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from everwhen.decide.explain import DELETED, Evidence, Explanation, explain_slot, no_slot, no_slot_yet
from everwhen.decide.ledger_stretches import restored_spans
from everwhen.errors import UnknownScheduleError
from everwhen.model.breaker import Transition
from everwhen.model.events import EventType
from everwhen.model.history import OF_SLOTS, STARTS, STOPS, Life, Recorded, Revision
from everwhen.model.instants import SECOND
from everwhen.model.job import OWN_ORIGINS
from everwhen.model.node import Node
from everwhen.model.reasons import SpanReason
from everwhen.model.schedule import Schedule
from everwhen.model.shared import FOR_EVER
from everwhen.operations.upcoming import conditions_of
from everwhen.ports.house import House
from everwhen.ports.ledger import EventFilter, JobFilter
from everwhen.timetable.trigger import OnRequest

NEAR = 30 * SECOND
SWITCH: tuple[EventType, ...] = ("system.paused", "system.resumed")
STARTED: tuple[EventType, ...] = ("scheduler.started",)
MOST_STARTS = 1_000  # of schedulers since a slot, that are looked through for the first


def why(house: House, schedule_id: str, at: int | None = None) -> Explanation:
    """What became of the slot nearest to an instant (default: the last one, or the first to come)."""
    now = house.clock.now()
    with house.ledger.history([_uid(house, schedule_id, at)]) as history:
        life, system, retained_from = next(iter(history.lives)), history.system, history.retained_from
        slot_at = _nearest(life, system, now, at)
    schedule = None if life.state is None else Schedule(life.state, life.revisions[-1].plan)
    if isinstance(slot_at, Explanation):
        return slot_at
    conditions = conditions_of(house, [] if schedule is None else [schedule])
    if slot_at is None:
        return no_slot_yet(life.revisions[-1].plan, schedule, conditions)
    evidence = _evidence(house, life, system, slot_at)
    present = None if schedule is None else schedule.plan
    found = explain_slot(
        replace(evidence, retained_from=retained_from, conditions=conditions, present=present)
    )
    is_to_come = at is None and slot_at > now
    return replace(found, sentence=f"No slot has come yet. {found.sentence}") if is_to_come else found


def _evidence(house: House, life: Life, system: Sequence[Recorded], slot_at: int) -> Evidence:
    """Everything on record about one slot. A deferred slot has moved on its row; the rest are due as they were."""
    jobs = house.ledger.jobs(JobFilter(uid=life.uid, slot_at=slot_at, origins=OWN_ORIGINS), limit=100)
    revision = _revision_at(life, slot_at)
    breaker = revision.plan.definition.breaker
    schedulers = [node for node in house.upkeep.nodes() if node.is_scheduler]
    due_at = revision.plan.calendar(_anchor_at(life, slot_at)).due_at(slot_at)
    events = house.ledger.events_of_slot(life.uid, slot_at)
    is_down = any(one.event.type == "schedule.missed" and one.event.reason == "down" for one in events)
    heard_before, started_after = _silence(house, schedulers, due_at) if is_down else (None, None)
    return Evidence(
        slot_at,
        due_at,
        revision,
        life.state,
        list(reversed(jobs)),
        events,
        _stopped_by_system(system, slot_at) or _stopped_by(life, slot_at),
        () if breaker is None else _transitions_before(house, breaker.key, slot_at),
        [node for node in schedulers if node.was_up_at(slot_at)],
        max((node.heartbeat_at for node in schedulers), default=None),
        heard_before,
        started_after,
        house.outbox.on_its_way(jobs[0].job_id) if jobs and jobs[0].status == "queued" else None,
    )


def _silence(house: House, schedulers: Sequence[Node], due_at: int) -> tuple[int | None, int | None]:
    """The last heartbeat before an instant and the next start after it.

    The first start after it has both on record (G2); without that event the nodes tell, as long as they are kept.
    """
    starts = house.ledger.events(EventFilter(types=STARTED, since=due_at), limit=MOST_STARTS)
    if starts and len(starts) < MOST_STARTS:
        event = starts[-1].event
        heard = event.detail.get("last_heartbeat_at")
        if isinstance(heard, int) and heard <= due_at:
            return heard, event.at
    before = [node.heartbeat_at for node in schedulers if node.heartbeat_at <= due_at]
    after = [node.started_at for node in schedulers if node.started_at > due_at]
    return max(before, default=None), min(after, default=None)


def _transitions_before(house: House, key: str, slot_at: int) -> list[Transition]:
    """The change of the breaker that was in force at the slot, and the few before it."""
    return [move for move in house.ledger.transitions(key, limit=200) if move.at <= slot_at][:3]


def _uid(house: House, schedule_id: str, at: int | None) -> str:
    """Of an id that was deleted and added again, the life that had begun by then; the newest if no time is asked."""
    uid = house.ledger.uid_of(schedule_id, FOR_EVER if at is None else at)
    if uid is None:
        raise UnknownScheduleError(schedule_id)
    return uid


def _revision_at(life: Life, instant: int) -> Revision:
    in_force = [revision for revision in life.revisions if revision.in_force_at <= instant]
    return in_force[-1] if in_force else life.revisions[0]


def _nearest(life: Life, system: Sequence[Recorded], now: int, at: int | None) -> int | Explanation | None:
    """The slot that is meant; None where there is none yet."""
    if at is None:
        last = [slot for slot in (_last_slot(life), _last_restored(life, system)) if slot is not None]
        return max(last, default=None if life.state is None else life.state.next_slot_at)
    plan = _revision_at(life, at).plan
    if plan.definition.is_chain or isinstance(plan.definition.trigger, OnRequest):
        return min(_slots_on_record(life, at), key=lambda slot: abs(slot - at), default=None)
    calendar = plan.calendar(_anchor_at(life, at))
    before, after = calendar.last_until(at), calendar.next_after(at)
    near = [slot for slot in (before, after) if slot is not None and abs(slot - at) <= NEAR]
    if near:
        return min(near, key=lambda slot: abs(slot - at))
    return no_slot(plan, at, before, after)


def _last_slot(life: Life) -> int | None:
    """The last slot that was decided; of what the row does not know (it is gone, or requests) the record tells."""
    state = life.state
    if state is not None and state.last_slot_at is not None:
        return state.last_slot_at
    is_open = state is not None and not isinstance(life.revisions[-1].plan.definition.trigger, OnRequest)
    return None if is_open else max(_decided_slots(life, FOR_EVER), default=None)


def _last_restored(life: Life, system: Sequence[Recorded]) -> int | None:
    """The last slot between a backup and its restore: it came, and no row knows what became of it."""
    spans = restored_spans(system)
    if not spans or life.revisions[0].in_force_at > spans[-1].after:
        return None
    after, until = spans[-1].after, spans[-1].until
    plan = _revision_at(life, after).plan
    is_on_record = plan.definition.is_chain or isinstance(plan.definition.trigger, OnRequest)
    if is_on_record or _stopped_by(life, after) is not None:
        return None
    slot_at = plan.calendar(_anchor_at(life, after)).last_until(until)
    return slot_at if slot_at is not None and slot_at > after else None


def _slots_on_record(life: Life, at: int) -> Iterator[int]:
    """The slots that no calendar knows, a chain's and those of requests; of a range the one nearest to `at`."""
    yield from _decided_slots(life, at)
    if life.state is not None:
        yield from (slot for slot in (life.state.next_slot_at, life.state.held_slot_at) if slot is not None)


def _decided_slots(life: Life, at: int) -> Iterator[int]:
    yield from (job.slot_at for job in life.jobs if job.is_own)
    for recorded in life.events:
        event = recorded.event
        if event.type in OF_SLOTS and event.slot_at is not None:
            yield _within(event.detail, event.slot_at, event.slot_count, at)
    state = life.state
    if state is not None and state.skip_first_at is not None:  # gathered on the row, and no event yet
        ends = {"first": state.skip_first_at, "last": state.skip_last_at}
        yield _within(ends, state.skip_first_at, state.skip_count, at)


def _within(ends: Mapping[str, object], slot_at: int, count: int, at: int) -> int:
    """The slot of a range that is nearest to an instant; the slots of a range are evenly apart."""
    first, last = ends.get("first"), ends.get("last")
    if count == 1 or not isinstance(first, int) or not isinstance(last, int):
        return slot_at
    step = max((last - first) // (count - 1), SECOND)
    return min(max(first + (at - first + step // 2) // step * step, first), last)


def _anchor_at(life: Life, instant: int) -> int | None:
    """The anchor in force then: events that move it carry it."""
    anchor: int | None = None
    for recorded in life.events:
        event = recorded.event
        if event.at <= instant + SECOND and "anchor_at" in event.detail:
            found = event.detail["anchor_at"]
            anchor = found if isinstance(found, int) else None
    return anchor


def _stopped_by_system(system: Sequence[Recorded], slot_at: int) -> SpanReason | None:
    """A span of all schedules that the slot lies in: before a backup was restored, or of the switch."""
    if any(span.after < slot_at <= span.until for span in restored_spans(system)):
        return "restored"
    switched = [r.event.type for r in system if r.event.at <= slot_at and r.event.type in SWITCH]
    return "system" if switched and switched[-1] == "system.paused" else None


def _stopped_by(life: Life, slot_at: int) -> str | None:
    """Why the schedule was not active at the slot; None when it was."""
    stopped: str | None = None
    for recorded in life.events:
        event = recorded.event
        if event.at > slot_at:
            break
        if event.type == "schedule.created" or event.type in STARTS:
            stopped = None
        elif event.type in STOPS:
            stopped = "in_the_past" if event.reason == "in_the_past" else STOPS[event.type] or DELETED
    return stopped
