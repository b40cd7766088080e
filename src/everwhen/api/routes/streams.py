"""Events and messages, as lists and as endless streams: the audit and the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

from fastapi import Depends, Header, Query
from pydantic import WithJsonSchema
from starlette.responses import Response

from everwhen.api.access import ItsSession, Viewer
from everwhen.api.calls import (
    DEFAULT_LIMIT,
    NOTHING_CHOSEN,
    Context,
    Cursor,
    Limit,
    Word,
    answer,
    described,
    instant_in,
    make_router,
    numbers_in,
    row_in,
)
from everwhen.api.context import ApiContext
from everwhen.api.costs import cheap, event_page_cost, expensive, page_cost
from everwhen.api.feeds import Feed, cursor_text
from everwhen.api.payloads import AwareInstant
from everwhen.api.problems import InvalidError
from everwhen.api.streams import EventStream, Streams
from everwhen.model.queries import MessageFilter
from everwhen.model.token import Token
from everwhen.operations import audit, event_feed
from everwhen.operations.access import Caller
from everwhen.operations.event_feed import names_of_events
from everwhen.operations.labels import uids_named
from everwhen.views.record import AuditList, MessageList, event_to_json, message_to_json
from everwhen.views.shape import cursor_of, numbers_of

EventWord = Annotated[str, WithJsonSchema({"enum": list(event_feed.TYPES)})]
router = make_router("record")

Since = Annotated[AwareInstant | None, Query(alias="from", description="From this instant on.")]
Until = Annotated[AwareInstant | None, Query(alias="to", description="Before this instant.")]
_LAST = "Continue after this event; events since then are sent first."
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", description=_LAST, max_length=100)]
_AFTER = "The same as Last-Event-ID, for clients that cannot send headers; the header overrides it."
After = Annotated[str | None, Query(description=_AFTER, max_length=100)]
Behind = Annotated[
    str | None,
    Query(
        description="An id of the stream, or the `last_event_id` of a list: list the events after it, oldest first.",
        examples=["12.345"],
        max_length=100,
    ),
]


@router.get("/audit/", **described("List events", AuditList, "A page.", 404))
@expensive(event_page_cost)
def list_audit(
    context: Context,
    caller: Viewer,
    type: Annotated[list[EventWord], Query(description="Only events of these types.")] = NOTHING_CHOSEN,
    schedule_id: Word = None,
    q: Annotated[
        Word,
        Query(
            description="Only events of schedules whose id, key or name contains this text, also of deleted ones."
        ),
    ] = None,
    job_id: Word = None,
    owner: Word = None,
    from_: Since = None,
    to: Until = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    after: Behind = None,
) -> Response:
    """Newest first. All filters must match. The events of a deleted schedule are kept until retention removes them.

    With `after` the oldest comes first: what was committed behind that id, as far as one look goes. `last_event_id` is
    where the next look begins; as long as it moves there may be more.
    """
    _refuse_unknown(type or ())
    types, since, until = frozenset(type or ()), instant_in(from_), instant_in(to)
    wanted = event_feed.Wanted(types, job_id=job_id, owner=owner, since=since, until=until)
    if q is not None:
        uids = uids_named(context.runtime, q, caller.token.owner or owner)
        if not uids:
            return _nothing(context)
        wanted = replace(wanted, uids=frozenset(uids))
    if after is not None:
        return _listed_after(context, caller, wanted, schedule_id, after=after, limit=limit)
    last = None if cursor is not None else cursor_text(event_feed.last_place(context.runtime))
    back = numbers_in(cursor, len(audit.Back._fields))
    page = audit.list_feed(
        context.runtime,
        wanted,
        caller,
        schedule_id=schedule_id,
        limit=limit,
        before=None if back is None else audit.Back._make(back),
    )
    following = None if page.back is None else cursor_of(*page.back)
    names = names_of_events(context.runtime, page.items)
    items = [event_to_json(one, names) for one in page.items]
    return answer(
        AuditList.of(page, items=items, actors=names.actors, next_cursor=following, last_event_id=last)
    )


def _nothing(context: ApiContext) -> Response:
    last = cursor_text(event_feed.last_place(context.runtime))
    return answer(AuditList.of(audit.Page(()), items=[], actors={}, next_cursor=None, last_event_id=last))


def _refuse_unknown(types: Sequence[str]) -> None:
    unknown = [word for word in types if word not in event_feed.TYPES]
    if unknown:
        known = f"type is one of {', '.join(event_feed.TYPES)}."
        raise InvalidError("type", f"{unknown[0][:50]} is unknown", known)


def _listed_after(
    context: ApiContext,
    caller: Caller,
    wanted: event_feed.Wanted,
    schedule_id: str | None,
    *,
    after: str,
    limit: int,
) -> Response:
    place = event_feed.place_of(context.runtime, _place(after, 2, "after"))
    items, place = event_feed.list_after(
        context.runtime, wanted, caller, schedule_id=schedule_id, place=place, limit=limit
    )
    names = names_of_events(context.runtime, items)
    found = [event_to_json(one, names) for one in items]
    page = audit.Page(items, len(items))
    last = cursor_text(place)
    return answer(AuditList.of(page, items=found, actors=names.actors, next_cursor=None, last_event_id=last))


@router.get("/messages/", **described("List messages", MessageList, "A page."))
@expensive(page_cost)
def list_messages(
    context: Context,
    caller: Viewer,
    schedule_id: Word = None,
    owner: Word = None,
    from_: Since = None,
    to: Until = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. All filters must match. To a viewer, secrets in the content are masked."""
    wanted = MessageFilter(owner, schedule_id, instant_in(from_), instant_in(to))
    page = audit.list_messages(context.runtime, wanted, caller, limit=limit, before=row_in(cursor))
    following = cursor_of(page.items[-1].id) if len(page.items) == limit else None
    shows_secrets = caller.token.may("operator")
    items = [message_to_json(one, shows_secrets=shows_secrets) for one in page.items]
    return answer(MessageList.of(page, items=items, next_cursor=following))


