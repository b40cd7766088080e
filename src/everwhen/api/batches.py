"""Many new schedules in one request: judged each by itself, and made in portions.

In a list of JSON they are one body like any other. As NDJSON, one schedule a line, the request is read, judged, made
and answered portion by portion, so that 16 MiB of schedules cost no more memory than some hundred of them. Most clients
read nothing before they have sent everything: their results wait here up to a bound, and beyond it the reading waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from everwhen.api.calls import refuse_masks
from everwhen.api.context import ApiContext
from everwhen.api.json_reader import MOST_SCHEDULE, parse_json
from everwhen.api.payloads import Problem
from everwhen.api.problems import RefusedError, refusal_to_json
from everwhen.api.request_guard import NDJSON, NDJSON_NAMES, media_type
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
PORTION_BYTES = 256 << 10
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


@dataclass(frozen=True, slots=True)
class Batch:
    """Who makes schedules, and under which key they are made once."""

    context: ApiContext
    caller: Caller
    key: str | None

    def create(self, wanted: Sequence[Any], digests: Sequence[str], first: int = 0) -> list[Fields]:
        """Return for each its id, or the problem with it. `first` is the number of the first in the request."""
        around = self.context.rules_for(self.caller, list(wanted))

        def judged(number: int, fields: Any) -> Declared | SchedulerError | RefusedError:
            if isinstance(fields, RefusedError):
                return fields
            schedule_id = self._id(around.now, digests[number], first + number)
            try:
                refuse_masks(fields)
                return read_submission(fields, schedule_id, around)
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

    def create_lines(self, lines: Sequence[bytes | RefusedError], first: int) -> bytes:
        """Make the schedules of some lines; the lines of their results."""
        wanted = [_parsed(line) for line in lines]
        digests = ["" if isinstance(line, RefusedError) else sha256(line).hexdigest() for line in lines]
        return b"".join(map(_line, self.create(wanted, digests, first)))

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
        first, portion = 0, _Portion()
        try:
            async for piece in _pieces(receive):
                portion.add(piece)
                while portion.is_full:
                    lines = portion.take()
                    await results.put(await run_sync(self._batch.create_lines, lines, first))
                    first += len(lines)
            portion.close()
            while lines := portion.take():
                await results.put(await run_sync(self._batch.create_lines, lines, first))
                first += len(lines)
        except (RefusedError, StoreError) as error:  # what was answered before is done
            if isinstance(error, StoreError):
                self._batch.context.log_outage(error)
            await results.put(_line(_result(error)))


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return  # gone; the last line may be half of one
        yield message.get("body", b"")
        if not message.get("more_body"):
            yield b"\n"
            return


class _Portion:
    """Whole lines that wait to be made, and the beginning of the next one, which never grows beyond a schedule."""

    def __init__(self) -> None:
        self._lines: deque[bytes | RefusedError] = deque()
        self._size = 0
        self._rest = bytearray()
        self._is_dropped = False  # the rest of a line that is too long

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= PORTION or self._size >= PORTION_BYTES

    def add(self, piece: bytes) -> None:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._extend(part)
            self._end_line()
        self._extend(rest)

    def take(self) -> list[bytes | RefusedError]:
        count = min(len(self._lines), PORTION)
        lines = [self._lines.popleft() for _ in range(count)]
        self._size -= sum(len(line) for line in lines if isinstance(line, bytes))
        return lines

    def close(self) -> None:
        """Refuse a line without an end: the request was cut off."""
        self._rest.clear()

    def _extend(self, part: bytes) -> None:
        if self._is_dropped:
            return
        if len(self._rest) + len(part) > MOST_SCHEDULE:
            self._rest.clear()
            self._is_dropped = True
            return
        self._rest += part

    def _end_line(self) -> None:
        line = bytes(self._rest)
        self._rest.clear()
        if self._is_dropped:
            self._is_dropped = False
            self._lines.append(_too_large())
        elif line.strip():
            self._lines.append(line)
            self._size += len(line)


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
