"""What a connection may cost before a caller is known: the size of a head, the time that it takes, how many there are.

The server behind it takes a head of any size, and waits for it for ever. Here a head is bounded in bytes and in time,
so are bytes that lead to nothing (an endless trailer, an endless chunk extension), and so is the time that a client may
leave its answer untaken. When too many connections are open, the one whose client has owed something for longest makes
room; when too many bytes of answers wait to be taken, the one that waits for longest.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, cast

from starlette.responses import Response
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from everwhen.api.problems import SECURITY_HEADERS, problem

SLOWEST = 64 << 10  # bytes a second
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
MOST_PIPELINED = 32  # requests that were sent before the one ahead of them was answered
# A chunk costs the event loop as much as some kilobytes: a body may have so many, and one more for so many bytes.
MOST_CHUNKS, SMALLEST_CHUNK = 250, 64


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds on what an unknown caller may use; seconds and bytes."""

    connections: int = 2_000
    head_bytes: int = 32 << 10
    headers: int = 100
    head_within: float = 10.0
    body_within: float = 30.0  # waiting for it, and a second more for every 64 KiB that came
    taken_within: float = 30.0  # an answer that waits to be read, and a second more for every 64 KiB of it
    untaken: int = 64 << 20  # bytes of answers that wait to be read, of all connections but one
    idle: int = 5

    @property
    def most_connections(self) -> int:
        """Never more than leave the process enough files to work with."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return self.connections if files == resource.RLIM_INFINITY else min(self.connections, files // 2)


_IS_FOR_NOBODY: ContextVar[Callable[[], bool]] = ContextVar("is_for_nobody")


def is_for_nobody() -> bool:
    """Return whether the request of this task need not be answered: its client has left, and it changes nothing."""
    asked = _IS_FOR_NOBODY.get(None)
    return asked is not None and asked()


class _RefusedRequestError(Exception):
    """Ends the parser's work on a request."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    limits = ConnectionLimits()
    untaken: ClassVar[dict[BoundedProtocol, int]] = {}  # bytes that wait to be read, the first to wait first

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._most = self.limits.most_connections
        self._most_bytes, self._most_headers = self.limits.head_bytes, self.limits.headers
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._owing_since = self.loop.time()  # the client is to send the rest of a request, or the next one
        self._has_progress = False  # the bytes at hand ended a head, or were some of a body
        self._unused = 0  # bytes since then: of a head, a trailer, or nothing
        self._head_size = self._header_count = 0
        self._chunk_count = self._body_size = 0
        self._refusal: Response | None = None
        self._answered: RequestResponseCycle | None = None

    # -- the connection --

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and not self.close_oldest():
            self._end(_refused(503, "unavailable", "Too many connections are open here."))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_answer_timer()
        if self._answered is not None:  # else it writes on, when it no longer has to wait for its client
            self._answered.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._has_progress = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._unused = 0 if self._has_progress else self._unused + len(data)
        if self._unused > self.limits.head_bytes:
            self._end(self._too_large())
        elif not self._is_busy and self._head_timer is None:
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        size = self.transport.get_write_buffer_size()
        within = self.limits.taken_within + size / SLOWEST
        self._answer_timer = self.loop.call_later(within, self.transport.abort)
        self.untaken[self] = size
        self._bound_untaken()

    def _bound_untaken(self) -> None:
        """Cut off those who take nothing for longest, as long as too much waits; the last to come is left."""
        waiting = iter(list(self.untaken))
        while sum(self.untaken.values()) > self.limits.untaken and (oldest := next(waiting)) is not self:
            del self.untaken[oldest]
            oldest.transport.abort()

    def resume_writing(self) -> None:
        self._stop_answer_timer()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._owing_since = self.loop.time()
        super().on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin an answer; on a connection that is closed it ends without an error.

        The server marks only the last of several pipelined requests as disconnected. When its client has left, a
        request that reads is not begun, nor one whose body is not whole; a change is.
        """
        self._answered, send = cycle, cycle.send

        async def answering(scope: Any, receive: Any, send: Any) -> None:
            def is_for_nobody() -> bool:
                has_left = cycle.disconnected or self.transport.is_closing()
                return has_left and (scope["method"] in SAFE or cycle.more_body)

            _IS_FOR_NOBODY.set(is_for_nobody)
            # A client that leaves at once is known to have left when what else has arrived is read: one turn of the
            # loop. Beginning costs more than all before it.
            await asyncio.sleep(0)
            if not is_for_nobody():
                await app(scope, receive, send)
            cycle.disconnected = cycle.disconnected or self.transport.is_closing()

        async def sending(message: Any) -> None:
            cycle.disconnected = cycle.disconnected or self.transport.is_closing()
            await send(message)

        cycle.send = sending  # type: ignore[method-assign]
        super()._start_asgi_task(cycle, cast("ASGI3Application", answering))

    @property
    def _is_busy(self) -> bool:
        """Return whether a request is being processed."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_owing(self) -> bool:
        """Return whether the client has to act next, and nothing of an answer was sent."""
        return not self._is_busy or (self.cycle.more_body and not self.cycle.response_started)

    def close_oldest(self) -> bool:
        """Close the connection whose client has owed something for longest; return whether there is one."""
        others = cast("set[BoundedProtocol]", self.connections)
        owing = [one for one in others if one is not self and one._is_owing]
        if not owing:
            return False
        oldest = min(owing, key=lambda one: one._owing_since)
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_within, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_answer_timer(self) -> None:
        self.untaken.pop(self, None)
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._end(_refused(408, "timeout", "The head of a request did not come in time."))

    # -- what the parser finds --

    def on_message_begin(self) -> None:
        self._head_size = self._header_count = 0
        self._chunk_count = self._body_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_size += len(url)
        if self._head_size > self._most_bytes:
            self._refuse_head()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        self._head_size += len(name) + len(value)
        if self._head_size > self._most_bytes or self._header_count > self._most_headers:
            self._refuse_head()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_progress = True
        self._owing_since = self.loop.time()
        self._stop_waiting()
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _RefusedRequestError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        self._chunk_count += 1
        self._body_size += len(body)
        if self._chunk_count > MOST_CHUNKS + self._body_size / SMALLEST_CHUNK:
            self._refuse(_refused(413, "too-large", "The body comes in too many pieces; send larger ones."))
        super().on_body(body)

    def _refuse_head(self) -> NoReturn:
        self._refuse(self._too_large())

    def _refuse(self, answer: Response) -> NoReturn:
        self._refusal = answer
        raise _RefusedRequestError

    def _unsupported_upgrade_warning(self) -> None:
        """Write nothing where uvicorn writes two lines: anybody may ask for another protocol, as often as they like."""

    # -- refusals, which no application sees --

    def send_400_response(self, msg: str) -> None:
        self._end(self._refusal or _refused(400, "malformed", "This is not a valid HTTP request."))

    def _too_large(self) -> Response:
        limits = self.limits
        detail = f"The head of a request has at most {limits.head_bytes} bytes and {limits.headers} headers."
        return _refused(431, "head-too-large", detail)

    def _end(self, answer: Response) -> None:
        """Say why, and close. An answer that is under way is cut off: nothing can be said within it."""
        if not self._is_busy:
            lines = [STATUS_LINE[answer.status_code]]
            lines += [b"%s: %s\r\n" % header for header in answer.raw_headers]
            self.transport.write(b"".join((*lines, b"\r\n", bytes(answer.body))))
        self.transport.close()


def bounded_protocol(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """Return the protocol of a server with these limits."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits, "untaken": {}})


def _refused(status: int, kind: str, detail: str) -> Response:
    return problem(status, kind, detail, headers={**SECURITY_HEADERS, "connection": "close"})
