"""Many new schedules in one request: judged each by itself, and made in portions.

In a list of JSON they are one body like any other. As NDJSON, one schedule a line, the request is read, judged, made
and answered portion by portion, so that 16 MiB of schedules cost no more memory than some hundred of them. Most clients
read nothing before they have sent everything: their results wait here up to a bound, and beyond it the reading waits.
Each portion waits for its turn like an expensive call, and no line is looked at on the event loop. A request whose
lines are wrong, one after the other, ends after a thousand of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from everwhen.api.calls import refuse_masks
from everwhen.api.context import ApiContext
from everwhen.api.json_reader import MOST_SCHEDULE, parse_json
from everwhen.api.payloads import Problem
from everwhen.api.problems import RefusedError, refusal_to_json
from everwhen.api.request_guard import NDJSON, NDJSON_NAMES, media_type, pass_over_body
from everwhen.config.equal_submissions import EqualSubmissions
from everwhen.config.submission import read_submission
from everwhen.engine.loop import low_priority
from everwhen.errors import SchedulerError, StoreError
from everwhen.model.declare import Declared
from everwhen.operations import submissions
from everwhen.operations.access import Caller
from everwhen.views.problems import Fields, fields_of
from everwhen.views.schedules import Schedule
from everwhen.views.shape import View

MOST_VALUES_OF_MANY = 200_000  # of a list of JSON: 10,000 schedules with 20 each
PORTION = 200  # lines
PIECE = 64 << 10  # bytes that are separated into lines at once
MOST_WRONG = 1_000  # lines of a request
PATIENCE = 30.0  # seconds
MOST_WAITING = 8 << 20  # bytes of results that their reader has not taken

log = logging.getLogger("everwhen")


class ManyResult(View):
    """What became of one of many: its id, or the problem with it."""

    id: str | None
    schedule: Schedule | None
    problem: Problem | None


class ManyResults(View):
    items: list[ManyResult]
    total: int
    failed: int


class CreatedResult(View):
    """What became of one of many new schedules: its id, or the problem with it."""

    id: str | None
    problem: Problem | None


class CreatedResults(View):
    """In the order of the request."""

    items: list[CreatedResult]
    total: int
    failed: int


def results_to_json(items: list[Fields]) -> Fields:
    """Return what became of many, each by itself."""
    return {"items": items, "total": len(items), "failed": sum(one["problem"] is not None for one in items)}


class CreatedLines(NamedTuple):
    """The results of some lines, as they are sent, and how many are problems."""

    results: bytes
    wrong_count: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Who makes schedules, and under which key they are made once."""

    context: ApiContext
    caller: Caller
    key: str | None

    def create(self, wanted: Sequence[Any], digests: Sequence[str], first: int = 0) -> list[Fields]:
        """Return for each its id, or the problem with it. `first` is the number of the first in the request."""
        around, equal = self.context.rules_for(self.caller, list(wanted)), EqualSubmissions()

        def judged(number: int, fields: Any) -> Declared | SchedulerError | RefusedError:
            if isinstance(fields, RefusedError):
                return fields
            schedule_id = self._id(around.now, digests[number], first + number)
            try:
                refuse_masks(fields)
                return equal.read(fields, schedule_id, partial(read_submission, fields, schedule_id, around))
            except SchedulerError as error:
                # Ten thousand tracebacks, with all that their frames hold, are a second of work for the collector.
                return error.with_traceback(None)

        with low_priority():
            each = [judged(number, fields) for number, fields in enumerate(wanted)]
            readable = [one for one in each if not isinstance(one, RefusedError)]
            made = iter(self._create_each(readable))
        return [_result(one if isinstance(one, RefusedError) else next(made)) for one in each]

    def _create_each(self, readable: list[Declared | SchedulerError]) -> Sequence[str | SchedulerError]:
        errors = [one for one in readable if isinstance(one, SchedulerError)]
        if len(errors) == len(readable):  # nothing to be written
            return errors
        return submissions.create_each(self.context.runtime, readable, self.caller)

    def create_lines(self, lines: Sequence[bytes | RefusedError], first: int) -> CreatedLines:
        """Make the schedules of some lines; return the lines of their results."""
        wanted = [_parsed(line) for line in lines]
        digests = ["" if isinstance(line, RefusedError) else sha256(line).hexdigest() for line in lines]
        results = self.create(wanted, digests, first)
        wrong_count = sum(result["problem"] is not None for result in results)
        return CreatedLines(b"".join(map(_line, results)), wrong_count)

    def _id(self, now: int, digest: str, number: int) -> str:
        if self.key is None:
            return submissions.new_id(now)
        return submissions.derived_id(self.caller.token.token_id, self.key, digest, str(number))


def refuse_oversize(raw: bytes, wanted: Sequence[Any]) -> list[Any]:
    """Return the schedules of one body, with a refusal in the place of each that is too large."""
    if len(raw) <= MOST_SCHEDULE:
        return list(wanted)
    return [_too_large() if len(json.dumps(fields)) > MOST_SCHEDULE else fields for fields in wanted]


def is_ndjson(request: Request) -> bool:
    return media_type(request.headers) in NDJSON_NAMES


def _parsed(line: bytes | RefusedError) -> Any:
    try:
        return line if isinstance(line, RefusedError) else parse_json(line)
    except RefusedError as error:
        return error


