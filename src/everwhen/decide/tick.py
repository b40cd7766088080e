"""The tick, from due slot to job: the rules of `judge` in their order, folded over a batch of due schedules.

Each schedule in the batch has a slot that is due, or a held slot that may be released. The decisions are values;
nothing changes before the store has committed them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.decide import status as statuses
from everwhen.decide.budgets import Refusal
from everwhen.decide.catch_up import LiveSlot, WindowEntries, catch_up
from everwhen.decide.draft import Draft, EndedHold, detail_of
from everwhen.decide.fast_path import fire_fast
from everwhen.decide.overlap import Overlap, overlap
from everwhen.decide.slots import interval_of
from everwhen.errors import StoreError
from everwhen.model import row_changes
from everwhen.model.calendar import Calendar
from everwhen.model.changes import Decision
from everwhen.model.events import NOTHING
from everwhen.model.instants import SECOND
from everwhen.model.limits import Shared
from everwhen.model.policy import MOST_GRACE
from everwhen.model.reasons import HoldReason, SkipReason
from everwhen.model.schedule import Schedule
from everwhen.timetable.interval import chain_slot

# The slots of a chain are created one by one; the rest of a long backlog waits for the next evaluation.
CHAIN_AT_MOST = 1_000


def tick(schedules: Iterable[Schedule], now: int, shared: Shared) -> list[Decision]:
    """Decide every due or released slot of a batch, oldest due_at first; each decision sees the ones before it."""
    ordered = sorted(schedules, key=lambda schedule: due_first(schedule, now))
    return [_guarded(schedule, now, shared) for schedule in ordered]


def is_still_due(decision: Decision, now: int) -> bool:
    """Return whether the schedule has due slots left: a chain far behind is decided in portions."""
    next_run_at = decision.after.next_run_at
    return next_run_at is not None and next_run_at <= now


def due_first(schedule: Schedule, now: int) -> int:
    """Return the instant by which due schedules are ordered."""
    state = schedule.state
    if state.next_run_at is not None and state.next_run_at <= now:
        return state.next_run_at  # it supersedes a held slot, whose age no longer counts
    return now if state.held_due_at is None else state.held_due_at


def _guarded(schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Decide one schedule; if its evaluation raises, it becomes invalid and the others continue."""
    mark = shared.mark()
    try:
        return decide(schedule, now, shared)
    except Exception as error:  # any error concerns this schedule alone
        shared.back_to(mark)
        draft = Draft(schedule, now, shared)
        _end_what_is_open(schedule, draft)
        draft.become("invalid", "schedule.invalidated", f"{type(error).__name__}: {error}")
        return draft.decision()


def _end_what_is_open(schedule: Schedule, draft: Draft) -> None:
    """Give every slot that was reached its entry, without the calendar if that raises."""
    trial = Draft(schedule, draft.now, draft.shared)
    with contextlib.suppress(Exception):
        if schedule.plan.fault is None:
            statuses.end_open_slots(trial, "paused")
            draft.state, draft.events = trial.state, trial.events
            return
    state = draft.state
    held = draft.end_hold()
    draft.end_gathering()
    for slot_at, detail in ((state.held_slot_at, detail_of(held)), (state.next_slot_at, NOTHING)):
        if slot_at is not None and slot_at <= draft.now:
            draft.record("schedule.skipped", slot_at=slot_at, reason="paused", detail=detail)
            draft.state = draft.state._replace(last_slot_at=slot_at)


