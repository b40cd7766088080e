"""Upcoming slots with their jitter, and what will happen to them as far as that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from everwhen.decide.outlook import Conditions, coming_slots, explain_status, explain_system
from everwhen.model.schedule import Schedule
from everwhen.operations.schedules import get_schedule
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of
from everwhen.timetable.civil_time import zone

_ALONE = Conditions()


@dataclass(frozen=True, slots=True)
class UpcomingSlot:
    """An upcoming slot. `is_estimate`: it depends on when something before it ends.

    `until`: how long the reason of a skip holds, if that is known; a slot that will be held fires then.
    """

    schedule_id: str
    slot_at: int
    due_at: int
    skip_reason: str | None = None
    is_estimate: bool = False
    hold_reason: str | None = None
    until: int | None = None


def upcoming(runtime: Runtime, schedule_id: str, count: int = 10) -> list[UpcomingSlot]:
    """Return the next slots of one schedule."""

    schedule = get_schedule(runtime, schedule_id)
    return upcoming_of(schedule, count, conditions_of(runtime, [schedule]))


def upcoming_of_all(runtime: Runtime, count: int, *, owner: str | None = None) -> list[UpcomingSlot]:
    """Return the next slots of all schedules, or of an owner's: they come from the schedules that are due soonest."""
    soonest = store_of(runtime).catalogue.soonest(count, owner=owner)
    return list(islice(in_order(soonest, conditions_of(runtime, soonest)), count))


def conditions_of(runtime: Runtime, schedules: Sequence[Schedule]) -> Conditions:
    """Return the limits and breakers of these schedules, and whether the system is paused."""
    store = store_of(runtime)
    shared = store.catalogue.shared_of(*schedules)
    return Conditions(runtime.clock.now(), shared, store.catalogue.system_paused_at())


def explain_silence(runtime: Runtime, schedule: Schedule | None = None) -> str | None:
    """Explain why a schedule (any schedule, if none is given) does not fire in its present state, and what to do."""
    conditions = Conditions(
        runtime.clock.now(), system_paused_at=store_of(runtime).catalogue.system_paused_at()
    )
    if schedule is None:
        return explain_system(conditions, zone(runtime.timezone))
    return explain_status(schedule, conditions.now) or explain_system(conditions, schedule.definition.zone)


def upcoming_of(schedule: Schedule, count: int, conditions: Conditions = _ALONE) -> list[UpcomingSlot]:
    """Return the next slots of a schedule in its present state."""
    return list(islice(coming(schedule, conditions), count))


def in_order(schedules: Iterable[Schedule], conditions: Conditions, start: int = 0) -> Iterator[UpcomingSlot]:
    """Merge the slots of many schedules by due time; slots are computed only when consumed."""
    lines = (coming(schedule, conditions, start) for schedule in schedules)
    return merge(*lines, key=lambda slot: (slot.due_at, slot.schedule_id))


def coming(schedule: Schedule, conditions: Conditions, start: int = 0) -> Iterator[UpcomingSlot]:
    """Yield the slots of one schedule that are due at or after `start`."""
    schedule_id = schedule.state.schedule_id
    for slot in coming_slots(schedule, conditions, start):
        fate, reason, until = slot.outlook
        yield UpcomingSlot(
            schedule_id,
            slot_at=slot.slot_at,
            due_at=slot.due_at,
            skip_reason=reason if fate == "skipped" else None,
            is_estimate=slot.is_estimate,
            hold_reason=reason if fate == "held" else None,
            until=until,
        )
