"""Slots whose time passed while nobody could fire them (section 4 of the semantics)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal, NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.decide.draft import Draft
from everwhen.model.calendar import Calendar
from everwhen.model.events import EventType
from everwhen.model.reasons import MissReason, SkipReason
from everwhen.timetable.windows import ClosedReason

EVENTS_PER_WINDOW = 100

# The live slot is to be judged as always; or it follows the window and passes overlap, guard and capacity; or
# it stands for the window and has been fired.
LiveSlot = Literal["judge", "pass", "fired"]


class Sorted(NamedTuple):
    """A missed window by what becomes of its slots: to be caught up, skipped (in order), or held."""

    open: list[int]
    skipped: list[tuple[SkipReason, Sequence[int]]]
    held: tuple[int, ClosedReason, int] | None  # slot, reason, opening


def catch_up(
    draft: Draft, calendar: Calendar, missed: Sequence[int], live: int | None, following: int | None
) -> LiveSlot:
    """Decide a missed window, and say what is left to do about the live slot behind it."""
    window = sort_window(draft, calendar, missed, live, following)
    room = EVENTS_PER_WINDOW
    for reason, slots in window.skipped:
        room = _record(draft, "schedule.skipped", slots, reason, room)
    if window.held is not None:
        slot_at, closed, opening = window.held
        draft.hold(slot_at, calendar.due_at(slot_at), closed, None, opening)
    if not window.open:
        return "judge"
    policy = draft.plan.definition.catch_up_policy
    refused = None if policy == "skip" else _refusal(draft)
    if policy == "skip" or refused is not None:
        _miss_all(draft, calendar, window.open, refused, room)
        return "judge"
    if policy == "run_once":
        return _run_once(draft, calendar, window.open, live)
    return _run_all(draft, calendar, window.open, room)


def sort_window(
    draft: Draft, calendar: Calendar, missed: Sequence[int], live: int | None, following: int | None
) -> Sorted:
    """Closed times apply to each missed slot at its own due_at (C6)."""
    found = Sorted([], [], None)
    position = 0
    for reason, slots in calendar.runs(missed):
        position += len(slots)
        if reason is None:
            found.open.extend(slots)
        elif reason not in draft.plan.defers:
            found.skipped.append((reason, slots))
        else:
            after = missed[position] if position < len(missed) else (live or following)
            found = _defer(draft, calendar, found, reason, slots, after)
    return found


def _defer(
    draft: Draft,
    calendar: Calendar,
    found: Sorted,
    reason: ClosedReason,
    slots: Sequence[int],
    after: int | None,
) -> Sorted:
    """Of the slots that would have been deferred only the newest counts, unless a regular one was due by its
    opening."""
    newest = slots[-1]
    opening = calendar.opening_from(calendar.due_at(newest))
    if len(slots) > 1:
        found.skipped.append(("superseded", slots[:-1]))
    if opening is None:
        found.skipped.append((reason, [newest]))
    elif after is not None and calendar.due_at(after) <= opening:
        found.skipped.append(("superseded", [newest]))
    elif opening <= draft.now:
        found.open.append(newest)
    else:
        return found._replace(held=(newest, reason, opening))
    return found


def _refusal(draft: Draft) -> MissReason | None:
    """With the breaker not closed, or the budget spent, there is no catch-up (C7)."""
    definition = draft.plan.definition
    if breakers.gate(draft.shared, definition.breaker, draft.now) != "pass":
        return "circuit_open"
    return "budget" if draft.shared.spent_budget(definition.budgets, draft.now) is not None else None


def _run_once(draft: Draft, calendar: Calendar, slots: Sequence[int], live: int | None) -> LiveSlot:
    """One job stands for the whole window: the live slot's, or one of the newest missed slot (C3)."""
    if live is not None and calendar.closed_reason(calendar.due_at(live)) is None:
        job = draft.fire(live, calendar.due_at(live), stands_for=len(slots) + 1)
        _caught_up(draft, slots, job.job_id)
        return "fired"
    fired = _fire_missed(draft, calendar, slots[-1], stands_for=len(slots))
    if fired is None:
        _record(draft, "schedule.missed", slots, "late", EVENTS_PER_WINDOW)
    else:
        _caught_up(draft, slots, fired)
    return "judge"


def _run_all(draft: Draft, calendar: Calendar, slots: Sequence[int], room: int) -> LiveSlot:
    """One job per missed slot, oldest first, for the newest `catch_up_limit`; a live slot queues behind."""
    limit = draft.plan.definition.catch_up_limit
    older, newest = slots[: max(len(slots) - limit, 0)], slots[max(len(slots) - limit, 0) :]
    room = _record(draft, "schedule.missed", older, "catch_up_limit", room)
    for position, slot_at in enumerate(newest):
        if draft.shared.spent_budget(draft.plan.definition.budgets, draft.now) is not None:
            _record(draft, "schedule.missed", newest[position:], "budget", room)
            return "judge"
        if _fire_missed(draft, calendar, slot_at, stands_for=1) is None:
            room = _record(draft, "schedule.missed", [slot_at], "late", room)
    return "pass"


def _fire_missed(draft: Draft, calendar: Calendar, slot_at: int, *, stands_for: int) -> str | None:
    """A catch-up job, staggered, and never begun in a closed time; None when the schedule never opens."""
    staggered = draft.shared.next_stagger(draft.now)
    opening = calendar.opening_from(staggered or draft.now)
    if opening is None:
        return None
    not_before = None if opening <= draft.now else opening
    due_at = calendar.due_at(slot_at)
    return draft.fire(slot_at, due_at, "catch_up", not_before=not_before, stands_for=stands_for).job_id


def _caught_up(draft: Draft, slots: Sequence[int], job_id: str) -> None:
    draft.record(
        "schedule.caught_up",
        slot_at=slots[-1],
        slot_count=len(slots),
        job_id=job_id,
        detail={"first": slots[0], "last": slots[-1]},
    )


def _miss_all(
    draft: Draft, calendar: Calendar, slots: Sequence[int], reason: MissReason | None, room: int
) -> None:
    """Record every slot as missed: for the reason given, or `down` or `late` by who was alive then (C2)."""
    if reason is not None:
        _record(draft, "schedule.missed", slots, reason, room)
        return
    coverage = draft.shared.coverage
    start = 0
    while start < len(slots):
        due_at = calendar.due_at(slots[start])
        edge = coverage.steady_until(due_at) - calendar.jitter
        end = max(bisect_left(slots, edge), start + 1)
        word = "late" if coverage.covers(due_at) else "down"
        room = _record(draft, "schedule.missed", slots[start:end], word, room)
        start = end


def _record(draft: Draft, kind: EventType, slots: Sequence[int], reason: str, room: int) -> int:
    """One event per slot while there is room in this window, then one for the rest (C8)."""
    for slot_at in slots[:room]:
        draft.range_over(kind, [slot_at], reason)
    if len(slots) > room:
        draft.range_over(kind, slots[room:], reason)
    return max(room - len(slots), 0)
