"""Server-sent events: an answer that continues until its reader leaves, is too slow, may no more, or the server stops.

A reader that does not take what is sent keeps its connection for ten seconds; then it is dropped, so that no memory
grows for it. A comment goes out every fifteen seconds: it keeps proxies from closing a quiet stream, and finds readers
that are gone. While a stream is open its token is looked at again and again, because a token can be revoked, and so
is the session that it was opened by.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from anyio.to_thread import run_sync
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from everwhen.api.feeds import Cursor, Feed, Item, Reader, Source
from everwhen.api.problems import RefusedError
from everwhen.api.shares import Shares, count
from everwhen.errors import StoreError
from everwhen.model.events import event_of_hold
from everwhen.model.token import Token
from everwhen.operations import event_feed
from everwhen.operations.audit import held_slots
from everwhen.operations.event_feed import EventNames, names_of_events
from everwhen.operations.tokens import find_session, list_tokens
from everwhen.runtime import Runtime
from everwhen.views.record import event_to_json, message_to_json
from everwhen.views.shape import Object

MOST, MOST_OF_OWNER, MOST_OF_TOKEN = 1_000, 500, 100
HEARTBEAT, RECHECK = 15.0, 1.0
PATIENCE = 10.0
AGAIN = b"retry: 2000\n\n"  # milliseconds until a reader comes back
STILL_HERE = b":\n\n"
_LATER = {"retry-after": "60"}

log = logging.getLogger("everwhen")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Streams:
    """The streams of one process: what feeds them, how many there are, and that they end."""

    def __init__(self, runtime: Runtime, changes: Callable[[], int] | None, shares: Shares) -> None:
        self._shares = shares
        self.patience = PATIENCE
        self.heartbeat = HEARTBEAT
        self._runtime = runtime
        self.events = Feed(_event_source(runtime), changes)
        self.messages = Feed(_message_source(runtime, shows_secrets=True), changes)
        self.masked_messages = Feed(_message_source(runtime, shows_secrets=False), changes)
        self._of_token: Counter[str] = Counter()
        self._of_owner: Counter[str | None] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._good: tuple[float, frozenset[str]] = (float("-inf"), frozenset())

    def close(self) -> None:
        """End all streams at once; called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self.events.close()
        self.messages.close()
        self.masked_messages.close()

    @property
    def count(self) -> int:
        """Return how many are open."""
        return self._of_owner.total()

    @contextmanager
    def admit(self, token: Token) -> Iterator[None]:
        """Count a stream as long as it lasts; refuse it where there are enough."""
        self._refuse_more(token)
        count(self._of_token, token.token_id, 1)
        count(self._of_owner, token.owner, 1)
        try:
            yield
        finally:
            count(self._of_token, token.token_id, -1)
            count(self._of_owner, token.owner, -1)

    def _refuse_more(self, token: Token) -> None:
        if self._of_token[token.token_id] >= MOST_OF_TOKEN:
            raise RefusedError(
                429,
                f"This token has {MOST_OF_TOKEN} open streams, which is the limit; close one first.",
                headers=_LATER,
            )
        if token.owner is not None and self._of_owner[token.owner] >= MOST_OF_OWNER:
            raise RefusedError(
                429,
                f"This owner has {MOST_OF_OWNER} open streams, which is the limit; close one first.",
                headers=_LATER,
            )
        if self.count >= MOST:
            raise RefusedError(
                429, "Too many streams are open in this process; try again later.", headers=_LATER
            )

    @asynccontextmanager
    async def reader(self, feed: Feed, token: Token, after: Cursor | None) -> AsyncIterator[Reader]:
        self._loop = asyncio.get_running_loop()
        async with feed.reader(after, token.owner, partial(self._shares.portion, token)) as reader:
            yield reader

    async def is_good(self, token: Token, admitted: float) -> bool:
        """Return whether a token that was accepted then is still in force; all streams ask together, once a second."""
        now = asyncio.get_running_loop().time()
        if now - self._good[0] >= RECHECK:
            try:
                tokens = await run_sync(list_tokens, self._runtime)
            except StoreError:  # nothing can be told without a database either
                return True
            at = self._runtime.clock.now()
            self._good = (now, frozenset(one.token_id for one in tokens if one.is_good(at)))
        return self._good[0] < admitted or token.token_id in self._good[1]

    async def lasts(self, session: str | None) -> bool:
        """Return whether the session that opened a stream has not ended."""
        if session is None:
            return True
        try:
            return await run_sync(find_session, self._runtime, session) is not None
        except StoreError:
            return True


