"""Creating and editing schedules: a new revision takes effect in the commit that writes it."""

from __future__ import annotations

from operator import attrgetter

from everwhen.decide.draft import Draft
from everwhen.decide.expect import with_expectation
from everwhen.decide.failing import note_lower_threshold
from everwhen.decide.slots import NextSlot, first_slot, interval_from_now, interval_of, next_slot
from everwhen.decide.status import comes_later, end_open_slots, reactivate
from everwhen.errors import TimetableError
from everwhen.model.changes import Creation, Decision
from everwhen.model.events import Event, EventType
from everwhen.model.instants import SECOND, format_instant
from everwhen.model.limits import Shared
from everwhen.model.schedule import Definition, Plan, Schedule, State
from everwhen.timetable.interval import chain_slot
from everwhen.timetable.occurrences import FirstRun
from everwhen.timetable.trigger import Every, EveryMonth, Once, OnRequest

# The fields that determine the slots, and those whose change may release a held slot, or end it.
timing_of = attrgetter(*"trigger zone.name gap fold jitter_ms start_at end_at interval_from".split())
_rules_of = attrgetter(
    *"guard capacity breaker budgets if_running only_between not_on outside_window quiet_hours_id".split()
)

_expectation_of = attrgetter(
    *"expect_each expect_within expect_grace only_between not_on outside_window quiet_hours_id".split()
)


def create(
    plan: Plan,
    uid: str,
    now: int,
    *,
    default_first_run: FirstRun = "immediately",
    is_enabled: bool = True,
    may_be_past: bool = False,
    actor: str | None = None,
    paused_by: str = "config",
) -> Creation:
    """Create a schedule. An instant already past is refused; in a file (`may_be_past`) it makes the schedule `done`.

    A schedule that is not enabled begins paused, by its file or by what `paused_by` names.
    """
    definition, schedule_id = plan.definition, plan.schedule_id
    found = first_slot(plan, now, default_first_run)
    state = State(
        row_id=0,
        uid=uid,
        schedule_id=schedule_id,
        owner=definition.owner,
        revision=1,
        status="active",
        anchor_at=found.anchor_at,
        next_slot_at=found.slot_at,
        next_run_at=found.due_at,
    )
    detail: dict[str, object] = {"revision": 1, "anchor_at": found.anchor_at}
    if isinstance(definition.trigger, EveryMonth) and definition.start_at is None:
        # The default depends on the interface that created the schedule; the anchor alone does not show it.
        detail["first_run"] = definition.first_run or default_first_run
    created = Event("schedule.created", now, schedule_id, uid, definition.owner, actor=actor, detail=detail)
    if found.slot_at is None and not isinstance(definition.trigger, OnRequest):
        if not may_be_past:
            raise_past(definition, now)
        return _stopped(state._replace(status="done", status_reason="in_the_past"), created, "schedule.done")
    if not is_enabled:
        return _stopped(state._replace(status="paused", paused_by=paused_by), created, "schedule.paused")
    # `first_run: immediately` makes a slot of the second of the creation; it is expected like every other.
    begins = now if state.next_run_at is None else min(now, state.next_run_at - 1)
    return Creation(with_expectation(state, plan, begins if definition.expect_each else now), (created,))


def _stopped(state: State, created: Event, kind: EventType) -> Creation:
    stopped = state._replace(next_slot_at=None, next_run_at=None)
    event = created._replace(type=kind, reason=state.status_reason or state.status, detail={})
    return Creation(stopped, (created, event))


def raise_past(definition: Definition, now: int) -> None:
    """Raise TimetableError for a schedule that could never fire."""
    moment = format_instant(now, definition.zone)
    key = definition.trigger.kind if isinstance(definition.trigger, Once) else "end_at"
    raise TimetableError(f"{key} is already past (it is {moment}); give a time to come", key=key)