# -- streams --


class StreamRequest(NamedTuple):
    """Who asks for a stream, by which session, and behind which id."""

    streams: Streams
    token: Token
    session: str | None
    after: str | None

    def stream(self, feed: Feed, *, parts: int) -> Response:
        """Answer with the stream of a feed whose ids have so many parts."""
        place = None if self.after is None else _place(self.after, parts, "Last-Event-ID")
        return EventStream(self.streams, feed, self.token, place, self.session)


async def _listener(
    context: Context,
    caller: Viewer,
    session: ItsSession,
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamRequest:
    return StreamRequest(context.streams, caller.token, session, last_event_id or after)


_ENDLESS = "Server-sent events: `id`, `event` (its type) and `data`, one line of JSON in the shape of the list's items."


@router.get(
    "/events/stream/",
    **described("Follow events", None, _ENDLESS, media_type="text/event-stream"),
)
@cheap
async def stream_events(listener: Annotated[StreamRequest, Depends(_listener)]) -> Response:
    """Events are sent in the order of their commits. A reader that is too slow is disconnected, and continues with the
    last id.

    An id has two parts, the last event on record and the last job. An id with the first part alone is accepted: firings
    are then sent from now on. `schedule.held` is sent once, without an id, when the process sees it.
    """
    return listener.stream(listener.streams.events, parts=2)


@router.get(
    "/messages/stream/",
    **described("Follow messages", None, _ENDLESS, media_type="text/event-stream"),
)
@cheap
async def stream_messages(listener: Annotated[StreamRequest, Depends(_listener)]) -> Response:
    """Messages are sent in the order of their commits. To a viewer, secrets in their content are masked."""
    streams = listener.streams
    feed = streams.messages if listener.token.may("operator") else streams.masked_messages
    return listener.stream(feed, parts=1)


def _place(text: str, parts: int, name: str) -> tuple[int, ...]:
    numbers = numbers_of(text)
    if numbers is None or len(numbers) > parts:
        raise InvalidError(name, "must be an id", f"{name} must be the id of an event of this stream.")
    return tuple(numbers)
