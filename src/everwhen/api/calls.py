"""What every call shares: its body, its answer, and how OpenAPI documents both.

A call is a plain function in `routes`: it runs on a thread, because operations wait for the database, and returns
`answer(fields)`. Its answers are documented by `described`, which adds what every call may answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.context import ApiContext, context_of
from everwhen.api.json_reader import MOST_SCHEDULE, MOST_VALUES, parse_json
from everwhen.api.payloads import model_of
from everwhen.api.problems import MEDIA_TYPE, InvalidError, RefusedError
from everwhen.api.request_guard import LARGE, ROOT, TOKEN
from everwhen.api.shares import ANONYMOUS
from everwhen.compat.body_shapes import parse_object
from everwhen.errors import SubmissionError
from everwhen.errors import shown as shown_text
from everwhen.model.instants import instant_of
from everwhen.model.masks import MASK, masked, named_items
from everwhen.model.queries import STATUS_ALIASES, Entry
from everwhen.model.scalars import unknown
from everwhen.operations.access import Caller, get_entry
from everwhen.operations.jobs import FiringResult, get_job
from everwhen.views.jobs import Fired, Job
from everwhen.views.schedules import FIELD_GROUPS, FIELD_NAMES, schedule_to_json
from everwhen.views.shape import View, encoded, read_cursor

LONGEST_KEY = 200  # characters of an Idempotency-Key
DEFAULT_LIMIT, MOST_LIMIT, MOST_OFFSET = 50, 500, 1_000_000


def operation_id(route: APIRoute) -> str:
    """Return the name of a call for programs that read OpenAPI: that of its function, such as `pause_schedule`."""
    return route.name


def make_router(tag: str, *, prefix: str = ROOT, route_class: type[APIRoute] = APIRoute) -> APIRouter:
    return APIRouter(
        prefix=prefix, tags=[tag], route_class=route_class, generate_unique_id_function=operation_id
    )


# -- answers --


def answer(fields: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(fields), status, dict(headers or {}), "application/json")


def shown(context: ApiContext, caller: Caller, schedule_id: str) -> Response:
    """Return a schedule as it stands; its ETag is its revision."""
    entry = get_entry(context.runtime, schedule_id, caller)
    return answer(schedule_to_json(entry, context.place_of(entry)), headers={"etag": etag(entry)})


def etag(entry: Entry) -> str:
    return f'"{entry.schedule.state.revision}"'


def fired(context: ApiContext, firing: FiringResult, headers: Mapping[str, str] | None = None) -> Response:
    """Return the job that a request made, or why there is none."""
    job = None if firing.job_id is None else Job.of(get_job(context.runtime, firing.job_id))
    return answer(Fired.of(firing, job=job), 202, headers)


def nothing() -> Response:
    return Response(None, 204)


# -- bodies --


class Body(NamedTuple):
    """A body as it came, and its data."""

    raw: bytes
    fields: Any


async def json_body(request: Request) -> Body:
    """Return the body as plain data; refuse what is not valid JSON with the place of the first mistake."""
    return await parse_body(request, await request.body())


async def schedule_body(request: Request) -> Body:
    """Return the body of one schedule, which has a limit of its own."""
    raw = await request.body()
    if len(raw) > MOST_SCHEDULE:
        raise RefusedError(413, f"A schedule may have at most {MOST_SCHEDULE:,} bytes.")
    return await parse_body(request, raw)


async def parse_body(request: Request, raw: bytes, most_values: int = MOST_VALUES) -> Body:
    """Return the body and its data; a large one is parsed on a thread, when it is its sender's turn."""
    if len(raw) <= LARGE:
        return Body(raw, parse_json(raw, most_values))
    asker, shares = getattr(request.state, TOKEN, ANONYMOUS), context_of(request).shares
    if asker is not ANONYMOUS:  # all of those have one share: one of them must not use it up
        shares.take_body(asker, len(raw))
    async with shares.admit(asker, 0):
        return Body(raw, await run_sync(parse_json, raw, most_values))


JsonBody = Annotated[Body, Depends(json_body)]
ScheduleJson = Annotated[Body, Depends(schedule_body)]


async def _context(request: Request) -> ApiContext:
    return context_of(request)


Context = Annotated[ApiContext, Depends(_context)]
Word = Annotated[str | None, Query(max_length=300, pattern=r"^[^\x00]+$")]
StatusWord = Annotated[str, WithJsonSchema({"enum": list(STATUS_ALIASES)})]
_FIELDS = "Only these fields, and id: separated by commas, or one in each parameter."
_INCLUDE = (
    "Only the fields of these groups, and those of `fields`: separated by commas, or one in each parameter."
)
NOTHING_CHOSEN: list[str] = []  # the framework copies it
Fields = Annotated[
    list[Annotated[str, WithJsonSchema({"enum": list(FIELD_NAMES)})]],
    Query(description=_FIELDS, max_length=200),
]
Include = Annotated[
    list[Annotated[str, WithJsonSchema({"enum": list(FIELD_GROUPS)})]],
    Query(description=_INCLUDE, max_length=200),
]
ScheduleId = Annotated[str, Path(description="The id, or the uid, of a schedule.", max_length=300)]
Limit = Annotated[int, Query(ge=1, le=MOST_LIMIT, description="The number of items on a page.")]
_OFFSET = "The number of items to leave out at the beginning; slow when large."
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET, description=_OFFSET)]
_CURSOR = "The `next_cursor` of the previous page; overrides offset."
Cursor = Annotated[str | None, Query(max_length=100, description=_CURSOR)]
_IF_MATCH = 'Change or run the schedule only if it has this revision, such as "3".'
IfMatch = Annotated[str | None, Header(alias="If-Match", description=_IF_MATCH, max_length=100)]
_IF_NONE_MATCH = "`*`: only create, never replace."
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", description=_IF_NONE_MATCH, max_length=100)]
_KEY = "The same request with the same key gets the same answer for 24 hours, and does nothing twice."
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description=_KEY, min_length=1, max_length=LONGEST_KEY)
]


