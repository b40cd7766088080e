"""What will fire: exact slots with their jitter, and what will become of them as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import count, islice

from everwhen.model.calendar import Calendar
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Schedule
from everwhen.operations.schedules import get_schedule
from everwhen.ports.house import House
from everwhen.timetable.trigger import Every


@dataclass(frozen=True, slots=True)
class UpcomingSlot:
    """A slot to come. `is_estimate`: it depends on when a run before it ends."""

    schedule_id: str
    slot_at: int
    due_at: int
    skip_reason: str | None = None
    is_estimate: bool = False


def upcoming(house: House, schedule_id: str, count: int = 10) -> list[UpcomingSlot]:
    """The next slots of one schedule."""
    return upcoming_of(get_schedule(house, schedule_id), count)


def upcoming_of_all(house: House, count: int, *, owner: str | None = None) -> list[UpcomingSlot]:
    """The next slots of all schedules, or of those of an owner: they come from the schedules that are due soonest."""
    return list(islice(in_order(house.catalogue.soonest(count, owner=owner)), count))


def upcoming_of(schedule: Schedule, count: int) -> list[UpcomingSlot]:
    """The next slots of a schedule as it stands."""
    return list(islice(coming(schedule), count))


def in_order(schedules: Iterable[Schedule], start: int = 0) -> Iterator[UpcomingSlot]:
    """The slots of many schedules on one line; only those that are taken are worked out."""
    lines = (coming(schedule, start) for schedule in schedules)
    return merge(*lines, key=lambda slot: (slot.due_at, slot.schedule_id))


def coming(schedule: Schedule, start: int = 0) -> Iterator[UpcomingSlot]:
    """The slots of one schedule that are due from `start` on, one by one."""
    state = schedule.state
    calendar = schedule.plan.calendar(state.anchor_at)
    for slot_at, due_at, is_estimate in _slots(schedule, calendar, start):
        if due_at >= start:
            reason = calendar.closed_reason(due_at)
            yield UpcomingSlot(state.schedule_id, slot_at, due_at, reason, is_estimate)


def _slots(schedule: Schedule, calendar: Calendar, start: int) -> Iterator[tuple[int, int, bool]]:
    state, trigger = schedule.state, schedule.definition.trigger
    if state.next_slot_at is None or state.next_run_at is None:
        return
    if schedule.definition.is_chain:  # one exact slot; the rest as if every run took no time
        assert isinstance(trigger, Every)
        interval = trigger.seconds * SECOND
        for number in count(max(-(-(start - state.next_run_at) // interval), 0)):
            further = number * interval
            yield state.next_slot_at + further, state.next_run_at + further, number > 0
    slot_at: int | None = state.next_slot_at
    if start - calendar.jitter > state.next_slot_at:
        slot_at = calendar.first_from(start - calendar.jitter)
    while slot_at is not None:
        yield slot_at, calendar.due_at(slot_at), False
        slot_at = calendar.next_after(slot_at)