def _result(one: str | SchedulerError | RefusedError) -> Fields:
    if isinstance(one, str):
        return {"id": one, "problem": None}
    return {"id": None, "problem": refusal_to_json(one) if isinstance(one, RefusedError) else fields_of(one)}


def _line(result: Fields) -> bytes:
    return json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _too_large() -> RefusedError:
    return RefusedError(413, f"A schedule has at most {MOST_SCHEDULE} bytes.")


# -- as it comes --


class ReaderGoneError(Exception):
    """The client that sends schedules does not read the results."""


class BatchStream(Response):
    """The results of a request of lines, sent while it is read."""

    media_type = NDJSON

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._batch = batch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._batch.context.shares.long_request(self._batch.caller.token):
            await self._answer(receive, send)

    async def _answer(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        results = _Results()
        sending = asyncio.create_task(results.send(send))
        try:
            await self._create(receive, results)
        except ReaderGoneError:
            log.warning("the results of a batch are not taken: %s", self._batch.caller.token.token_id)
        finally:
            results.end()
            await sending

    async def _create(self, receive: Receive, results: _Results) -> None:
        lines = _Lines()
        try:
            async for piece in _pieces(receive):
                await self._create_portions(lines, piece, results)
                if lines.wrong_count > MOST_WRONG:
                    await results.put(_line(_result(_too_many_wrong(lines.count))))
                    await pass_over_body(receive)
                    return
        except (RefusedError, StoreError) as error:  # what was answered before is done
            if isinstance(error, StoreError):
                self._batch.context.log_outage(error)
            await results.put(_line(_result(error)))

    async def _create_portions(self, lines: _Lines, piece: bytes, results: _Results) -> None:
        """Create what ends in this piece of the body, a portion at a time."""
        token, shares = self._batch.caller.token, self._batch.context.shares
        waiting = deque(await run_sync(lines.separate, piece))
        while waiting and lines.wrong_count <= MOST_WRONG:
            portion = [waiting.popleft() for _ in range(min(len(waiting), PORTION))]
            async with shares.portion(token):
                created = await run_sync(self._batch.create_lines, portion, lines.count)
            lines.count += len(portion)
            lines.wrong_count += created.wrong_count
            await results.put(created.results)


def _too_many_wrong(count: int) -> RefusedError:
    return RefusedError(
        422,
        f"More than {MOST_WRONG:,} lines of this request are wrong. Nothing is read beyond the {count:,} lines that "
        "are answered above; correct them, and send the rest again.",
    )


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the body in pieces of a bounded size that have some lines, however it comes."""
    waiting = bytearray()
    ends, is_whole = 0, False
    while not is_whole:
        message = await receive()
        is_gone = message["type"] != "http.request"  # the last line may be half of one
        is_whole = is_gone or not message.get("more_body")
        body = message.get("body", b"")
        waiting += body
        ends += body.count(b"\n")
        if is_whole and not is_gone:
            waiting += b"\n"
        while waiting and (len(waiting) >= PIECE or ends >= PORTION or is_whole):
            piece = bytes(waiting[:PIECE])
            del waiting[:PIECE]
            ends -= piece.count(b"\n")
            yield piece


class _Lines:
    """The lines of a request: how many there were, and the beginning of the next one, which never grows beyond a
    schedule."""

    def __init__(self) -> None:
        self.count = self.wrong_count = 0
        self._rest = b""
        self._is_dropped = False  # the rest of a line that is too long

    def separate(self, piece: bytes) -> list[bytes | RefusedError]:
        """Return the lines that end in this piece, without blank ones."""
        with low_priority():
            first, *others = piece.split(b"\n")
            if not others:
                self._extend(first)
                return []
            found = [self._end_line(first), *others[:-1]]
            self._extend(others[-1])
            return [line for line in found if isinstance(line, RefusedError) or line.strip()]

    def _end_line(self, part: bytes) -> bytes | RefusedError:
        self._extend(part)
        line: bytes | RefusedError = _too_large() if self._is_dropped else self._rest
        self._rest, self._is_dropped = b"", False
        return line

    def _extend(self, part: bytes) -> None:
        self._is_dropped = self._is_dropped or len(self._rest) + len(part) > MOST_SCHEDULE
        self._rest = b"" if self._is_dropped else self._rest + part


@dataclass(slots=True)
class _Results:
    """Results on their way to their reader; a producer of more than may wait is suspended."""

    _waiting: deque[bytes] = field(default_factory=deque)
    _size: int = 0
    _is_over: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _taken: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, lines: bytes) -> None:
        while self._size > MOST_WAITING and not self._is_over:
            self._taken.clear()
            await self._taken.wait()
        if self._is_over:
            raise ReaderGoneError
        self._waiting.append(lines)
        self._size += len(lines)
        self._changed.set()

    def end(self) -> None:
        self._is_over = True
        self._changed.set()

    async def send(self, send: Send) -> None:
        while self._waiting or not self._is_over:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            lines = self._waiting.popleft()
            try:
                await asyncio.wait_for(send(_body(lines, is_last=False)), PATIENCE)
            except TimeoutError:  # without its last word the answer is cut off, and the connection closed
                self._is_over = True
                return
            finally:
                self._size -= len(lines)
                self._taken.set()
        await send(_body(b"", is_last=True))


def _body(body: bytes, *, is_last: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}
