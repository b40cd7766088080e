"""A preview of a schedule before it is created: in words, its next instants, and what clock changes do to them."""

from __future__ import annotations

from dataclasses import dataclass

from everwhen.decide import edit
from everwhen.model.declared import Declared
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Plan, Schedule
from everwhen.operations.schedules import quiet_hours_of
from everwhen.operations.upcoming import UpcomingSlot, upcoming_of
from everwhen.runtime import Runtime
from everwhen.timetable.describe import describe, describe_dst
from everwhen.timetable.occurrences import series_of


@dataclass(frozen=True, slots=True)
class Preview:
    """The trigger in words, and the slots, each with a note if a clock change affects it."""

    sentence: str
    slots: list[UpcomingSlot]
    notes: list[str | None]


def preview(runtime: Runtime, declared: Declared, count: int) -> Preview:
    """Preview a declared schedule without writing."""
    definition, now = declared.definition, runtime.clock.now()
    plan = Plan(declared.schedule_id, definition, quiet_hours_of(runtime, definition))
    state = edit.create(plan, declared.schedule_id, now).state
    slots = upcoming_of(Schedule(state, plan), count)
    series = series_of(
        definition.trigger,
        zone=definition.zone,
        anchor_at=(state.anchor_at or 0) // SECOND,
        dst=definition.dst,
    )
    notes = [describe_dst(series, slot.slot_at // SECOND) for slot in slots]
    return Preview(describe(definition.trigger, definition.zone), slots, notes)
