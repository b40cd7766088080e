"""What will fire: exact slots with their jitter, and what will become of them as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest

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
    soonest = house.catalogue.soonest(count, owner=owner)
    slots = [slot for schedule in soonest for slot in upcoming_of(schedule, count)]
    return nsmallest(count, slots, key=lambda slot: (slot.due_at, slot.schedule_id))


def upcoming_of(schedule: Schedule, count: int) -> list[UpcomingSlot]:
    """The next slots of a schedule as it stands."""
    state = schedule.state
    if state.next_slot_at is None:
        return []
    if schedule.definition.is_chain:
        return _chain(schedule, count)
    calendar = schedule.plan.calendar(state.anchor_at)
    found: list[UpcomingSlot] = []
    slot_at: int | None = state.next_slot_at
    while slot_at is not None and len(found) < count:
        due_at = calendar.due_at(slot_at)
        found.append(UpcomingSlot(state.schedule_id, slot_at, due_at, calendar.closed_reason(due_at)))
        slot_at = calendar.next_after(slot_at)
    return found


def _chain(schedule: Schedule, count: int) -> list[UpcomingSlot]:
    """One exact slot; the rest as if every run took no time."""
    state, trigger = schedule.state, schedule.definition.trigger
    assert isinstance(trigger, Every) and state.next_slot_at is not None and state.next_run_at is not None
    calendar = schedule.plan.calendar(state.anchor_at)
    found = []
    for number in range(count):
        due_at = state.next_run_at + number * trigger.seconds * SECOND
        slot_at = state.next_slot_at + number * trigger.seconds * SECOND
        reason = calendar.closed_reason(due_at)
        found.append(UpcomingSlot(state.schedule_id, slot_at, due_at, reason, is_estimate=number > 0))
    return found