def edit(
    schedule: Schedule,
    plan: Plan,
    now: int,
    shared: Shared,
    *,
    may_be_past: bool = False,
    actor: str | None = None,
    is_upgrade: bool = False,
) -> Decision:
    """Write a new revision. A change of the times ends the open slots; any other leaves the next slot alone.

    `is_upgrade`: not a caller but a new release causes the edit, because it reads the same keys differently.
    """
    old = schedule.definition
    draft = Draft(schedule, now, shared)
    has_new_times = timing_of(old) != timing_of(plan.definition)
    if has_new_times and draft.state.status == "active":
        end_open_slots(draft, "edited")
    draft.plan = plan
    draft.end_gathering()
    draft.state = draft.state._replace(revision=draft.state.revision + 1, owner=plan.definition.owner)
    if has_new_times:
        _take_new_times(draft, schedule.plan, may_be_past)
    elif draft.state.held_slot_at is not None and _rules_of(old) != _rules_of(plan.definition):
        draft.state = draft.state._replace(release_at=_new_release(draft))
    if has_new_times or _expectation_of(old) != _expectation_of(plan.definition):
        draft.state = with_expectation(draft.state, plan, now)
    detail: dict[str, object] = {"revision": draft.state.revision}
    if has_new_times:
        detail["anchor_at"] = draft.state.anchor_at
    if is_upgrade:
        detail["cause"] = "upgraded"
    draft.record("schedule.updated", actor=actor, detail=detail)
    note_lower_threshold(draft, old.trigger)
    return draft.decision()


def _new_release(draft: Draft) -> int:
    """Return when to decide the held slot again: a deferred one at the new opening, any other at once, but no slot
    before it is due, by whichever clock it was held."""
    now = max(draft.now, draft.state.held_due_at or draft.now)
    if draft.state.held_reason not in draft.plan.defers:
        return now
    return draft.plan.calendar(draft.state.anchor_at).opening_from(now) or now


def _take_new_times(draft: Draft, old: Plan, may_be_past: bool) -> None:
    state, definition = draft.state, draft.plan.definition
    is_one_shot = isinstance(definition.trigger, Once)
    is_rearmed = is_one_shot and state.status in ("done", "dead")
    if state.status != "active" and not is_rearmed:
        is_past = is_one_shot and next_slot(draft.plan, None, draft.now, state.last_slot_at).slot_at is None
        if is_past and not may_be_past:
            raise_past(definition, draft.now)
        if state.anchor_at is None:
            draft.state = state._replace(anchor_at=_new_grid(draft).anchor_at)
        return
    found = _next_of_new_times(draft, old)
    is_over = found.slot_at is None and not comes_later(draft)
    if is_over and not may_be_past:
        raise_past(definition, draft.now)
    if is_rearmed:
        draft.state = draft.state._replace(current_repeat=0, current_retry=0)
        reactivate(draft, found, "schedule.revived")
        return
    draft.state = draft.state._replace(
        anchor_at=found.anchor_at, next_slot_at=found.slot_at, next_run_at=found.due_at
    )
    if is_over:
        draft.become("done", "schedule.done", "in_the_past")


def _next_of_new_times(draft: Draft, old: Plan) -> NextSlot:
    """Return the new revision's first slot after now and after the last decided one; the anchor is kept."""
    state, definition = draft.state, draft.plan.definition
    after = max(draft.now, state.last_slot_at or 0)
    if definition.is_chain:
        if comes_later(draft):
            return NextSlot(state.anchor_at, None, None)
        return _chain_anew(draft, old, after)
    if isinstance(definition.trigger, Every | EveryMonth) and state.anchor_at is None:
        found = _new_grid(draft)
        if found.slot_at is None or found.slot_at > after:
            return found
        return next_slot(draft.plan, found.anchor_at, after)  # the clock went back
    return next_slot(draft.plan, state.anchor_at, draft.now, state.last_slot_at)


def _new_grid(draft: Draft) -> NextSlot:
    definition = draft.plan.definition
    if definition.start_at is not None:
        return next_slot(draft.plan, definition.start_at * SECOND, draft.now)
    if isinstance(definition.trigger, Every):
        return interval_from_now(draft.plan, draft.now)
    return next_slot(draft.plan, draft.now - draft.now % SECOND, draft.now)


def _chain_anew(draft: Draft, old: Plan, after: int) -> NextSlot:
    """Return end + interval, never before now, within the bounds; a skipped or missed slot ended at its due_at."""
    state, definition = draft.state, draft.plan.definition
    ends = [] if state.last_completed_at is None else [state.last_completed_at]
    if state.last_slot_at is not None:
        ends.append(old.calendar(state.anchor_at).due_at(state.last_slot_at))
    ended_at = max(ends, default=draft.now)
    previous, interval = (state.last_slot_at or 0) // SECOND, interval_of(draft.plan) // SECOND
    second = chain_slot(ended_at=ended_at / SECOND, interval=interval, previous_slot_at=previous)
    second = max(second, -(-after // SECOND), definition.start_at or second)
    if definition.end_at is not None and second >= definition.end_at:
        return NextSlot(state.anchor_at, None, None)
    slot_at = second * SECOND
    return NextSlot(state.anchor_at, slot_at, draft.plan.calendar(state.anchor_at).due_at(slot_at))
