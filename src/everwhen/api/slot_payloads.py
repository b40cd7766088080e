"""The shapes of answers about slots: those to come, those that were, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from everwhen.api.job_payloads import Job
from everwhen.api.payloads import Shape, When
from everwhen.model.schedule import ScheduleType
from everwhen.views.values import Object


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


class UpcomingList(Shape):
    items: list[Upcoming]
    total: int
    sentence: str | None = Field(description="Why nothing fires as things stand, and how to go on.")


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
