"""What can be done with a schedule by hand: pause, resume, revive, trigger, backfill; one at a time, or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Path
from pydantic import FailFast, Field
from starlette.responses import Response

from everwhen.api.access import AuthenticatedRoute, Operator, Viewer
from everwhen.api.batches import ManyResults, results_to_json
from everwhen.api.calls import (
    DEFAULT_LIMIT,
    NOTHING_CHOSEN,
    Context,
    Cursor,
    Fields,
    IdempotencyKey,
    IfMatch,
    Include,
    Limit,
    ScheduleId,
    answer,
    described,
    fields_in,
    fired,
    instant_in,
    make_router,
    nothing,
    refuse_masks,
    revision_in,
    row_in,
    shown,
)
from everwhen.api.context import ApiContext
from everwhen.api.costs import cheap, expensive, many_ids_cost, page_cost
from everwhen.api.payloads import AwareInstant, Identifier, Line, Shape
from everwhen.errors import SchedulerError, UnknownScheduleError
from everwhen.model.policy import IfRunning
from everwhen.model.queries import Entry, ScheduleFilter
from everwhen.model.token import ANSWERS_KEPT
from everwhen.operations import jobs, reviews, schedules, submissions
from everwhen.operations.access import Caller, get_entry, list_entries
from everwhen.views.jobs import Fired
from everwhen.views.problems import fields_of
from everwhen.views.reviews import Review, review_to_json
from everwhen.views.schedules import BackfillAnswer, Schedule, ScheduleList, schedule_to_json, schedules_page
from everwhen.views.shape import Object

router = make_router("schedules", route_class=AuthenticatedRoute)
agents_router = make_router("agents")


class PauseBody(Shape):
    """Why a schedule is paused, and until when."""

    note: Line | None = Field(default=None, examples=["the printer is away"])
    until: AwareInstant | None = Field(default=None, description="When it resumes by itself.")


class ApproveBody(Shape):
    """The revision that was reviewed."""

    revision: int = Field(ge=1, lt=1 << 53, strict=True, examples=[1])


class DeclineBody(Shape):
    """Why the schedule is declined."""

    note: Line | None = Field(default=None, examples=["once a day is enough"])


class TriggerBody(Shape):
    """How to run the schedule."""

    payload: Object | None = Field(
        default=None,
        description="Merged into the schedule's payload; these keys override its top-level keys.",
    )
    if_running: IfRunning = "queue"


class BackfillBody(Shape):
    """The past slots that are run: from `from`, up to but not including `to`."""

    from_: AwareInstant = Field(alias="from")
    to: AwareInstant
    if_running: IfRunning = "queue"
    dry_run: bool = False


class ManyIds(Shape):
    """Schedules by id."""

    schedule_ids: Annotated[list[Identifier], Field(max_length=10_000), FailFast()]


@router.post(
    "/schedules/{schedule_id}/pause/", **described("Pause a schedule", Schedule, "The schedule, paused.", 404)
)
@cheap
def pause_schedule(
    context: Context, caller: Operator, schedule_id: ScheduleId, body: PauseBody | None = None
) -> Response:
    """The schedule must be active. Its queued jobs are cancelled; running jobs continue."""
    _pause(context, caller, schedule_id, body or PauseBody())
    return shown(context, caller, schedule_id)


def _pause(context: ApiContext, caller: Caller, schedule_id: str, body: PauseBody) -> None:
    schedules.pause_schedule(
        context.runtime,
        schedule_id,
        by="token",
        actor=caller.actor,
        note=body.note,
        until=instant_in(body.until),
        permit=caller.refuse_stranger,
    )


@router.post(
    "/schedules/{schedule_id}/resume/",
    **described("Resume a schedule", Schedule, "The schedule, active.", 404, 412, 428),
)
@cheap
def resume_schedule(
    context: Context, caller: Operator, schedule_id: ScheduleId, if_match: IfMatch = None
) -> Response:
    """The schedule must be paused. An interval fires one interval from now, a cron expression at its next match. With
    If-Match this also approves that revision; a schedule that waits for approval requires it."""
    submissions.resume_schedule(context.runtime, schedule_id, caller, expected=revision_in(if_match))
    return shown(context, caller, schedule_id)


@router.get(
    "/schedules/{schedule_id}/review/",
    **described("Get what waits for approval", Review, "What an approval of this revision would allow.", 404),
)
@expensive(10)
def review_schedule(context: Context, caller: Viewer, schedule_id: ScheduleId) -> Response:
    """Returns what the revision would fire and spend, and how it differs from the one that fired before. The schedule
    must wait for approval."""
    return answer(review_to_json(reviews.review_schedule(context.runtime, schedule_id, caller)))


@router.post(
    "/schedules/{schedule_id}/approve/",
    **described("Approve a revision of a schedule", Schedule, "The schedule, approved.", 404, 412),
)
@cheap
def approve_schedule(
    context: Context, caller: Operator, schedule_id: ScheduleId, body: ApproveBody
) -> Response:
    """The schedule must wait for approval, and the token must not require approval itself. Slots from before the
    approval do not fire."""
    submissions.approve_schedule(context.runtime, schedule_id, caller, revision=body.revision)
    return shown(context, caller, schedule_id)


@router.post(
    "/schedules/{schedule_id}/decline/",
    **described(
        "Decline a schedule that waits for approval",
        None,
        "The schedule is deleted; the audit says who declined it and why.",
        404,
        status=204,
    ),
)
@cheap
def decline_schedule(
    context: Context, caller: Operator, schedule_id: ScheduleId, body: DeclineBody | None = None
) -> Response:
    """The schedule is deleted."""
    note = None if body is None else body.note
    submissions.decline_schedule(context.runtime, schedule_id, caller, note=note)
    return nothing()


@router.post(
    "/schedules/{schedule_id}/revive/",
    **described("Start a dead or done schedule again", Schedule, "The schedule, active.", 404, 428),
)
@cheap
def revive_schedule(context: Context, caller: Operator, schedule_id: ScheduleId) -> Response:
    """Its repeats and retries are counted from zero again."""
    permit = submissions.permit_revival(caller)
    schedules.revive_schedule(
        context.runtime, schedule_id, by=caller.actor, permit=permit, terms=caller.terms
    )
    return shown(context, caller, schedule_id)


@router.post(
    "/schedules/{schedule_id}/trigger/",
    **described(
        "Run a schedule now", Fired, "The job, or the reason why there is none.", 404, 412, status=202
    ),
)
@cheap
def trigger_schedule(
    context: Context,
    caller: Operator,
    schedule_id: ScheduleId,
    body: TriggerBody | None = None,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
) -> Response:
    """The job is independent of the slots: next_run_at and the counters do not change. It runs the newest revision,
    also one that waits for approval; with If-Match that revision or none."""
    body = body or TriggerBody(payload=None)
    refuse_masks({"payload": body.payload})
    firing = jobs.trigger_schedule(
        context.runtime,
        schedule_id,
        payload=body.payload,
        if_running=body.if_running,
        actor=caller.actor,
        permit=caller.refuse_unapproved if body.payload is None else caller.refuse_other_keys,
        cause=caller.cause,
        once=None if idempotency_key is None else jobs.IdempotencyKey(idempotency_key, ANSWERS_KEPT),
        expected=revision_in(if_match),
    )
    return fired(context, firing, {"idempotent-replayed": "true"} if firing.is_repeated else None)


@router.post(
    "/schedules/{schedule_id}/backfill/",
    **described(
        "Run past slots that have no job",
        BackfillAnswer,
        "The slots, and whether they were only counted.",
        404,
    ),
)
@expensive(100)
def backfill_schedule(
    context: Context, caller: Operator, schedule_id: ScheduleId, body: BackfillBody
) -> Response:
    """Runs at most 1,000 slots of the revisions that were in force from `from` to `to` (exclusive). With `dry_run` they
    are only listed."""
    found = jobs.backfill(
        context.runtime,
        schedule_id,
        body.from_,
        body.to,
        if_running=body.if_running,
        dry_run=body.dry_run,
        permit=caller.refuse_unapproved,
        cause=caller.cause,
    )
    return answer(BackfillAnswer.of(found, dry_run=body.dry_run))


# -- many at once --


def _many(context: ApiContext, caller: Caller, ids: list[str], do: Callable[[str], None]) -> Response:
    results: list[Object] = []
    for schedule_id in ids:
        try:
            do(schedule_id)
            entry = get_entry(context.runtime, schedule_id, caller)
            fields = schedule_to_json(entry, context.place_of(entry))
            results.append({"id": schedule_id, "schedule": fields, "problem": None})
        except SchedulerError as error:
            results.append({"id": schedule_id, "schedule": None, "problem": fields_of(error)})
    return answer(results_to_json(results))


@router.post(
    "/schedules/batch-pause/", **described("Pause many schedules", ManyResults, "One result per id.")
)
@expensive(many_ids_cost)
def pause_schedules(context: Context, caller: Operator, body: ManyIds) -> Response:
    """Each schedule is paused independently: the result of one that cannot be paused has the problem."""
    return _many(context, caller, body.schedule_ids, lambda each: _pause(context, caller, each, PauseBody()))


@router.post(
    "/schedules/batch-resume/", **described("Resume many schedules", ManyResults, "One result per id.")
)
@expensive(many_ids_cost)
def resume_schedules(context: Context, caller: Operator, body: ManyIds) -> Response:
    """Each schedule is resumed independently: the result of one that cannot be resumed has the problem."""

    def resume_one(schedule_id: str) -> None:
        submissions.resume_schedule(context.runtime, schedule_id, caller)

    return _many(context, caller, body.schedule_ids, resume_one)


@router.post(
    "/schedules/batch-delete/",
    **described(
        "Delete many schedules",
        None,
        "The schedules are deleted; unknown ids are ignored.",
        409,
        status=204,
    ),
)
@expensive(many_ids_cost)
def delete_schedules(context: Context, caller: Operator, body: ManyIds) -> Response:
    """Unknown ids, and those of other owners, are ignored. A schedule of the configuration file refuses the call."""
    found = []
    for schedule_id in dict.fromkeys(body.schedule_ids):
        try:
            found.append(get_entry(context.runtime, schedule_id, caller))
        except UnknownScheduleError:
            continue
    for entry in found:
        submissions.refuse_declared_external(entry)
    for entry in found:
        try:
            schedules.delete_schedule(
                context.runtime,
                entry.schedule.state.schedule_id,
                by=caller.actor,
                permit=caller.refuse_stranger,
            )
        except UnknownScheduleError:  # somebody else was faster
            continue
    return nothing()


# -- agents with their schedules by name, switched on and off: aliases of list, resume and pause --

AgentName = Annotated[str, Path(max_length=300, pattern=r"^[^\x00]+$", examples=["reviewer"])]
ScheduleName = Annotated[
    str, Path(max_length=300, pattern=r"^[^\x00]+$", description="Its name in the file, or its id.")
]


@agents_router.get(
    "/agents/{name}/schedules/", **described("The schedules of an agent", ScheduleList, "A page.", 404)
)
@expensive(page_cost)
def list_agent_schedules(
    context: Context,
    caller: Viewer,
    name: AgentName,
    fields: Fields = NOTHING_CHOSEN,
    include: Include = NOTHING_CHOSEN,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. The answer is 404 when the token may see no schedule of the agent."""
    names, wanted = fields_in(fields, include), ScheduleFilter(group=name, target="agent")
    page = list_entries(context.runtime, wanted, caller, limit=limit, before=row_in(cursor))
    if not page.total:
        raise UnknownScheduleError(name)
    return answer(schedules_page(page, context.place_of, fields=names))


