"""Catch-up of slots whose time passed while no scheduler could fire them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal, NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.decide.draft import Draft
from everwhen.model.calendar import Calendar
from everwhen.model.events import EventType
from everwhen.model.policy import MOST_GRACE
from everwhen.model.reasons import MissReason, SkipReason
from everwhen.timetable.windows import ClosedReason

EVENTS_PER_WINDOW = 100

# `judge`: the live slot is decided as usual. `pass`: it follows the window and skips overlap, guard and capacity.
# `fired`: it stands for the window and has been fired.
LiveSlot = Literal["judge", "pass", "fired"]


class MissedWindow(NamedTuple):
    """The slots of a missed window by what happens to them: to be caught up, skipped (in order), or held."""

    open: list[Sequence[int]]  # runs of slots: a year of seconds must not become a list
    skipped: list[tuple[SkipReason, Sequence[int]]]
    held: tuple[int, ClosedReason, int] | None  # slot, reason, opening


class WindowEntries:
    """The ledger entries of one missed window: one event per slot up to a limit, then one per type and reason."""

    __slots__ = ("_events_left", "_rest", "draft")

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._events_left = EVENTS_PER_WINDOW
        self._rest: dict[tuple[EventType, str], tuple[int, int, int]] = {}

    def add(self, kind: EventType, slots: Sequence[int], reason: str) -> None:
        for slot_at in slots[: self._events_left]:
            self.draft.range_over(kind, slot_at, slot_at, 1, reason)
        rest = slots[self._events_left :]
        self._events_left = max(self._events_left - len(slots), 0)
        if rest:
            first, last, count = self._rest.get((kind, reason), (rest[0], rest[-1], 0))
            self._rest[kind, reason] = (min(first, rest[0]), max(last, rest[-1]), count + len(rest))

    def close(self) -> None:
        for (kind, reason), (first, last, count) in self._rest.items():
            self.draft.range_over(kind, first, last, count, reason)
        self._rest.clear()


def catch_up(
    entries: WindowEntries, calendar: Calendar, missed: Sequence[int], live: int | None, following: int | None
) -> LiveSlot:
    """Decide a missed window, and return what remains to be done for the live slot after it."""
    draft = entries.draft
    window = sort_window(draft, calendar, missed, live, following)
    for reason, slots in window.skipped:
        entries.add("schedule.skipped", slots, reason)
    if window.held is not None:
        slot_at, closed, opening = window.held
        draft.hold(slot_at, calendar.due_at(slot_at), closed, None, opening)
    if not window.open:
        return "judge"
    open_slots = window.open[0] if len(window.open) == 1 else [slot for run in window.open for slot in run]
    policy = draft.plan.definition.catch_up_policy
    refused = None if policy == "skip" else _refusal(draft)
    if policy == "skip" or refused is not None:
        _miss_all(entries, calendar, open_slots, refused)
        return "judge"
    if policy == "run_once":
        return _run_once(entries, calendar, open_slots, live)
    return _run_all(entries, calendar, open_slots)


def sort_window(
    draft: Draft, calendar: Calendar, missed: Sequence[int], live: int | None, following: int | None
) -> MissedWindow:
    """Sort missed slots by the closed times, which apply to each slot at its own due_at."""
    found = MissedWindow([], [], None)
    position = 0
    for reason, slots in calendar.runs(missed):
        position += len(slots)
        if reason is None:
            found.open.append(slots)
        elif reason not in draft.plan.defers:
            found.skipped.append((reason, slots))
        else:
            after = missed[position] if position < len(missed) else (live or following)
            found = _defer(draft, calendar, found, reason, slots=slots, after=after)
    return found


def _defer(
    draft: Draft,
    calendar: Calendar,
    found: MissedWindow,
    reason: ClosedReason,
    slots: Sequence[int],
    after: int | None,
) -> MissedWindow:
    """Sort slots that would have been deferred: only the newest counts, unless a regular one was due by its opening."""
    newest = slots[-1]
    opening = calendar.opening_from(calendar.due_at(newest))
    if len(slots) > 1:
        found.skipped.append(("superseded", slots[:-1]))
    if opening is None:
        found.skipped.append((reason, [newest]))
    elif after is not None and calendar.due_at(after) <= opening:
        found.skipped.append(("superseded", [newest]))
    elif opening <= draft.now:
        found.open.append([newest])
    else:
        return found._replace(held=(newest, reason, opening))
    return found


def _refusal(draft: Draft) -> MissReason | None:
    """Return why there is no catch-up: the breaker is not closed, or the budget, or its share of it, is spent."""
    definition = draft.plan.definition
    if breakers.gate(draft.shared, definition.breaker, draft.now) != "pass":
        return "circuit_open"
    return "budget" if _is_refused(draft) else None


def _is_refused(draft: Draft) -> bool:
    """Return whether a budget, its share of catch-up, or the last firing of the same token refuses one more job."""
    return draft.refused(is_catch_up=True) is not None or draft.is_too_soon()


def _run_once(entries: WindowEntries, calendar: Calendar, slots: Sequence[int], live: int | None) -> LiveSlot:
    """Fire one job for the whole window: the live slot's, or one for the newest missed slot."""
    draft = entries.draft
    if live is not None and _is_open(draft, calendar, live):
        due_at = calendar.due_at(live)
        is_on_time = draft.now - due_at <= MOST_GRACE
        job = draft.fire(live, due_at, stands_for=len(slots) + 1, is_on_time=is_on_time)
        _caught_up(draft, slots, job.job_id)
        return "fired"
    fired = _fire_missed(draft, calendar, slots[-1], stands_for=len(slots))
    if fired is None:
        _miss_all(entries, calendar, slots, None)
    else:
        _caught_up(draft, slots, fired)
    return "judge"


