"""What happened and what was said, as lists and as streams that go on: the audit and the messages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from everwhen.api.access import Viewer
from everwhen.api.calls import DEFAULT_LIMIT, Cursor, Desk, Limit, answer, cursor_of, row_in, says
from everwhen.api.feeds import Feed
from everwhen.api.moments import Moment
from everwhen.api.office import Office
from everwhen.api.payloads import Object
from everwhen.api.problems import RefusedError
from everwhen.api.record import AuditList, MessageList, event_words, message_words
from everwhen.api.streams import EventStream
from everwhen.model.events import EventType
from everwhen.model.instants import instant_of
from everwhen.operations import audit
from everwhen.operations.submissions import Caller
from everwhen.ports.ledger import EventFilter
from everwhen.ports.messages import MessageFilter

router = APIRouter(tags=["record"])
_TYPES = get_args(EventType)
LONGEST_ID = 18  # digits

Word = Annotated[str | None, Query(max_length=300, pattern=r"^[^\x00]+$")]


Since = Annotated[Moment | None, Query(alias="from", description="From this instant on.")]
Until = Annotated[Moment | None, Query(alias="to", description="Before this instant.")]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="Go on behind this id: what came meanwhile is told first.",
        max_length=100,
    ),
]
After = Annotated[
    str | None,
    Query(
        description="The same, for those who cannot send headers; the header stands before it.",
        max_length=100,
    ),
]


# -- lists --


@router.get(
    "/audit/", summary="What happened", response_model=None, responses=says(AuditList, "A page.", 404)
)
def list_audit(
    office: Desk,
    caller: Viewer,
    type: Annotated[
        list[str] | None,
        Query(description="Of these types.", json_schema_extra={"items": {"enum": list(_TYPES)}}),
    ] = None,
    schedule_id: Word = None,
    job_id: Word = None,
    owner: Word = None,
    from_: Since = None,
    to: Until = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. Filters are joined. A schedule that is deleted keeps its events until retention."""
    unknown = [word for word in type or () if word not in _TYPES]
    if unknown:
        raise RefusedError(
            422, f"type is one of {', '.join(_TYPES)}.", faults=[("type", f"{unknown[0][:50]} is unknown")]
        )
    wanted = EventFilter(
        types=tuple(type or ()),  # type: ignore[arg-type]
        job_id=job_id,
        owner=owner,
        since=_instant(from_),
        until=_instant(to),
    )
    page = audit.list_events(
        office.house, wanted, caller, schedule_id=schedule_id, limit=limit, before=row_in(cursor)
    )
    return _listed(
        [event_words(one) for one in page.items], page, limit, page.items[-1].id if page.items else 0
    )


@router.get(
    "/messages/", summary="What was said", response_model=None, responses=says(MessageList, "A page.")
)
def list_messages(
    office: Desk,
    caller: Viewer,
    schedule_id: Word = None,
    owner: Word = None,
    from_: Since = None,
    to: Until = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. Filters are joined."""
    wanted = MessageFilter(owner, schedule_id, _instant(from_), _instant(to))
    page = audit.list_messages(office.house, wanted, caller, limit=limit, before=row_in(cursor))
    return _listed(
        [message_words(one) for one in page.items], page, limit, page.items[-1].id if page.items else 0
    )


def _listed(items: list[Object], page: audit.Page[Any], limit: int, last: int) -> Response:
    words = {
        "items": items,
        "total": page.total,
        "total_is_approximate": page.is_approximate,
        "next_cursor": cursor_of(last) if len(items) == limit else None,
    }
    return answer(words)


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else instant_of(moment)


# -- streams --


_ENDLESS = "Server-sent events: `id`, `event` (its type) and `data`, one line of JSON in the shape of the list's items."


@router.get(
    "/events/stream/",
    summary="What happens, while it happens",
    response_model=None,
    responses=says(None, _ENDLESS, media_type="text/event-stream"),
)
async def stream_events(
    office: Desk, caller: Viewer, last_event_id: LastEventId = None, after: After = None
) -> Response:
    """In the order in which it was committed. A reader that is too slow is dropped, and comes back with the last id."""
    return _streamed(office.streams.events, office, caller, last_event_id or after)


@router.get(
    "/messages/stream/",
    summary="What is said, while it is said",
    response_model=None,
    responses=says(None, _ENDLESS, media_type="text/event-stream"),
)
async def stream_messages(
    office: Desk, caller: Viewer, last_event_id: LastEventId = None, after: After = None
) -> Response:
    """In the order in which it was committed."""
    return _streamed(office.streams.messages, office, caller, last_event_id or after)


def _streamed(feed: Feed, office: Office, caller: Caller, after: str | None) -> Response:
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) <= LONGEST_ID):
        raise RefusedError(
            422, "Last-Event-ID is the id of an event of this stream.", faults=[("Last-Event-ID", "is no id")]
        )
    office.streams.refuse_more(caller.token)
    return EventStream(office.streams, feed, caller.token, None if after is None else int(after))