def decide(schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Decide the slots of one schedule that are due now, and the one that it holds."""
    return fire_fast(schedule, now, shared) or decide_full(schedule, now, shared)


def decide_full(schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Decide the same with every rule applied."""
    draft = Draft(schedule, now, shared)
    state = draft.state
    if state.status != "active":
        return draft.decision()
    if draft.plan.fault is not None:
        raise StoreError(draft.plan.fault)
    is_due = state.next_run_at is not None and state.next_run_at <= now
    if state.held_slot_at is not None:
        if is_due and not draft.plan.definition.is_chain:
            draft.end_held("superseded")  # the next slot came due first
        elif state.release_at is not None and state.release_at <= now:
            _decide_held(draft)
    if is_due:
        if draft.plan.definition.is_chain:
            _decide_chain(draft)
        else:
            _decide_due(draft)
    if draft.pause_until is not None and draft.state.status == "active":
        statuses.pause_for_budget(draft, draft.pause_until)
    return draft.decision()


# -- which slots --


def _decide_due(draft: Draft) -> None:
    """Split the due slots into missed ones and at most one live one, and decide both."""
    state, now = draft.state, draft.now
    assert state.next_slot_at is not None and state.next_run_at is not None
    calendar = draft.plan.calendar(state.anchor_at)
    newest, due_at = state.next_slot_at, state.next_run_at
    slots: Sequence[int] = (newest,)
    following = calendar.next_after(newest)
    if following is not None and following <= now:  # one of several
        slots = calendar.due_slots(newest, now)
        newest = slots[-1]
        due_at = calendar.due_at(newest)
        following = calendar.next_after(newest)
    if now - due_at <= draft.plan.grace_of(newest, following):
        left = _decide_missed(draft, calendar, slots[:-1], newest, following)
        if left != "fired":
            decide_live(draft, newest, due_at, passes=left == "pass")
    else:
        _decide_missed(draft, calendar, slots, None, following)
    _move_on(draft, following, None if following is None else calendar.due_at(following))


def _decide_missed(
    draft: Draft, calendar: Calendar, missed: Sequence[int], live: int | None, following: int | None
) -> LiveSlot:
    if not missed:
        return "judge"
    entries = WindowEntries(draft)
    left = catch_up(entries, calendar, missed, live, following)
    entries.close()
    return left


def _decide_chain(draft: Draft) -> None:
    """Decide a chain, which has one slot at a time: the next exists when this one is over without a job."""
    entries = WindowEntries(draft)
    for _ in range(CHAIN_AT_MOST):
        state = draft.state
        slot_at = state.next_slot_at
        if slot_at is None or state.next_run_at is None or state.next_run_at > draft.now:
            break
        due_at = state.next_run_at
        jobs = len(draft.jobs)
        following = slot_at + interval_of(draft.plan)
        if draft.now - due_at <= draft.plan.grace_of(slot_at, following):
            decide_live(draft, slot_at, due_at)
        else:
            catch_up(entries, draft.plan.calendar(state.anchor_at), [slot_at], None, None)
        if len(draft.jobs) > jobs or draft.state.held_slot_at is not None:
            _move_on(draft, None, None)
        else:
            continue_chain(draft, slot_at, due_at, entries)
    entries.close()


def continue_idle_chain(draft: Draft, slot_at: int = 0) -> None:
    """Create the next slot of a chain that has nothing in flight any more, counted from now."""
    state = draft.state
    is_waiting = state.next_slot_at is None and state.held_slot_at is None
    if draft.plan.definition.is_chain and state.status == "active" and is_waiting:
        continue_chain(draft, max(slot_at, state.last_slot_at or 0), draft.now)


def continue_chain(draft: Draft, slot_at: int, ended_at: int, entries: WindowEntries | None = None) -> None:
    """Create the next slot after the end of a chain's last one: end + interval; done when that reaches end_at."""
    definition = draft.plan.definition
    interval = interval_of(draft.plan) // SECOND
    second = chain_slot(ended_at=ended_at / SECOND, interval=interval, previous_slot_at=slot_at // SECOND)
    second = max(second, definition.start_at or second)  # an edit in flight may have put it off
    if definition.end_at is not None and second >= definition.end_at:
        if entries is not None:
            entries.close()  # in the ledger, a slot's entry comes before the end of its schedule
        draft.become("done", "schedule.done", "done")
        return
    calendar = draft.plan.calendar(draft.state.anchor_at)
    following = second * SECOND
    draft.state = row_changes.move_on(draft.state, following, calendar.due_at(following))


def _move_on(draft: Draft, next_slot_at: int | None, next_run_at: int | None) -> None:
    """Set the row to the slot after those decided; the end of the last slot makes the schedule done."""
    draft.state = row_changes.move_on(draft.state, next_slot_at, next_run_at)
    if next_slot_at is None and draft.state.held_slot_at is None and not draft.plan.definition.is_chain:
        draft.become("done", "schedule.done", "done")


# -- held slots --


def _decide_held(draft: Draft) -> None:
    """Decide a released slot again, with now in place of its due_at; lateness does not apply to it."""
    state = draft.state
    assert state.held_slot_at is not None and state.held_due_at is not None
    slot_at, due_at, since = state.held_slot_at, state.held_due_at, state.held_since
    held = draft.end_hold()
    draft.state = draft.state._replace(held_since=since)
    decide_live(draft, slot_at, due_at, held=held)
    if draft.state.held_slot_at is not None:
        return
    draft.state = draft.state._replace(held_since=None)
    if draft.plan.definition.is_chain:
        if not draft.jobs:
            continue_chain(draft, slot_at, due_at)
    elif draft.state.next_slot_at is None:
        draft.become("done", "schedule.done", "done")


# -- the order of the rules --


class HoldVerdict(NamedTuple):
    reason: HoldReason
    key: str | None
    release_at: int | None
    limit: int = 0


class FireVerdict(NamedTuple):
    is_probe: bool
    cancels: bool = False


Verdict = SkipReason | HoldVerdict | FireVerdict | Refusal


def decide_live(
    draft: Draft, slot_at: int, due_at: int, *, passes: bool = False, held: EndedHold | None = None
) -> None:
    """Fire, skip or hold one slot. `passes`: it follows a missed window; overlap and limits are not checked.

    `held`: what held it until now, which its entry keeps if it does not fire.
    """
    is_on_time = not passes and held is None and draft.now - due_at <= MOST_GRACE
    verdict = judge(draft, due_at, passes=passes, is_released=held is not None, is_on_time=is_on_time)
    match verdict:
        case FireVerdict():
            if verdict.cancels:
                draft.cancel_own("overlap", running=True)
            catch_up_job = draft.jobs[-1] if passes and draft.jobs else None
            draft.fire(slot_at, due_at, is_probe=verdict.is_probe, behind=catch_up_job, is_on_time=is_on_time)
        case HoldVerdict():
            draft.hold(slot_at, due_at, verdict.reason, verdict.key, verdict.release_at)
            if verdict.key is not None:
                draft.shared.widen(verdict.key, verdict.limit)
        case Refusal():
            draft.skip_for_budget(slot_at, verdict, held=held)
        case _:
            draft.skip(slot_at, verdict, held=held)


def judge(
    draft: Draft, due_at: int, *, passes: bool = False, is_released: bool = False, is_on_time: bool = False
) -> Verdict:
    """Return the verdict of the first rule that applies."""
    definition, now = draft.plan.definition, draft.now
    # A late slot must not begin in a closed time either.
    verdict = (
        _closed(draft, now, is_released) if is_released else _closed(draft, due_at) or _closed(draft, now)
    )
    if verdict is not None:
        return verdict
    gate = breakers.gate(draft.shared, definition.breaker, now)
    if gate == "shut":
        return "circuit_open"
    found: Overlap = "go"
    if not passes:
        found = overlap(draft.state, definition.if_running, definition.queue_limit, draft.outstanding)
    if found != "go" and found != "cancel":
        return found
    if definition.budgets and (refused := draft.refused()) is not None:
        return refused
    if draft.is_too_soon(is_on_time=is_on_time):
        return "budget"
    if not passes and (verdict := _limits(draft)) is not None:
        return verdict
    return FireVerdict(gate == "probe", cancels=found == "cancel")


def _closed(draft: Draft, at: int, is_released: bool = False) -> Verdict | None:
    calendar = draft.plan.calendar(draft.state.anchor_at)
    reason = calendar.closed_reason(at)
    if reason is None:
        return None
    if reason in draft.plan.defers and not is_released:
        opening = calendar.opening_from(at)
        if opening is not None:
            return HoldVerdict(reason, None, opening)
    return reason


def _limits(draft: Draft) -> Verdict | None:
    definition, shared = draft.plan.definition, draft.shared
    guard, capacity = definition.guard, definition.capacity
    if definition.if_running in ("queue", "cancel"):
        return None
    if guard is not None and shared.limit(guard.key).outstanding >= guard.limit:
        return HoldVerdict("outstanding_limit", guard.key, None, guard.limit)
    if capacity is not None and shared.limit(capacity.key).outstanding >= capacity.limit:
        return HoldVerdict("at_capacity", capacity.key, None, capacity.limit)
    return None
