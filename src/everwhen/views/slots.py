"""Slots as they are answered: those to come, those that were, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from everwhen.model.job import JobStatus, Origin
from everwhen.model.schedule import ScheduleType
from everwhen.operations import upcoming
from everwhen.views.jobs import Job
from everwhen.views.shape import Object, View, When, cursor_of, each, field, when_text

if TYPE_CHECKING:
    from everwhen.model.schedule import Definition
    from everwhen.operations import why
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


class UpcomingList(View):
    items: list[Upcoming]
    total: int
    sentence: str | None = field(about="Why nothing fires at the moment, and what to do about it.")


class PreviewSlot(Upcoming):
    """A slot that would be."""

    note: str | None = field(about="What a change of the clock does to it.")


class Preview(View):
    """A trigger in words, and its next slots."""

    sentence: str = field(examples=["at 09:00, Monday to Friday"])
    type: ScheduleType
    timezone: str
    items: list[PreviewSlot]
    total: int


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


def preview_to_json(found: upcoming.Preview, definition: Definition) -> Object:
    return Preview.made(
        sentence=found.sentence,
        type=definition.type,
        timezone=definition.zone.name,
        items=[PreviewSlot.of(slot, note=note) for slot, note in zip(found.slots, found.notes, strict=True)],
        total=len(found.slots),
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


# The timeline as it is answered: what was and what will be.


class Bar(View):
    """One slot: a job, a skip or a miss, or a slot to come."""

    kind: Literal["job", "skipped", "missed", "upcoming"]
    schedule_id: str
    slot_at: When
    due_at: When
    count: int = field("slots", about="The number of slots that it represents.")
    reason: str | None = field(about="Why it was skipped, missed or cancelled, or will be skipped.")
    is_estimate: bool = field(about="It depends on when a run before it ends.")
    job_id: str | None = field("job", via=lambda job: job.job_id)
    origin: Origin | None = field("job", via=lambda job: job.origin)
    status: JobStatus | None = field("job", via=lambda job: job.status)
    started_at: When | None = field("job", via=lambda job: when_text(job.started_at))
    ended_at: When | None = field("job", via=lambda job: when_text(job.ended_at))


class Stretch(View):
    """A part of the span, with how many there are of each kind; of jobs, of each status."""

    from_: When = field("start")
    to: When = field("end")
    counts: dict[str, int]


class Timeline(View):
    """Bars by time; above 10,000 of them only how many there are in each of 200 stretches."""

    now: When
    items: list[Bar] = field("bars", via=each(Bar.of))
    total: int
    is_aggregated: bool
    stretches: list[Stretch] = field(via=each(Stretch.of))
    complete_until: When = field(about="Up to when slots to come are listed.")


def timeline_to_json(found: upcoming.Timeline) -> Object:
    total = len(found.bars) or sum(sum(one.counts.values()) for one in found.stretches)
    return Timeline.of(found, total=total)
