"""Explanations why a slot fired, or why not, from the record; for deleted schedules as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from everwhen.decide.explain import (
    DELETED,
    LATE,
    SkippingPause,
    explain_slot,
    lateness,
    no_slot,
    no_slot_yet,
    ready_at,
    waiting_time,
)
from everwhen.decide.explain import Evidence as Evidence
from everwhen.decide.explain import Explanation as Explanation
from everwhen.decide.explain import Fate as Fate
from everwhen.errors import UnknownScheduleError
from everwhen.model.events import EventType
from everwhen.model.history import OF_SLOTS, STARTS, STOPS, Recorded, Revision, ScheduleHistory
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.job import OWN_ORIGINS, Job
from everwhen.model.limits import FOR_EVER
from everwhen.model.node import Node
from everwhen.model.pause import Pause
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Schedule
from everwhen.operations.upcoming import conditions_of, describing
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.trigger import Once, OnRequest
from everwhen.verify.periods import restored_spans

NEAR = 30 * SECOND
ENDS = STARTS | STOPS.keys()  # of a span in which a schedule is not active
SWITCH: tuple[EventType, ...] = ("system.paused", "system.resumed")
STARTED: tuple[EventType, ...] = ("scheduler.started",)
MOST_STARTS = 1_000  # of schedulers since a slot, among which the first is searched


class _Stop(NamedTuple):
    """Why a schedule was not active, the event that says so, and when it was over, if it is."""

    reason: str
    recorded: Recorded
    ended_at: int | None = None


def why(runtime: Runtime, schedule_id: str, at: int | None = None) -> Explanation:
    """Explain what happened to the slot nearest to an instant (default: the last, decided or held, or the first)."""
    now, ledger = runtime.clock.now(), store_of(runtime).ledger
    # If the id was deleted and added again, the schedule is the one in use at `at`, by default the newest.
    uid = ledger.uid_of(schedule_id, FOR_EVER if at is None else at)
    if uid is None:
        raise UnknownScheduleError(schedule_id)
    with ledger.history([uid], near=FOR_EVER if at is None else at) as record:
        history, system, retained_from = next(iter(record.histories)), record.system, record.retained_from
        slot_at = _nearest(history, system, now, at)
    schedule = None if history.state is None else Schedule(history.state, history.revisions[-1].plan)
    if isinstance(slot_at, Explanation):
        return slot_at
    conditions = conditions_of(runtime, [] if schedule is None else [schedule])
    conditions = describing(runtime, conditions, schedule)
    if slot_at is None:
        return no_slot_yet(history.revisions[-1].plan, schedule, conditions)
    evidence = _evidence(runtime, history, system, slot_at)
    present = None if schedule is None else schedule.plan
    evidence = replace(evidence, retained_from=retained_from, conditions=conditions, present=present)
    found = explain_slot(evidence)
    is_to_come = at is None and evidence.judged_at > now
    return replace(found, sentence=f"No slot has come yet. {found.sentence}") if is_to_come else found


def _evidence(
    runtime: Runtime, history: ScheduleHistory, system: Sequence[Recorded], slot_at: int
) -> Evidence:
    """Collect everything on record about one slot.

    The row holds the moved due time of a deferred slot; all other slots are due as their calendar says.
    """
    store = store_of(runtime)
    jobs = store.ledger.jobs(JobFilter(uid=history.uid, slot_at=slot_at, origins=OWN_ORIGINS), limit=100)
    revision = _revision_at(history, slot_at)
    breaker = revision.plan.definition.breaker
    nodes = store.upkeep.nodes()
    schedulers = [node for node in nodes if node.is_scheduler]
    due_at = revision.plan.calendar(_anchor_at(history, slot_at)).due_at(slot_at)
    judged_at = due_at if revision.plan.definition.is_one_shot else slot_at
    events = store.ledger.events_of_slot(history.uid, slot_at)
    stopped = _stopped_by_system(system, judged_at) or _stopped_by(history, judged_at)
    cited = [] if stopped is None or jobs or events else [stopped.recorded]
    passed_at = _passed_at(events, due_at)
    heard_before, started_after = (None, None)
    if lateness(jobs[::-1], due_at) >= LATE:
        heard_before, started_after = _silence_until(runtime, schedulers, due_at, jobs[-1].created_at)
    elif passed_at is not None:
        heard_before, started_after = _silence(runtime, schedulers, passed_at)
    moves = [] if breaker is None else store.ledger.transitions(breaker.key, limit=200)
    is_queued = bool(jobs) and jobs[0].status == "queued"
    return Evidence(
        slot_at,
        due_at=due_at,
        revision=revision,
        state=history.state,
        jobs=list(reversed(jobs)),
        events=[*events, *cited],
        stopped_by=None if stopped is None else stopped.reason,
        pause=_pause_of(runtime, stopped),
        skipped_by=_skipping_pause(runtime, history, system, events),
        # The transition of the breaker that was in force at the slot, and the few before it.
        transitions=[move for move in moves if move.at <= judged_at][:3],
        schedulers=[node for node in schedulers if node.was_up_at(judged_at)],
        has_lacked_workers=_lacked_workers(nodes, jobs[::-1]),
        last_sign_at=max((node.heartbeat_at for node in schedulers), default=None),
        heard_before=heard_before,
        started_after=started_after,
        clock_steps=[step for step in _steps(system) if step[0] <= due_at < step[1]],
        on_its_way=store.outbox.on_its_way(jobs[0].job_id) if is_queued else None,
    )


def _pause_of(runtime: Runtime, stopped: _Stop | None) -> Pause | None:
    """Return the pause, of the schedule or of the system, that a slot lay in; once it is over, with its real end."""
    if stopped is None or stopped.recorded.event.type not in ("schedule.paused", "system.paused"):
        return None
    pause = store_of(runtime).labels.begun_by(stopped.recorded.event)
    return pause if stopped.ended_at is None else pause._replace(until=stopped.ended_at)


def _skipping_pause(
    runtime: Runtime, history: ScheduleHistory, system: Sequence[Recorded], events: Sequence[Recorded]
) -> SkippingPause | None:
    """Return the pause that ended a slot before it was decided: what pauses a schedule skips it in the same commit.

    What a pause of the system has ended is recorded when the system goes on.
    """
    skips = [event for _, event in events if event.type == "schedule.skipped" and event.reason == "paused"]
    if not skips:
        return None
    at = skips[-1].at
    stops = [
        recorded for recorded in history.events if recorded.event.at == at and recorded.event.type in STOPS
    ]
    if stops:
        pause = _pause_of(runtime, _Stop("paused", stops[-1]))
        return None if pause is None else SkippingPause(pause, is_of_system=False)
    switched = [recorded for recorded in system if recorded.event.at <= at and recorded.event.type in SWITCH]
    paused = [recorded for recorded in switched if recorded.event.type == "system.paused"]
    if not paused or at - switched[-1].event.at > MINUTE:
        return None
    ended_at = switched[-1].event.at if switched[-1].event.type == "system.resumed" else None
    pause = _pause_of(runtime, _Stop("system", paused[-1], ended_at))
    return None if pause is None else SkippingPause(pause, is_of_system=True)


def _lacked_workers(nodes: Sequence[Node], jobs: Sequence[Job]) -> bool:
    """Return whether the node that ran the first job late had not started when it was ready, and no other one ran."""
    if waiting_time(jobs) < LATE:
        return False
    ready, workers = ready_at(jobs[0]), [node for node in nodes if node.is_worker]
    is_of_worker = any(node.node == jobs[0].node and node.started_at > ready for node in workers)
    return is_of_worker and not any(node.was_up_at(ready) for node in workers)


def _passed_at(events: Sequence[Recorded], due_at: int) -> int | None:
    """Return the instant of the slot that passed while nobody was there: when it was due, or its opening."""
    for recorded in events:
        event = recorded.event
        if event.type == "schedule.missed" and event.reason == "down":
            return due_at
        opening_at = event.detail.get("opening_at")
        if event.type == "schedule.skipped" and isinstance(opening_at, int):
            return opening_at
    return None


def _silence(runtime: Runtime, schedulers: Sequence[Node], due_at: int) -> tuple[int | None, int | None]:
    """Return the last heartbeat before an instant and the next start after it.

    The first start after it has both on record. Without that event the nodes are used, as long as they are kept.
    """
    starts = store_of(runtime).ledger.events(EventFilter(types=STARTED, since=due_at), limit=MOST_STARTS)
    if starts and len(starts) < MOST_STARTS:
        event = starts[-1].event
        heard = event.detail.get("last_heartbeat_at")
        if isinstance(heard, int) and heard <= due_at:
            return heard, event.at
    before = [node.heartbeat_at for node in schedulers if node.heartbeat_at <= due_at]
    after = [node.started_at for node in schedulers if node.started_at > due_at]
    return max(before, default=None), min(after, default=None)


def _silence_until(
    runtime: Runtime, schedulers: Sequence[Node], due_at: int, fired_at: int
) -> tuple[int | None, int | None]:
    """Return the same where no scheduler ran when a slot was due, and one that started later fired it."""
    heard_at, started_at = _silence(runtime, schedulers, due_at)
    if heard_at is None or started_at is None or started_at > fired_at:
        return None, None
    is_known = any(
        node.started_at <= due_at and (node.stopped_at or node.heartbeat_at) >= started_at
        for node in schedulers
    )
    return (None, None) if is_known else (heard_at, started_at)


def _steps(system: Sequence[Recorded]) -> Iterator[tuple[int, int]]:
    """Yield from when to when clocks were set forward."""
    for recorded in system:
        ends = (recorded.event.detail.get("from"), recorded.event.detail.get("to"))
        if recorded.event.type == "scheduler.clock_stepped":
            before, after = ends
            if isinstance(before, int) and isinstance(after, int):
                yield before, after


def _revision_at(history: ScheduleHistory, instant: int) -> Revision:
    """Return the revision in force at an instant, or in the second of it if that has the one-shot of a later one."""
    in_force = [revision for revision in history.revisions if _is_in_force(revision, instant)]
    return in_force[-1] if in_force else history.revisions[0]


def _is_in_force(revision: Revision, instant: int) -> bool:
    trigger = revision.plan.definition.trigger
    has_slot = isinstance(trigger, Once) and trigger.instant == instant // SECOND
    is_later = isinstance(trigger, Once) and trigger.due_at > revision.in_force_at
    return revision.in_force_at <= instant or (has_slot and is_later)


def _nearest(
    history: ScheduleHistory, system: Sequence[Recorded], now: int, at: int | None
) -> int | Explanation | None:
    """Return the slot in question; None if there is none yet."""
    if at is None:
        state = history.state
        held_slot_at = None if state is None else state.held_slot_at
        reached = (_last_slot(history), held_slot_at, _last_restored(history, system))
        last = [slot for slot in reached if slot is not None]
        return max(last, default=None if state is None else state.next_slot_at)
    plan = _revision_at(history, at).plan
    if plan.definition.is_chain or isinstance(plan.definition.trigger, OnRequest):
        on_record = list(_slots_on_record(history, at))
        recorded = None if at in on_record else _slot_recorded_at(history, at)
        return recorded or min(on_record, key=lambda slot: abs(slot - at), default=None)
    calendar = plan.calendar(_anchor_at(history, at))
    before, after = calendar.last_until(at), calendar.next_after(at)  # of a one-shot, whose second is shown
    if before is not None and (at == before or _shows(at, calendar.due_at(before))):
        return before
    if (recorded := _slot_recorded_at(history, at)) is not None:
        return recorded
    near = [slot for slot in (before, after) if slot is not None and abs(slot - at) <= NEAR]
    if near:
        return min(near, key=lambda slot: abs(slot - at))
    if before is not None and at <= calendar.due_at(before):
        return before
    return no_slot(plan, at, before, after)


def _slot_recorded_at(history: ScheduleHistory, at: int) -> int | None:
    """Return the slot to which an instant on record belongs, as answers show it: to the second.

    That is when a job of it was due, started or ended, was fired or is tried again, since when it is held, when an
    event about it was recorded, or else when a job of it must end.
    """
    own = [job for job in history.jobs if job.is_own]
    for names in (("due_at", "started_at", "ended_at"), ("created_at", "not_before")):
        for job in own:
            instants = (getattr(job, name) for name in names)
            if any(instant is not None and _shows(at, instant) for instant in instants):
                return job.slot_at
    state = history.state
    if state is not None and state.held_since is not None and _shows(at, state.held_since):
        return state.held_slot_at
    for recorded in history.events:
        event = recorded.event
        if event.type in OF_SLOTS and event.slot_at is not None and _shows(at, event.at):
            return _within(event.detail, event.slot_at, event.slot_count, at)
    deadlines = ((job.deadline_at, job.slot_at) for job in own if job.deadline_at is not None)
    return next((slot_at for deadline_at, slot_at in deadlines if _shows(at, deadline_at)), None)


def _shows(at: int, instant: int) -> bool:
    """Return whether a whole second is how an instant is shown, cut, or read, rounded up."""
    return instant // SECOND <= at // SECOND <= -(-instant // SECOND)


def _last_slot(history: ScheduleHistory) -> int | None:
    """Return the last decided slot.

    The record supplies it when the row cannot: it is deleted, or the schedule fires on request.
    """
    state = history.state
    if state is not None and state.last_slot_at is not None:
        return state.last_slot_at
    is_open = state is not None and not isinstance(history.revisions[-1].plan.definition.trigger, OnRequest)
    return None if is_open else max(_decided_slots(history, FOR_EVER), default=None)


def _last_restored(history: ScheduleHistory, system: Sequence[Recorded]) -> int | None:
    """Return the last slot between a backup and its restore: it came due, and no row records its outcome."""
    spans = restored_spans(system)
    if not spans or history.revisions[0].in_force_at > spans[-1].after:
        return None
    after, until = spans[-1].after, spans[-1].until
    plan = _revision_at(history, after).plan
    is_on_record = plan.definition.is_chain or isinstance(plan.definition.trigger, OnRequest)
    if is_on_record or _stopped_by(history, after) is not None:
        return None
    calendar = plan.calendar(_anchor_at(history, after))
    slot_at = calendar.last_to_pass(until)
    return slot_at if slot_at is not None and not calendar.is_reached(slot_at, after) else None


def _slots_on_record(history: ScheduleHistory, at: int) -> Iterator[int]:
    """Yield the slots that no calendar computes, those of chains and requests; of a range, the one nearest to `at`."""
    yield from _decided_slots(history, at)
    if history.state is not None:
        yield from (
            slot for slot in (history.state.next_slot_at, history.state.held_slot_at) if slot is not None
        )


def _decided_slots(history: ScheduleHistory, at: int) -> Iterator[int]:
    yield from (job.slot_at for job in history.jobs if job.is_own)
    for recorded in history.events:
        event = recorded.event
        if event.type in OF_SLOTS and event.slot_at is not None:
            yield _within(event.detail, event.slot_at, event.slot_count, at)
    state = history.state
    if state is not None and state.skip_first_at is not None:  # collected on the row, not yet in an event
        ends = {"first": state.skip_first_at, "last": state.skip_last_at}
        yield _within(ends, state.skip_first_at, state.skip_count, at)


def _within(ends: Mapping[str, object], slot_at: int, count: int, at: int) -> int:
    """Return the slot of a range that is nearest to an instant; the slots of a range are evenly spaced."""
    first, last = ends.get("first"), ends.get("last")
    if count == 1 or not isinstance(first, int) or not isinstance(last, int):
        return slot_at
    step = max((last - first) // (count - 1), SECOND)
    return min(max(first + (at - first + step // 2) // step * step, first), last)


def _anchor_at(history: ScheduleHistory, instant: int) -> int | None:
    """Return the anchor in force at an instant: events that move it contain it."""
    anchor: int | None = None
    for recorded in history.events:
        event = recorded.event
        if event.at <= instant + SECOND and "anchor_at" in event.detail:
            found = event.detail["anchor_at"]
            anchor = found if isinstance(found, int) else None
    return anchor


def _stopped_by_system(system: Sequence[Recorded], slot_at: int) -> _Stop | None:
    """Return why no schedule fired at the slot: the time before a backup was restored, or a pause of the system."""
    restores = [span.closed_by for span in restored_spans(system) if span.after < slot_at <= span.until]
    if restores:
        return _Stop("restored", next(r for r in reversed(system) if r.id in restores))
    switched = [r for r in system if r.event.at <= slot_at and r.event.type in SWITCH]
    if not switched or switched[-1].event.type != "system.paused":
        return None
    ends = (r.event.at for r in system if r.id > switched[-1].id and r.event.type == "system.resumed")
    return _Stop("system", switched[-1], next(ends, None))


def _stopped_by(history: ScheduleHistory, slot_at: int) -> _Stop | None:
    """Return why the schedule was not active at the slot; None when it was."""
    stopped: _Stop | None = None
    for recorded in history.events:
        event = recorded.event
        if event.at > slot_at:
            if stopped is not None and event.type in ENDS:
                return stopped._replace(ended_at=event.at)
            continue
        if event.type == "schedule.created" or event.type in STARTS:
            stopped = None
        elif event.type in STOPS:
            reason = "in_the_past" if event.reason == "in_the_past" else STOPS[event.type] or DELETED
            stopped = _Stop(reason, recorded)
    return stopped
