"""Slots as they are answered: those to come, those that were, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from everwhen.model.instants import to_datetime
from everwhen.model.schedule import ScheduleType
from everwhen.operations import upcoming
from everwhen.timetable.cautions import cautions, fires_per_day
from everwhen.views.jobs import Job, JobCost
from everwhen.views.shape import Object, View, When, cursor_of, field, when_text

if TYPE_CHECKING:
    from everwhen.model.schedule import Definition
    from everwhen.operations import context, why
    from everwhen.operations.record import SlotEntry
    from everwhen.operations.upcoming import UpcomingSlot


class Upcoming(View):
    """A slot to come."""

    schedule_id: str
    slot_at: When
    due_at: When
    skip_reason: str | None = field(about="Why it will be skipped, as far as that is known.")
    is_estimate: bool = field(about="It depends on when a run, or a pause, before it ends.")
    hold_reason: str | None = field(about="Why it will be held, as far as that is known.")
    until: When | None = field(
        about="How long the reason holds, where that is known; a held slot fires then."
    )
    timezone: str = field(about="The schedule's zone.")


class UpcomingList(View):
    items: list[Upcoming]
    total: int
    sentence: str | None = field(about="Why nothing fires at the moment, and what to do about it.")


class PreviewSlot(Upcoming):
    """A slot that would be."""

    note: str | None = field(about="What a change of the clock does to it.")


class ClockChange(View):
    """The next change of the clock behind the slots of a preview."""

    at: When
    forward_seconds: int = field("forward", about="By how much the clock is put forward; negative: back.")
    slot_at: When | None = field(about="The first slot that it affects; null: no slot is affected.")
    note: str | None = field(about="What it does to that slot.")


class Preview(View):
    """A trigger in words, and its next slots."""

    sentence: str = field(examples=["at 09:00, Monday to Friday"])
    type: ScheduleType
    timezone: str
    items: list[PreviewSlot]
    total: int
    now: When
    fires_per_day: float | None = field(about="On average; null for what fires once, or on request.")
    cost_per_day: JobCost | None = field(
        about="On average, when every run costs as much as it may (cost_per_run); null: not known."
    )
    most_cost_per_day: JobCost | None = field(
        about="On its busiest day in UTC, with all retries, when every run costs as much as it may; null: not known."
    )
    ends_at: When | None = field(about="No slot from here on, by its own end or by a limit of the token.")
    warnings: list[str] = field(about="What its author may not have meant.")
    needs_approval: bool = field(about="Made by this token, it would wait for approval.")
    refusal: str | None = field(about="Why this token could not make it; null when it could.")
    refused_by: str | None = field(about="The limit of the token that refuses it.")
    clock_change: ClockChange | None = field(
        via=ClockChange.of, about="The next change of the clock that affects a slot, else the next one."
    )


class Slot(View):
    """The result of one slot, or of a range of slots that one event covers."""

    slot_at: When
    fate: Literal["fired", "skipped", "missed", "caught_up", "held"]
    reason: str | None
    count: int = field(about="The number of slots that it represents.")
    first_at: When | None
    last_at: When | None
    job: Job | None = field(via=Job.of)


class SlotList(View):
    """A page of slots, newest first."""

    items: list[Slot]
    total: int = field(about="How many are on this page; a ledger is not counted.")
    next_cursor: str | None


class Explanation(View):
    """The result of a slot, and the reason."""

    schedule_id: str
    timezone: str = field("zone.name")
    slot_at: When | None
    fate: str
    reason: str | None
    sentence: str
    evidence: list[Object] = field(lambda found: _evidence(found.evidence))
    next_run_at: When | None


def upcoming_list(slots: list[UpcomingSlot], sentence: str | None) -> Object:
    return UpcomingList.made(items=[Upcoming.of(slot) for slot in slots], total=len(slots), sentence=sentence)


def preview_to_json(
    found: upcoming.Preview, definition: Definition, prospect: context.Prospect, now: int
) -> Object:
    year, cost = to_datetime(now).year, prospect.cost_per_day
    return Preview.made(
        sentence=found.sentence,
        type=definition.type,
        timezone=definition.zone.name,
        items=[PreviewSlot.of(slot, note=note) for slot, note in zip(found.slots, found.notes, strict=True)],
        total=len(found.slots),
        now=when_text(now),
        fires_per_day=fires_per_day(definition.trigger, year),
        cost_per_day=JobCost.of_cost(cost and cost.mean),
        most_cost_per_day=JobCost.of_cost(cost and cost.most),
        ends_at=when_text(prospect.ends_at),
        warnings=cautions(definition.trigger, year),
        needs_approval=prospect.needs_approval,
        refusal=prospect.refusal,
        refused_by=prospect.refused_by,
        clock_change=None if found.clock_change is None else ClockChange.of(found.clock_change),
    )


def slots_page(found: list[SlotEntry], *, limit: int) -> Object:
    """Return a page of slots that was requested with that limit."""
    following = cursor_of(found[-1].slot_at) if len(found) == limit else None
    return SlotList.made(items=[Slot.of(one) for one in found], total=len(found), next_cursor=following)


def _evidence(found: why.Evidence | None) -> list[Object]:
    """Return what the answer rests on, each piece under the word for what it is."""
    if found is None:
        return []
    revision = {"revision": found.revision.revision, "cause": found.revision.cause}
    fields: list[Object] = [revision] if found.is_in_force else []
    fields += [{"job": Job.of(job)} for job in found.jobs]
    fields += [
        {"event": one.event.type, "at": when_text(one.event.at), "reason": one.event.reason, "id": one.id}
        for one in found.events
    ]
    fields += [
        {"transition": one.to_state, "at": when_text(one.at), "reason": one.reason}
        for one in found.transitions
    ]
    return fields + [{"scheduler": node.node} for node in found.schedulers]
