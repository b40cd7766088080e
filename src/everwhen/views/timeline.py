"""The timeline as it is answered: what was, what waits and what will be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everwhen.model.job import JobStatus, Origin
from everwhen.model.outcome import summary_of
from everwhen.model.schedule import Status
from everwhen.operations.recent import SlotOutcome
from everwhen.operations.timeline_bars import Kind
from everwhen.operations.timeline_spans import SpanKind
from everwhen.timetable.describe import describe
from everwhen.views.schedules import Pause, recent_to_json
from everwhen.views.shape import Object, View, When, each, field, when_text

if TYPE_CHECKING:
    from everwhen.model.queries import TimelineJob
    from everwhen.operations import timeline


def _first_line_of_error(job: TimelineJob) -> str | None:
    if not job.error:
        return None
    return summary_of(job.error, job.error_type).split("\n", 1)[0][:200]


class Bar(View):
    """One slot: a job, a skip or a miss, a slot that is held, or one to come."""

    kind: Kind
    schedule_id: str
    slot_at: When
    due_at: When
    count: int = field("slots", about="The number of slots that it represents, of those in the time span.")
    last_at: When | None = field(about="The last of several slots; `slot_at` is the first.")
    reason: str | None = field(about="Why it was skipped, missed, cancelled or is held, or will be skipped.")
    is_estimate: bool = field(about="It depends on when a run before it ends.")
    is_skipped: bool = field(about="Of a slot to come: it will be skipped, as far as is known.")
    is_caught_up: bool = field(about="Of a slot that was missed: one job stood for it and for others.")
    since: When | None = field(about="Of a slot that is held: since when.")
    job_id: str | None = field("job", via=lambda job: job.job_id)
    origin: Origin | None = field("job", via=lambda job: job.origin)
    status: JobStatus | None = field("job", via=lambda job: job.status)
    attempt: int | None = field("job", via=lambda job: job.attempt)
    retry: int | None = field("job", via=lambda job: job.retry)
    fired_at: When | None = field(
        "job",
        via=lambda job: when_text(job.created_at),
        about="When the job was created: after `due_at` if the slot was held.",
    )
    started_at: When | None = field("job", via=lambda job: when_text(job.started_at))
    ended_at: When | None = field("job", via=lambda job: when_text(job.ended_at))
    error: str | None = field(
        "job",
        via=_first_line_of_error,
        about="Its type and the first line of its message, at most 200 characters.",
    )


class Stretch(View):
    """A part of the time span, with the number of slots of each kind; of jobs, of each status.

    Slots to come that closed times or a pause of the system will skip are counted as `skipped`.
    """

    from_: When = field("start")
    to: When = field("end")
    counts: dict[str, int]


class SilentSpan(View):
    """A time in which nothing could fire: no scheduler was running, or the system was paused."""

    kind: SpanKind
    from_: When = field("start")
    to: When | None = field("end", about="null while it lasts.")


class ClosedSpan(View):
    """A time in which a schedule fires nothing."""

    from_: When = field("start")
    to: When = field("end")
    reason: str


class PausedSpan(View):
    """A time in which a schedule was paused."""

    from_: When = field("start", about="The start of the time span, if it was paused before.")
    to: When | None = field("end", about="null while it lasts.")


class TimelineRow(View):
    """A schedule of the timeline."""

    schedule_id: str = field("entry.schedule.state.schedule_id")
    name: str | None = field("entry.schedule.definition.name")
    group: str | None = field("entry.schedule.definition.group")
    target: str = field("entry.schedule.definition.target.kind")
    owner: str | None = field("entry.schedule.state.owner")
    description_text: str = field(
        lambda row: describe(row.entry.schedule.definition.trigger, row.entry.schedule.definition.zone)
    )
    timezone: str = field("entry.schedule.definition.zone.name")
    status: Status = field("entry.schedule.state.status")
    paused_by: str | None = field("entry.schedule.state.paused_by")
    pause: Pause | None = field(
        "entry.pause",
        via=Pause.of,
        about="While it is paused: who paused it, since when, until when, and why.",
    )
    failed_slots: int = field("entry.schedule.state.failed_slots")
    running_jobs: int = field("entry.schedule.state.running_jobs")
    next_run_at: When | None = field("entry.schedule.state.next_run_at")
    jitter_seconds: float = field(lambda row: row.entry.schedule.definition.jitter_ms / 1_000)
    last_outcome: SlotOutcome | None = field(
        lambda row: row.recent.slots[-1].outcome if row.recent.slots else None,
        about="The outcome of its last slot.",
    )
    usual_seconds: float | None = field(
        lambda row: recent_to_json(row.recent)["usual_seconds"],
        about="The median run time of its last jobs that succeeded.",
    )
    counts: dict[str, int] = field(about="The number of its slots of each kind; of jobs, of each status.")
    is_listed: bool = field(
        about="Its bars are in `items`; else it has too many, and `stretches` counts them."
    )
    stretches: list[Stretch] = field(
        via=each(Stretch.of),
        about="How many slots lie where, of a row that is not listed; without empty ones.",
    )
    closed: list[ClosedSpan] = field(via=each(ClosedSpan.of))
    pauses: list[PausedSpan] = field(via=each(PausedSpan.of), about="When it was paused, newest first.")


class Timeline(View):
    """Everything in a span of time is counted, and up to 10,000 bars of it are listed: the rarest schedules first."""

    now: When
    items: list[Bar] = field(
        "bars",
        via=each(Bar.of),
        about="By time: all bars, or those of the schedules that have the fewest. With `rows`, only those of the "
        "schedules in `rows`.",
    )
    total: int = field(about="The number of slots and jobs in the time span, listed or not.")
    is_aggregated: bool = field(
        about="There are more than 10,000 bars, and so not all of them are in `items`."
    )
    stretches: list[Stretch] = field(
        via=each(Stretch.of), about="Everything in the time span, in 200 parts, if `is_aggregated`."
    )
    complete_until: When = field(about="Up to when slots to come are counted: the end of the time span.")
    rows: list[TimelineRow] = field(
        via=each(TimelineRow.of),
        about="Some of the schedules that have slots in the time span, at most `rows`: first what runs, waits or "
        "failed, then what is rare.",
    )
    schedule_count: int = field(about="The number of schedules that have slots in the time span.")
    unlisted_schedules: int = field(about="How many of them have no bars in `items`.")
    unlisted_slots: int = field(about="How many of `total` are not in `items`: they are only counted.")
    uncounted: int = field(
        about="How many records of slots that were skipped, missed or are held are in no number here, because "
        "hundreds of thousands of others lie in the time span; 0 means that everything is counted."
    )
    spans: list[SilentSpan] = field(via=each(SilentSpan.of), about="When nothing could fire.")


def timeline_to_json(found: timeline.Timeline) -> Object:
    return Timeline.of(found)