def fields_in(fields: Sequence[str], include: Sequence[str]) -> frozenset[str] | None:
    """Return the fields that a list is asked for by name and by group; None: all of them."""
    names, groups = listed("fields", fields, FIELD_NAMES), listed("include", include, FIELD_GROUPS)
    if not fields and not include:
        return None
    return frozenset(("id", *names, *(name for group in groups for name in FIELD_GROUPS[group])))


def listed(parameter: str, given: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the words of a parameter; refuse one that is not known, with those that are."""
    words = [word.strip() for text in given for word in text.split(",")]
    for word in words:
        if word not in known:
            fault = f'"{shown_text(word)}": {unknown("name", word, known)}'
            raise InvalidError(parameter, fault, f"{parameter} takes these names: {', '.join(known)}.")
    return words


def instant_in(moment: datetime | None) -> int | None:
    return None if moment is None else instant_of(moment)


def revision_in(if_match: str | None) -> int | None:
    """Return the revision that a header If-Match names; None when any revision will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix("W/").strip('"')
    if not number.isdecimal() or len(number) > 18 or not number.isascii():
        raise InvalidError("If-Match", "must be a revision", 'If-Match names a revision, such as "3".')
    return int(number)


_ANY_SECRET = "x" * 40
_MASKED = ("run", "ping", "payload", "trigger_payload", "url")
"""The keys of bodies in whose answers secrets are masked."""


def refuse_masks(fields: Any) -> None:
    """Refuse what an answer shows instead of a secret: stored as it is, the mask would replace the secret."""
    given = fields if isinstance(fields, dict) else {}
    fault = "is the mask that answers show; write the secret itself, or leave {} out"
    values = {key: given.get(key) for key in _MASKED}
    if isinstance(values["payload"], str):  # the JSON of a message template
        values["payload"] = parse_object(values["payload"])
    found = [
        (path, fault.format(key)) for key, value in values.items() for path in _masks_in(value, path=key)
    ]
    if given.get("secret") == MASK:
        found.append(("secret", fault.format("secret")))
    if found:
        raise SubmissionError(found)


def _masks_in(value: Any, key: str = "", *, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _masks_in(item, str(name), path=f"{path}.{name}")
    elif isinstance(value, list):
        for number, (name, item) in enumerate(named_items(value, key)):
            yield from _masks_in(item, name, path=f"{path}[{number}]")
    elif isinstance(value, str) and MASK in value and masked(value.replace(MASK, _ANY_SECRET), key) == value:
        yield path


def row_in(cursor: str | None) -> int | None:
    found = numbers_in(cursor, 1)
    return None if found is None else found[0]


def numbers_in(cursor: str | None, count: int) -> list[int] | None:
    """Return the numbers of a cursor that has so many."""
    if cursor is None:
        return None
    numbers = read_cursor(cursor, count)
    if numbers is None:
        raise InvalidError("cursor", "must be a cursor", "cursor must be the next_cursor of a previous page.")
    return numbers


# -- what OpenAPI documents --


def responses(
    model: type[View] | None, about: str, *problems: int, status: int = 200, media_type: str | None = None
) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a call: that of success, its own problems, and those that every call has."""
    well: dict[str, Any] = {"description": about}
    if model is not None:
        well["model"] = model_of(model)
    if media_type is not None:
        well["content"] = {media_type: {"schema": {"type": "string"}}}
    every = sorted({*problems, 400, 401, 403, 408, 413, 421, 422, 429, 431, 503})
    return {status: well, **{number: _documented(number) for number in every if number != status}}


def described(
    summary: str,
    model: type[View] | None,
    about: str,
    *problems: int,
    status: int = 200,
    media_type: str | None = None,
) -> dict[str, Any]:
    """Return how a call is registered: its summary, its status, and its answers. The calls make their answers."""
    found = responses(model, about, *problems, status=status, media_type=media_type)
    settings = {"summary": summary, "response_model": None, "responses": found}
    return settings if status == 200 else {**settings, "status_code": status}


_ABOUT = {
    400: "The request cannot be read, or is not possible in the current status.",
    401: "The token is missing or not valid.",
    403: "The token does not allow this, or a limit of the token is reached.",
    404: "It does not exist, or belongs to another owner.",
    408: "The head or the body of the request did not arrive in time.",
    409: "The request conflicts with what exists.",
    412: "It has another revision now.",
    413: "The body is too large.",
    421: "The Host header names another service.",
    422: "Parameters or body are not valid; `errors` lists each problem.",
    428: "It waits for approval, and the request names no revision.",
    429: "Too many requests; Retry-After says when to try again.",
    431: "The head of the request is too large.",
    503: "The database does not answer, or too many connections are open.",
}


def _documented(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": _ABOUT[status], "content": {MEDIA_TYPE: {"schema": schema}}}


def request_body(schema: Mapping[str, Any], examples: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documentation of a body that is checked by other means than a model."""
    described = {name: {"summary": name, "value": value} for name, value in examples.items()}
    content = {"application/json": {"schema": dict(schema), "examples": described}}
    return {"requestBody": {"required": True, "content": content}}