@agents_router.post(
    "/agents/{name}/schedules/{schedule}/enable/",
    **described("Enable a schedule of an agent", Schedule, "The schedule, active.", 404, 428),
)
@cheap
def enable_agent_schedule(
    context: Context, caller: Operator, name: AgentName, schedule: ScheduleName
) -> Response:
    """The same as resume: the schedule must be paused."""
    found = _find(context, caller, name, schedule).schedule.state.schedule_id
    submissions.resume_schedule(context.runtime, found, caller)
    return shown(context, caller, found)


@agents_router.post(
    "/agents/{name}/schedules/{schedule}/disable/",
    **described("Disable a schedule of an agent", Schedule, "The schedule, paused.", 404),
)
@cheap
def disable_agent_schedule(
    context: Context, caller: Operator, name: AgentName, schedule: ScheduleName
) -> Response:
    """The same as pause: the schedule must be active."""
    found = _find(context, caller, name, schedule).schedule.state.schedule_id
    _pause(context, caller, found, PauseBody())
    return shown(context, caller, found)


def _find(context: ApiContext, caller: Caller, name: str, schedule: str) -> Entry:
    if caller.is_hidden(name):
        raise UnknownScheduleError(schedule)
    for schedule_id in (f"{name}.{schedule}", schedule):
        try:
            entry = get_entry(context.runtime, schedule_id, caller)
        except UnknownScheduleError:
            continue
        definition = entry.schedule.definition
        if definition.group == name and definition.target.kind == "agent":
            return entry
    raise UnknownScheduleError(schedule)