class EventStream(Response):
    """One endless answer."""

    media_type = "text/event-stream"

    def __init__(
        self, streams: Streams, feed: Feed, token: Token, after: Cursor | None, session: str | None = None
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._streams, self._feed, self._token, self._after = streams, feed, token, after
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.admit(self._token):
            await self._stream(receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        try:
            async with self._streams.reader(self._feed, self._token, self._after) as reader:
                await self._write(send, AGAIN)
                await self._pass_on(reader, send)
            await self._write(send, b"", is_last=True)
        except RefusedError:  # the service stops while the reader waits for its turn
            await self._write(send, b"", is_last=True)
        except TimeoutError:
            log.warning("a reader of a stream takes nothing, and is dropped: %s", self._token.token_id)
        except StoreError as error:
            log.warning("a stream ends, because the database does not answer: %s", error)

    async def _pass_on(self, reader: Reader, send: Send) -> None:
        time = asyncio.get_running_loop().time
        admitted = quiet_since = asked = time()
        while not self._feed.is_closed and await self._streams.is_good(self._token, admitted):
            if time() - asked >= RECHECK:
                asked = time()
                if not await self._streams.lasts(self._session):
                    return
            chunk = await reader.next(min(RECHECK, self._streams.heartbeat))
            if chunk:
                await self._write(send, chunk)
            elif time() - quiet_since >= self._streams.heartbeat:
                await self._write(send, STILL_HERE)
            else:
                continue
            quiet_since = time()

    async def _write(self, send: Send, body: bytes, *, is_last: bool = False) -> None:
        message: Message = {"type": "http.response.body", "body": body, "more_body": not is_last}
        await asyncio.wait_for(send(message), self._streams.patience)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# -- what streams send --


def _event_source(runtime: Runtime) -> Source:
    """Return what happens as items of a feed: events and firings; holds, starts and ends of jobs when they are seen."""
    seen = partial(_seen, runtime, event_feed.JobWatch(runtime))
    return Source(partial(_feed_after, runtime), partial(event_feed.last_place, runtime), seen)


def _message_source(runtime: Runtime, *, shows_secrets: bool) -> Source:
    return Source(
        partial(_messages_after, runtime, shows_secrets), lambda: (event_feed.last_message_id(runtime),)
    )


def _feed_after(runtime: Runtime, after: Cursor, limit: int) -> list[Item]:
    found = event_feed.feed_after(runtime, event_feed.FeedCursor._make(after), limit=limit)
    names = names_of_events(runtime, [one.entry for one in found])
    return [_item(one.entry, names, one.sequence, one.number) for one in found]


def _seen(runtime: Runtime, watch: event_feed.JobWatch) -> dict[Hashable, Item]:
    """Return what has no number in a sequence: holds, and the jobs that started and ended since the last look."""
    found: dict[Hashable, event_feed.FeedEntry] = {
        (one.uid, one.slot_at): event_of_hold(one) for one in held_slots(runtime)
    }
    found |= {(one.type, one.job_id, one.at): one for one in watch.look()}
    names = names_of_events(runtime, found.values())
    return {key: _item(entry, names) for key, entry in found.items()}


def _item(
    entry: event_feed.FeedEntry, names: EventNames, sequence: int | None = None, number: int = 0
) -> Item:
    facts = event_feed.facts_of(entry)
    return Item(sequence, number, facts.owner, _frame(facts.type, event_to_json(entry, names)))


def _messages_after(runtime: Runtime, shows_secrets: bool, after: Cursor, limit: int) -> list[Item]:
    found = event_feed.messages_after(runtime, after[0], limit=limit)
    return [
        Item(0, one.id, one.owner, _frame("message", message_to_json(one, shows_secrets=shows_secrets)))
        for one in found
    ]


def _frame(kind: str, fields: Object) -> bytes:
    return f"event: {kind}\ndata: {_encode(fields)}\n\n".encode(errors="replace")