def _is_open(draft: Draft, calendar: Calendar, live: int) -> bool:
    """Return whether the live slot may begin: its due_at and now lie outside closed times."""
    return not (calendar.closed_reason(calendar.due_at(live)) or calendar.closed_reason(draft.now))


def _run_all(entries: WindowEntries, calendar: Calendar, slots: Sequence[int]) -> LiveSlot:
    """Fire one job per missed slot, oldest first, for the newest `catch_up_limit`; a live slot queues behind them."""
    draft = entries.draft
    newest_from = max(len(slots) - draft.plan.definition.catch_up_limit, 0)
    newest = slots[newest_from:]
    entries.add("schedule.missed", slots[:newest_from], "catch_up_limit")
    for position, slot_at in enumerate(newest):
        if _is_refused(draft):
            entries.add("schedule.missed", newest[position:], "budget")
            break
        if _fire_missed(draft, calendar, slot_at, stands_for=1) is None:
            _miss_all(entries, calendar, [slot_at], None)
    return "pass"


def _fire_missed(draft: Draft, calendar: Calendar, slot_at: int, *, stands_for: int) -> str | None:
    """Fire a catch-up job, staggered from the opening on, never in a closed time; None without an opening."""
    opening = calendar.opening_from(draft.now)
    if opening is not None:
        opening = calendar.opening_from(draft.shared.next_stagger(opening))
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
    entries: WindowEntries, calendar: Calendar, slots: Sequence[int], reason: MissReason | None
) -> None:
    """Record every slot as missed: for the given reason, or `late` if a scheduler ran then, else `down`."""
    if reason is not None:
        entries.add("schedule.missed", slots, reason)
        return
    coverage = entries.draft.shared.coverage
    start = 0
    while start < len(slots):
        due_at = calendar.due_at(slots[start])
        edge = coverage.steady_until(due_at) - calendar.jitter
        end = max(bisect_left(slots, edge), start + 1)
        entries.add("schedule.missed", slots[start:end], "late" if coverage.covers(due_at) else "down")
        start = end
