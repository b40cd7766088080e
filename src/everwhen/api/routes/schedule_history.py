"""What will happen and what has happened: previews, upcoming slots, the ledger of slots, explanations, figures."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from everwhen.api.access import Viewer
from everwhen.api.calls import (
    DEFAULT_LIMIT,
    Context,
    Cursor,
    Limit,
    ScheduleId,
    ScheduleJson,
    answer,
    described,
    instant_in,
    make_router,
    request_body,
    row_in,
)
from everwhen.api.costs import expensive, job_page_cost, page_cost, slots_cost, statistics_cost
from everwhen.api.payloads import SCHEDULE_BODY, AwareInstant
from everwhen.config.submission import read_submission
from everwhen.model.limits import FOR_EVER
from everwhen.model.queries import ScheduleFilter
from everwhen.operations import record, submissions, upcoming, why
from everwhen.operations.access import get_entry, uid_for, visible_to
from everwhen.operations.context import prospect_of
from everwhen.views import slots as view
from everwhen.views.schedules import RevisionList, Stats, StatsDay, StatsPoint

router = make_router("history")
Count = Annotated[int, Query(ge=1, le=500, description="The number of slots.")]
ANYTHING = {"message": {"text": "preview"}}
PREVIEW_EXAMPLES = {
    "weekdays": {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"},
    "office hours": {"every": "30m", "only_between": "08:00-18:00", "not_on": ["sat", "sun"]},
}


@router.post(
    "/preview/",
    **described(
        "Preview a trigger",
        view.Preview,
        "In words, and the next slots with what clock changes do to them.",
        404,
    ),
    openapi_extra=request_body(SCHEDULE_BODY, PREVIEW_EXAMPLES),
)
@expensive(slots_cost)
def preview_schedule(context: Context, caller: Viewer, body: ScheduleJson, limit: Count = 10) -> Response:
    """Takes any trigger with its constraints; `run` may be left out. Nothing is stored."""
    fields = _with_a_target(body.fields)
    around = context.rules_for(caller, fields)
    declared = read_submission(fields, submissions.new_id(around.now), around)
    waits = caller.token.limits.needs_approval_of(declared.definition, is_accepted=True)
    found = upcoming.preview(context.runtime, declared, limit, waits=waits)
    prospect = prospect_of(context.runtime, declared, caller)
    return answer(view.preview_to_json(found, declared.definition, prospect, around.now))


def _with_a_target(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    is_template = fields.get("type") not in (None, "webhook", "chat")  # the payload is the message
    if is_template or fields.get("run") is not None or fields.get("workflow_id") is not None:
        return fields
    return {**fields, "run": ANYTHING}


@router.get(
    "/upcoming/", **described("List the next slots of all schedules", view.UpcomingList, "The soonest first.")
)
@expensive(slots_cost)
def list_upcoming(context: Context, caller: Viewer, limit: Count = DEFAULT_LIMIT) -> Response:
    """The slots of all schedules that the token may see."""
    visible = visible_to(ScheduleFilter(), caller)
    slots = [] if visible is None else upcoming.upcoming_of_all(context.runtime, limit, visible)
    return answer(view.upcoming_list(slots, upcoming.explain_silence(context.runtime)))


@router.get(
    "/schedules/{schedule_id}/upcoming/",
    **described(
        "List the next slots of a schedule",
        view.UpcomingList,
        "Exact instants, with jitter and the skips that are certain.",
        404,
    ),
)
@expensive(slots_cost)
def list_schedule_upcoming(
    context: Context, caller: Viewer, schedule_id: ScheduleId, limit: Count = 10
) -> Response:
    """With `interval_from: completion` only the first slot is exact; the others are estimates."""
    schedule = get_entry(context.runtime, schedule_id, caller).schedule
    slots = upcoming.upcoming_of(schedule, limit, upcoming.conditions_of(context.runtime, [schedule]))
    return answer(view.upcoming_list(slots, upcoming.explain_silence(context.runtime, schedule)))


@router.get(
    "/schedules/{schedule_id}/slots/",
    **described("List the slots of a schedule", view.SlotList, "A page of the ledger, newest first.", 404),
)
@expensive(job_page_cost)
def list_schedule_slots(
    context: Context,
    caller: Viewer,
    schedule_id: ScheduleId,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Each slot was fired, skipped, missed, caught up or held, with the reason. Deleted schedules are included."""
    uid = uid_for(context.runtime, schedule_id, caller)
    found = record.slots_of(context.runtime, uid, limit=limit, before=row_in(cursor))
    return answer(view.slots_page(found, limit=limit))


@router.get(
    "/schedules/{schedule_id}/why/",
    **described(
        "Explain why a slot fired, or why not", view.Explanation, "One sentence, and the evidence.", 404
    ),
)
@expensive(5)
def explain_schedule(
    context: Context,
    caller: Viewer,
    schedule_id: ScheduleId,
    at: Annotated[
        AwareInstant | None,
        Query(description="Explain the slot nearest to this instant; by default the last slot."),
    ] = None,
) -> Response:
    """Explains the slot nearest to the instant, and what fires next. Deleted schedules are included."""
    instant = instant_in(at)
    uid = uid_for(context.runtime, schedule_id, caller, FOR_EVER if instant is None else instant)
    found = why.why(context.runtime, uid, instant)
    return answer(view.Explanation.of(found, schedule_id=schedule_id))


@router.get(
    "/schedules/{schedule_id}/stats/",
    **described("Show how the last jobs ended", Stats, "Outcomes and durations.", 404),
)
@expensive(statistics_cost)
def get_schedule_stats(
    context: Context,
    caller: Viewer,
    schedule_id: ScheduleId,
    points: Annotated[
        int, Query(ge=0, le=1_000, description="The number of jobs in `points`, the last ones.")
    ] = 0,
    days: Annotated[int, Query(ge=0, le=400, description="The number of days in `days`, the last ones.")] = 0,
) -> Response:
    """Figures of the last 1,000 jobs of every origin; the days count all jobs that retention has kept."""
    uid = uid_for(context.runtime, schedule_id, caller)
    jobs = record.last_jobs(context.runtime, uid)
    counted = record.days_of(context.runtime, uid, days) if days else []
    return answer(
        Stats.of(
            record.figures_of(jobs),
            points=[StatsPoint.of(job) for job in reversed(jobs[:points])],
            days=[StatsDay.of(day) for day in counted],
        )
    )


@router.get(
    "/schedules/{schedule_id}/revisions/",
    **described("List the revisions of a schedule", RevisionList, "Newest first.", 404),
)
@expensive(page_cost)
def list_schedule_revisions(
    context: Context,
    caller: Viewer,
    schedule_id: ScheduleId,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """The definitions of the schedule, with the time since when each was in force."""
    uid = uid_for(context.runtime, schedule_id, caller)
    page = record.list_revisions(context.runtime, uid, limit=limit, before=row_in(cursor))
    return answer(RevisionList.of(page))
