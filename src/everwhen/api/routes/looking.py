"""What will happen and what has happened: upcoming slots, the explanation of one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime
from starlette.responses import Response

from everwhen.api.access import Viewer
from everwhen.api.calls import Desk, ScheduleId, answer, says
from everwhen.api.payloads import Explanation, Object, UpcomingList, job_words, upcoming_words, when_text
from everwhen.decide.explain import Evidence
from everwhen.model.instants import instant_of
from everwhen.operations import submissions, upcoming, why

router = APIRouter(tags=["looking"])
Count = Annotated[int, Query(ge=1, le=500, description="How many slots.")]


@router.get(
    "/schedules/{schedule_id}/upcoming/",
    summary="The next slots of a schedule",
    response_model=None,
    responses=says(UpcomingList, "Exact instants, with jitter and the skips that are certain.", 404),
)
def upcoming_of(office: Desk, caller: Viewer, schedule_id: ScheduleId, limit: Count = 10) -> Response:
    """Of a completion chain the first is exact, and the others are estimates."""
    entry = submissions.get_entry(office.house, schedule_id, caller)
    slots = upcoming.upcoming(office.house, entry.schedule.state.schedule_id, limit)
    return answer({"items": [upcoming_words(slot) for slot in slots], "total": len(slots)})


@router.get(
    "/schedules/{schedule_id}/why/",
    summary="Why a slot fired, or why not",
    response_model=None,
    responses=says(Explanation, "One sentence, and the evidence.", 404),
)
def explain(
    office: Desk,
    caller: Viewer,
    schedule_id: ScheduleId,
    at: Annotated[
        AwareDatetime | None, Query(description="Near which instant; the last slot if none.")
    ] = None,
) -> Response:
    """The slot nearest to the instant, what became of it, and what fires next."""
    state = submissions.get_entry(office.house, schedule_id, caller).schedule.state
    found = why.why(office.house, state.schedule_id, _instant(at))
    words = {
        "schedule_id": state.schedule_id,
        "slot_at": when_text(found.slot_at),
        "fate": found.fate,
        "reason": found.reason,
        "sentence": found.sentence,
        "evidence": _evidence(found.evidence),
        "next_run_at": when_text(found.next_run_at),
    }
    return answer(words)


def _evidence(found: Evidence | None) -> list[Object]:
    """What the answer rests on, each piece under the word for what it is."""
    if found is None:
        return []
    words: list[Object] = [{"revision": found.revision.revision}]
    words += [{"job": job_words(job)} for job in found.jobs]
    words += [
        {"event": one.event.type, "at": when_text(one.event.at), "reason": one.event.reason, "id": one.id}
        for one in found.events
    ]
    words += [
        {"transition": one.to_state, "at": when_text(one.at), "reason": one.reason}
        for one in found.transitions
    ]
    return words + [{"scheduler": node.node} for node in found.schedulers]


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else instant_of(moment)
