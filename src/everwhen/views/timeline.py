"""The timeline as it is answered: what was and what will be."""

from __future__ import annotations

from typing import Literal

from everwhen.model.job import JobStatus, Origin
from everwhen.operations import timeline
from everwhen.views.shape import View, When, each, field
from everwhen.views.values import Object, when_text


class Bar(View):
    """One slot: a job, a skip or a miss, or a slot to come."""

    kind: Literal["job", "skipped", "missed", "upcoming"]
    schedule_id: str
    slot_at: When
    due_at: When
    count: int = field("slots", about="How many slots it stands for.")
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
    complete_until: When = field(about="Slots to come are told up to here.")


def timeline_to_json(found: timeline.Timeline) -> Object:
    total = len(found.bars) or sum(sum(one.counts.values()) for one in found.stretches)
    return Timeline.of(found, total=total)
