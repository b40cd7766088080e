"""The next slot of a schedule that is created, edited, or leaves a span."""

from __future__ import annotations

from typing import NamedTuple

from everwhen.model.instants import SECOND
from everwhen.model.schedule import Plan
from everwhen.timetable.interval import whole_second_after
from everwhen.timetable.occurrences import FirstRun, anchor_of, is_first_slot_at_anchor
from everwhen.timetable.trigger import Every, EveryMonth


class NextSlot(NamedTuple):
    """The anchor of the grid, the next slot and its due_at; without a slot the schedule is over."""

    anchor_at: int | None
    slot_at: int | None
    due_at: int | None


def first_slot(plan: Plan, created_at: int, default_first_run: FirstRun = "immediately") -> NextSlot:
    """Return the first slot of a new schedule.

    An interval begins at its anchor, which `immediately` puts into the second of creation. Every other trigger has
    its first slot after creation.
    """
    definition = plan.definition
    if not isinstance(definition.trigger, Every | EveryMonth):
        return next_slot(plan, None, created_at)
    anchor = SECOND * anchor_of(
        definition.trigger,
        created_at=created_at / SECOND,
        first_run=definition.first_run,
        start_at=definition.start_at,
        default_first_run=default_first_run,
    )
    if isinstance(definition.trigger, Every) and not definition.has_bounds and not definition.jitter_ms:
        return NextSlot(anchor, anchor, anchor)  # what the code below returns for nearly every interval
    if definition.start_at is not None and anchor <= created_at:
        return next_slot(plan, anchor, created_at)
    begins = is_first_slot_at_anchor(definition.trigger, definition.first_run or default_first_run)
    return next_slot(plan, anchor, anchor - 1 if begins or definition.start_at is not None else anchor)


def next_slot(plan: Plan, anchor_at: int | None, after: int, last_slot_at: int | None = None) -> NextSlot:
    """Return the first slot after an instant and after the last decided slot, on an existing grid."""
    calendar = plan.calendar(anchor_at)
    slot_at = calendar.next_to_come(after)
    if slot_at is not None and last_slot_at is not None and slot_at <= last_slot_at:
        slot_at = calendar.next_after(last_slot_at)
    return NextSlot(anchor_at, slot_at, None if slot_at is None else calendar.due_at(slot_at))


def interval_of(plan: Plan) -> int:
    """Return the interval of a chain or a plain interval."""
    trigger = plan.definition.trigger
    assert isinstance(trigger, Every)
    return trigger.seconds * SECOND


def interval_from_now(plan: Plan, now: int) -> NextSlot:
    """Restart a plain interval: its grid begins one interval from now."""
    anchor = whole_second_after((now + interval_of(plan)) / SECOND) * SECOND
    return next_slot(plan, anchor, anchor - 1)


def slot_after_span(plan: Plan, anchor_at: int | None, now: int, last_slot_at: int | None) -> NextSlot:
    """Return the slot after a resume or revive: an interval restarts, any other trigger continues with its next match.

    A decided slot never comes again, although the clock may have gone back meanwhile.
    """
    if not isinstance(plan.definition.trigger, Every):
        return next_slot(plan, anchor_at, now, last_slot_at)
    found = interval_from_now(plan, now)
    is_later = found.slot_at is None or found.slot_at > max(now, last_slot_at or now)
    return found if is_later else next_slot(plan, found.anchor_at, now, last_slot_at)
