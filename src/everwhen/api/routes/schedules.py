"""Schedules: made, listed, looked at, edited, deleted."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Annotated, Any, get_args

from fastapi import Depends, Path, Query
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api import batches
from everwhen.api.access import Operator, Viewer, authenticate_operator
from everwhen.api.calls import (
    DEFAULT_LIMIT,
    LONGEST_KEY,
    NOTHING_CHOSEN,
    Body,
    Context,
    Cursor,
    Fields,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    Include,
    Limit,
    Offset,
    ScheduleId,
    ScheduleJson,
    StatusWord,
    Word,
    answer,
    described,
    etag,
    fields_in,
    listed,
    make_router,
    nothing,
    parse_body,
    refuse_masks,
    request_body,
    responses,
    revision_in,
    row_in,
    schedule_body,
    shown,
)
from everwhen.api.context import ApiContext, context_of
from everwhen.api.costs import cheap, expensive, many_bodies_cost, schedule_page_cost
from everwhen.api.payloads import MOST_AT_ONCE, SCHEDULE_BATCH, SCHEDULE_BODY, model_of
from everwhen.api.problems import KEY_PATTERN, InvalidError
from everwhen.api.request_guard import NDJSON, ROOT, root_of
from everwhen.compat.body_shapes import GENERAL_EXAMPLE, MESSAGE_EXAMPLE, SCHEDULE_EXAMPLES, SHAPES
from everwhen.config.submission import read_change, read_submission, select_own_fields
from everwhen.errors import RepeatedRequestError
from everwhen.model.declare import Declared
from everwhen.model.masks import without_secrets
from everwhen.model.queries import SORTS, STATUS_ALIASES, Entry, Facet, ScheduleFilter, ScheduleOrder
from everwhen.model.schedule import Schedule as ModelSchedule
from everwhen.model.token import StoredResponse
from everwhen.operations import schedules, submissions
from everwhen.operations.access import Caller, get_entry, get_entry_by_key, list_entries
from everwhen.operations.recent import recent_of
from everwhen.views.schedules import OwnFields, Schedule, ScheduleList, schedule_to_json, schedules_page

router = make_router("schedules")
# Behind the calls below a schedule's id, which may be the word `key`.
by_key_router = make_router("schedules")

Key = Annotated[str, Path(max_length=200, pattern=KEY_PATTERN, examples=["my-report"])]
SortWord = Annotated[str, WithJsonSchema({"enum": list(SORTS)})]
Facets = Annotated[
    list[Annotated[str, WithJsonSchema({"enum": list(get_args(Facet))})]],
    Query(
        description="Count schedules by these columns: separated by commas, or one in each parameter.",
        max_length=100,
    ),
]


@router.get("/schedules/", **described("List schedules", ScheduleList, "A page."))
@expensive(schedule_page_cost)
def list_schedules(
    context: Context,
    caller: Viewer,
    status: Annotated[StatusWord | None, Query(description="Only schedules with this status.")] = None,
    workflow_id: Word = None,
    group: Word = None,
    type: Word = None,
    target: Word = None,
    owner: Word = None,
    q: Annotated[Word, Query(description="A text that the id or the name contains.")] = None,
    waiting: Annotated[bool, Query(description="Only schedules that wait for approval.")] = False,
    paused_by: Annotated[
        Word, Query(description="Only schedules paused by this: person, token, config, approval.")
    ] = None,
    failing: Annotated[bool, Query(description="Only schedules whose last slot failed.")] = False,
    running: Annotated[bool, Query(description="Only schedules that run a job.")] = False,
    held: Annotated[bool, Query(description="Only schedules that hold a slot.")] = False,
    sort: Annotated[SortWord | None, Query(description="The order; a `-` in front descends.")] = None,
    recent: Annotated[
        bool, Query(description="Add the last 30 slots and the usual run time of each.")
    ] = False,
    facets: Facets = NOTHING_CHOSEN,
    fields: Fields = NOTHING_CHOSEN,
    include: Include = NOTHING_CHOSEN,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
    cursor: Cursor = None,
) -> Response:
    """Newest first, or in the order that `sort` names. All filters must match; `workflow_id` selects the schedules that
    start this workflow."""
    order = _order(sort)
    columns = [facet for facet in get_args(Facet) if facet in listed("facets", facets, get_args(Facet))]
    matching = state_filter(status, failing=failing, running=running, held=held)
    wanted = matching._replace(
        paused_by=paused_by,
        group=group or workflow_id,
        owner=owner,
        type=type,
        target="workflow" if workflow_id is not None and target is None else target,
        text=q,
        is_waiting=waiting,
    )
    if group is not None and workflow_id not in (None, group):
        return answer({"items": [], "total": 0, "total_is_approximate": False, "next_cursor": None})
    shown_fields = fields_in(fields, include)
    before = row_in(cursor)
    # In another order than that of the rows a cursor is the number of schedules before the page.
    skipped = offset if before is None else 0 if order is None else before
    page = list_entries(
        context.runtime,
        wanted,
        caller,
        limit=limit,
        before=before if order is None else None,
        offset=skipped,
        order=order,
        facets=columns,
    )
    states = [entry.schedule.state for entry in page.entries]
    return answer(
        schedules_page(
            page,
            context.place_of,
            fields=shown_fields,
            following=None if order is None else skipped + len(page.entries),
            recent=recent_of(context.runtime, states) if recent else None,
        )
    )


def state_filter(status: str | None, *, failing: bool, running: bool, held: bool) -> ScheduleFilter:
    """Return the filter for the state of schedules; refuse an unknown status."""
    if status is not None and status not in STATUS_ALIASES:
        raise InvalidError("status", "is unknown", f"status is one of {', '.join(STATUS_ALIASES)}.")
    return ScheduleFilter(
        status=None if status is None else STATUS_ALIASES[status],
        is_failing=failing,
        is_running=running,
        is_held=held,
    )


def _order(sort: str | None) -> tuple[ScheduleOrder, bool] | None:
    if sort is None:
        return None
    if sort not in SORTS:
        raise InvalidError("sort", "is unknown", f"sort is one of {', '.join(SORTS)}.")
    return SORTS[sort]


class CreatingRoute(APIRoute):
    """The route of a single create, which programs call in bulk: it takes its arguments from the request itself.

    The framework documents them. To resolve them takes it a sixth of the time of a create.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handler(request: Request) -> Response:
            caller = await authenticate_operator(request)
            body = await schedule_body(request)
            key = _idempotency_key(request)
            answer: Response = await self.endpoint(
                request=request, caller=caller, body=body, idempotency_key=key
            )
            return answer

        return handler


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        fault = f"must have 1 to {LONGEST_KEY} characters, not {len(key)}"
        raise InvalidError("Idempotency-Key", fault, f"The header Idempotency-Key {fault}.")
    return key


