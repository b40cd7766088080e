"""What was and what will be, on one line."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from everwhen.api.access import Viewer
from everwhen.api.calls import Context, answer, responses
from everwhen.api.datetimes import Moment
from everwhen.api.payloads import Shape, When
from everwhen.api.request_guard import ROOT
from everwhen.model.instants import instant_of
from everwhen.model.job import JobStatus, Origin
from everwhen.operations.timeline import Bar as ModelBar
from everwhen.operations.timeline import timeline
from everwhen.views.values import Object, when_text

router = APIRouter(prefix=ROOT, tags=["history"])


class Bar(Shape):
    """One slot: a job, a skip or a miss, or a slot to come."""

    kind: Literal["job", "skipped", "missed", "upcoming"]
    schedule_id: str
    slot_at: When
    due_at: When
    count: int = Field(description="How many slots it stands for.")
    reason: str | None = Field(description="Why it was skipped, missed or cancelled, or will be skipped.")
    is_estimate: bool = Field(description="It depends on when a run before it ends.")
    job_id: str | None
    origin: Origin | None
    status: JobStatus | None
    started_at: When | None
    ended_at: When | None


class Stretch(Shape):
    """A part of the span, with how many there are of each kind; of jobs, of each status."""

    from_: When = Field(alias="from")
    to: When
    counts: dict[str, int]


class Timeline(Shape):
    """Bars by time; above 10,000 of them only how many there are in each of 200 stretches."""

    now: When
    items: list[Bar]
    total: int
    is_aggregated: bool
    stretches: list[Stretch]
    complete_until: When = Field(description="Slots to come are told up to here.")


@router.get(
    "/timeline/",
    summary="What was and what will be",
    response_model=None,
    responses=responses(Timeline, "Bars, or how many there are."),
)
def get_timeline(
    context: Context,
    caller: Viewer,
    from_: Annotated[Moment, Query(alias="from", description="The begin of the span.")],
    to: Annotated[Moment, Query(description="Its end, which is not in it; at most 400 days later.")],
) -> Response:
    """Over all schedules that the token may see: the ledger up to now, then the calendar with jitter and skips."""
    found = timeline(context.runtime, instant_of(from_), instant_of(to), owner=caller.token.owner)
    stretches = [
        {"from": when_text(one.start), "to": when_text(one.end), "counts": one.counts}
        for one in found.stretches
    ]
    return answer(
        {
            "now": when_text(found.now),
            "items": [_words(bar) for bar in found.bars],
            "total": len(found.bars) or sum(sum(one.counts.values()) for one in found.stretches),
            "is_aggregated": found.is_aggregated,
            "stretches": stretches,
            "complete_until": when_text(found.complete_until),
        }
    )


def _words(bar: ModelBar) -> Object:
    job = bar.job
    return {
        "kind": bar.kind,
        "schedule_id": bar.schedule_id,
        "slot_at": when_text(bar.slot_at),
        "due_at": when_text(bar.due_at),
        "count": bar.slots,
        "reason": bar.reason,
        "is_estimate": bar.is_estimate,
        "job_id": None if job is None else job.job_id,
        "origin": None if job is None else job.origin,
        "status": None if job is None else job.status,
        "started_at": None if job is None else when_text(job.started_at),
        "ended_at": None if job is None else when_text(job.ended_at),
    }
