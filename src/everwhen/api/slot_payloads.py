"""The shapes of answers about slots: those to come, those that were, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from everwhen.api.job_payloads import Job, job_to_json
from everwhen.api.payloads import Object, Shape, When, when_text
from everwhen.model.schedule import ScheduleType
from everwhen.operations.record import SlotEntry
from everwhen.operations.upcoming import UpcomingSlot


class Upcoming(Shape):
    """A slot to come."""

    schedule_id: str
    slot_at: When
    due_at: When
    skip_reason: str | None = Field(description="Why it will be skipped, as far as that is known.")
    is_estimate: bool = Field(description="It depends on when a run, or a pause, before it ends.")
    hold_reason: str | None = Field(description="Why it will be held, as far as that is known.")
    until: When | None = Field(
        description="How long the reason holds, where that is known; a held slot fires then."
    )


def upcoming_to_json(slot: UpcomingSlot) -> Object:
    return {
        "schedule_id": slot.schedule_id,
        "slot_at": when_text(slot.slot_at),
        "due_at": when_text(slot.due_at),
        "skip_reason": slot.skip_reason,
        "is_estimate": slot.is_estimate,
        "hold_reason": slot.hold_reason,
        "until": when_text(slot.until),
    }


class UpcomingList(Shape):
    items: list[Upcoming]
    total: int
    sentence: str | None = Field(description="Why nothing fires as things stand, and how to go on.")


def upcoming_list(slots: list[UpcomingSlot], sentence: str | None) -> Object:
    items = [upcoming_to_json(slot) for slot in slots]
    return {"items": items, "total": len(items), "sentence": sentence}


class PreviewSlot(Upcoming):
    """A slot that would be."""

    note: str | None = Field(description="What a change of the clock does to it.")


class Preview(Shape):
    """A trigger in words, and its next slots."""

    sentence: str = Field(examples=["at 09:00, Monday to Friday"])
    type: ScheduleType
    timezone: str
    items: list[PreviewSlot]
    total: int


class Slot(Shape):
    """What became of one slot, or of a range of slots that one event stands for."""

    slot_at: When
    fate: Literal["fired", "skipped", "missed", "caught_up", "held"]
    reason: str | None
    count: int = Field(description="How many slots it stands for.")
    first_at: When | None
    last_at: When | None
    job: Job | None


def slot_to_json(entry: SlotEntry) -> Object:
    return {
        "slot_at": when_text(entry.slot_at),
        "fate": entry.fate,
        "reason": entry.reason,
        "count": entry.count,
        "first_at": when_text(entry.first_at),
        "last_at": when_text(entry.last_at),
        "job": None if entry.job is None else job_to_json(entry.job),
    }


class SlotList(Shape):
    """A page of slots, newest first."""

    items: list[Slot]
    total: int = Field(description="How many are on this page; a ledger is not counted.")
    next_cursor: str | None


class Explanation(Shape):
    """What became of a slot, and why."""

    schedule_id: str
    timezone: str
    slot_at: When | None
    fate: str
    reason: str | None
    sentence: str
    evidence: list[Object]
    next_run_at: When | None