creating_router = make_router("schedules", route_class=CreatingRoute)


@creating_router.post(
    "/schedules/",
    description=SHAPES,
    **described("Create a schedule", Schedule, "The new schedule.", 404, 409, status=201),
    openapi_extra=request_body(SCHEDULE_BODY, SCHEDULE_EXAMPLES),
)
@cheap
def create_schedule(
    request: Request, caller: Operator, body: ScheduleJson, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a schedule from a body of any of the accepted shapes."""
    context = context_of(request)
    if idempotency_key is None:
        declared = _declared(context, caller, body.fields)
        (entry,) = submissions.create_entries(context.runtime, [declared], caller)
        return _created(request, entry, caller)
    known = _known(context, caller, idempotency_key, body)
    return known or _created_once(request, caller, idempotency_key, body)


async def _batch_body(request: Request) -> Body | None:
    """The body of a batch; None when it is read line by line."""
    return (
        None
        if batches.is_ndjson(request)
        else await parse_body(request, await request.body(), batches.MOST_VALUES_OF_MANY)
    )


_TWO = [GENERAL_EXAMPLE, MESSAGE_EXAMPLE]
_BATCH = request_body(SCHEDULE_BATCH, {"two": _TWO, "in an object": {"schedules": _TWO}})
_BATCH["requestBody"]["content"][NDJSON] = {"schema": {"type": "string"}}
_BATCH_ANSWERS = responses(batches.CreatedResults, "One result per schedule, in their order.")
_BATCH_ANSWERS[200]["content"] = {NDJSON: {"schema": {"type": "string"}}}


@router.post(
    "/schedules/batch/",
    summary="Create many schedules",
    response_model=None,
    responses=_BATCH_ANSWERS,
    openapi_extra=_BATCH,
)
@expensive(many_bodies_cost)
def create_schedules(
    context: Context,
    caller: Operator,
    body: Annotated[Body | None, Depends(_batch_body)],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Each schedule is created independently: the result of one with a mistake has the problem. A list of JSON has at
    most 10,000 schedules; NDJSON (one schedule a line, `application/x-ndjson`) has up to 16 MiB, and is answered line
    by line while it is read.

    With an Idempotency-Key the same request creates each schedule once, even if the first one was interrupted.
    """
    batch = batches.Batch(context, caller, idempotency_key)
    if body is None:
        return batches.BatchStream(batch)
    wanted = batches.refuse_oversize(body.raw, _wanted(body.fields))
    return answer(batches.results_to_json(batch.create(wanted, [_digest(body)] * len(wanted))))


def _wanted(fields: Any) -> list[Any]:
    wanted = fields["schedules"] if isinstance(fields, dict) and set(fields) == {"schedules"} else fields
    if not isinstance(wanted, list):
        fault = "must be a list of schedules, and the only key"
        raise InvalidError("schedules", fault, 'The body is [schedule, …] or {"schedules": [schedule, …]}.')
    if len(wanted) > MOST_AT_ONCE:
        fault = f"has {len(wanted)} items; at most {MOST_AT_ONCE:,} are allowed"
        raise InvalidError("schedules", fault, "The request has too many schedules.")
    return wanted


def _created(request: Request, entry: Entry, caller: Caller) -> Response:
    fields = schedule_to_json(entry)
    location = f"{root_of(request.scope)}{ROOT}/schedules/{fields['id']}/"
    headers = {"etag": etag(entry), "location": location}
    if submissions.is_ended_by(caller, entry):
        headers["everwhen-note"] = f"end_at is {fields['end_at']}: what this token makes does not last longer"
    return answer(fields, 201, headers)


def _declared(context: ApiContext, caller: Caller, fields: Any) -> Declared:
    refuse_masks(fields)
    around = context.rules_for(caller, fields)
    return read_submission(fields, submissions.new_id(around.now), around)


def _created_once(request: Request, caller: Caller, key: str, body: Body) -> Response:
    """Create, and remember the answer in the same transaction."""
    context = context_of(request)

    def remembered(entries: Any) -> StoredResponse:
        text = _created(request, entries[0], caller).body
        return StoredResponse(caller.token.token_id, key, _digest(body), bytes(text).decode())

    declared = _declared(context, caller, body.fields)
    try:
        (entry,) = submissions.create_entries(context.runtime, [declared], caller, answer=remembered)
    except RepeatedRequestError:  # the same request, a moment ago
        known = _known(context, caller, key, body)
        if known is None:
            raise
        return known
    return _created(request, entry, caller)


def _known(context: ApiContext, caller: Caller, key: str, body: Body) -> Response | None:
    known = submissions.remembered_answer(context.runtime, caller, key)
    if known is None:
        return None
    if known.digest != _digest(body):
        raise RepeatedRequestError(key)
    return Response(known.answer.encode(), 201, {"idempotent-replayed": "true"}, "application/json")


def _digest(body: Body) -> str:
    return sha256(body.raw).hexdigest()


@by_key_router.get(
    "/schedules/key/{key}/",
    **described("Get a schedule by your own key", Schedule, "The schedule.", 404),
)
@cheap
def get_schedule_by_key(
    context: Context,
    caller: Viewer,
    key: Key,
    owner: Annotated[
        Word, Query(description="The owner of the key; by default the owner of the token.")
    ] = None,
) -> Response:
    """Keys belong to the owner of the token."""
    entry = get_entry_by_key(context.runtime, key, caller, owner)
    return answer(schedule_to_json(entry, context.place_of(entry)), headers={"etag": etag(entry)})


@by_key_router.put(
    "/schedules/key/{key}/",
    summary="Create or replace a schedule by your own key",
    response_model=None,
    responses={
        **responses(Schedule, "The schedule, replaced.", 404, 409, 412),
        201: {"description": "The schedule, new.", "model": model_of(Schedule)},
    },
    openapi_extra=request_body(SCHEDULE_BODY, SCHEDULE_EXAMPLES),
)
@cheap
def put_schedule(
    request: Request,
    context: Context,
    caller: Operator,
    key: Key,
    body: ScheduleJson,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Repeating the call leaves one schedule. Keys belong to the owner of the token. With `If-None-Match: *` the call
    creates and never replaces: 412 names the existing schedule, and `errors` the differences. A schedule that is done
    or dead gives up its key."""
    refuse_masks(body.fields)
    if if_none_match not in (None, "*"):
        raise InvalidError("If-None-Match", "is not *", "If-None-Match is * here: only create.")
    around = context.rules_for(caller, body.fields)
    schedule_id, is_new = submissions.put_entry(
        context.runtime,
        key,
        lambda schedule_id: read_submission(body.fields, schedule_id, around),
        caller,
        only_new=if_none_match is not None,
    )
    if is_new:
        return _created(request, get_entry(context.runtime, schedule_id, caller), caller)
    return shown(context, caller, schedule_id)


# A schedule with the id `key` is found by its uid here; a schedule with the key `body` as before.
@by_key_router.get(
    "/schedules/{schedule_id}/body/",
    **described("Show the body that makes a schedule again", OwnFields, "The body, without secrets.", 404),
)
@cheap
def get_schedule_body(context: Context, caller: Viewer, schedule_id: ScheduleId) -> Response:
    """Every key that is set, also what is turned off; keys that are what they would be by default are left out."""
    schedule = get_entry(context.runtime, schedule_id, caller).schedule
    around = context.rules_for(caller, {})
    own = select_own_fields(schedule.state.schedule_id, schedule.definition, around)
    body, left_out = without_secrets(own)
    if body.pop("secret", None) is not None:
        left_out.append("secret")
    return answer(OwnFields.made(body=body, left_out=left_out))


@router.get("/schedules/{schedule_id}/", **described("Get a schedule", Schedule, "The schedule.", 404))
@cheap
def get_schedule(context: Context, caller: Viewer, schedule_id: ScheduleId) -> Response:
    """By id or uid. The ETag is its revision."""
    return shown(context, caller, schedule_id)


@router.patch(
    "/schedules/{schedule_id}/",
    **described("Change a schedule", Schedule, "The schedule, changed.", 404, 409, 412),
    openapi_extra=request_body(
        SCHEDULE_BODY, {"slower": {"interval_seconds": 172800}, "no jitter": {"jitter": None}}
    ),
)
@cheap
def update_schedule(
    context: Context, caller: Operator, schedule_id: ScheduleId, body: ScheduleJson, if_match: IfMatch = None
) -> Response:
    """Takes effect at once, with a new next_run_at. A key of the trigger replaces the trigger; null clears a key."""
    expected = revision_in(if_match)
    refuse_masks(body.fields)
    around = context.rules_for(caller, body.fields)

    def rewrite(schedule: ModelSchedule) -> Declared:
        return read_change(body.fields, schedule.state.schedule_id, schedule.definition, around)

    enabled = body.fields.get("enabled") if isinstance(body.fields, dict) else None
    state = submissions.edit_entry(
        context.runtime, schedule_id, rewrite, caller, expected=expected, is_enabled=enabled
    )
    return shown(context, caller, state.schedule_id)


@router.delete(
    "/schedules/{schedule_id}/",
    **described(
        "Delete a schedule",
        None,
        "The schedule is deleted; its history is kept until retention removes it.",
        404,
        409,
        status=204,
    ),
)
@cheap
def delete_schedule(
    context: Context,
    caller: Operator,
    schedule_id: ScheduleId,
    cancel: Annotated[bool, Query(description="Also cancel its running jobs.")] = False,
) -> Response:
    """Queued jobs are cancelled. Running jobs continue, unless `cancel` is true."""
    entry = get_entry(context.runtime, schedule_id, caller)
    submissions.refuse_declared_external(entry)
    schedules.delete_schedule(
        context.runtime,
        entry.schedule.state.schedule_id,
        cancel_running=cancel,
        by=caller.actor,
        permit=caller.refuse_stranger,
    )
    return nothing()
