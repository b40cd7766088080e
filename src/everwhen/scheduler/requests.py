"""What a program gets for a request inside its own transaction: a handle that follows it from the commit on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, Literal, TypeVar, cast

from everwhen.errors import RefusedRequestError, UncommittedRequestError
from everwhen.model.request import Request
from everwhen.scheduler.handles import pauses

T = TypeVar("T")

RequestState = Literal["uncommitted", "waiting", "done", "refused"]


class RequestHandle(Generic[T]):
    """A request of `add`, `update`, `trigger` or `remove` with `connection=`; a node carries it out after the commit.

    The outcome is kept for a day in the database, and longer by a handle that has seen it.
    """

    def __init__(
        self,
        request: Request,
        look: Callable[[str], Request | None],
        answer: Callable[[Request], T | None],
        *,
        is_awaited: bool = False,
    ) -> None:
        self.request_id = request.request_id
        self.schedule_id = request.schedule_id
        self._look = look
        self._answer = answer
        self._is_awaited = is_awaited  # without an answer there is more to wait for than the request itself
        self._ended: Request | None = None

    def __repr__(self) -> str:
        return f"<RequestHandle {self.request_id} about {self.schedule_id}>"

    @property
    def status(self) -> RequestState:
        """`uncommitted` (also after a rollback), `waiting` for a node, `done`, or `refused`, with its `error`."""
        request = self._request()
        return "uncommitted" if request is None else request.status

    @property
    def error(self) -> str | None:
        """Return why the request was refused."""
        request = self._request()
        return None if request is None else request.error

    @property
    def job_id(self) -> str | None:
        """Return the job of a `trigger`, once there is one."""
        request = self._request()
        return None if request is None else request.job_id

    @property
    def result(self) -> T | None:
        """Return the schedule as it is now, or for a `trigger` the end of its job; None before that."""
        request = self._request()
        return self._answer(request) if request is not None and request.status == "done" else None

    def wait(self, timeout: float | None = None) -> T:
        """Wait until the request is carried out, and of a `trigger` until its job has ended; return the result.

        UncommittedRequestError before the commit, RefusedRequestError when it was refused, TimeoutError when it takes
        longer. A scheduler must run meanwhile, in any process.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in pauses():
            if self.is_over():
                return cast("T", self.result)
            rest = pause if deadline is None else min(pause, deadline - time.monotonic())
            if rest <= 0:
                raise TimeoutError(f"request {self.request_id} is not done within {timeout:g}s")
            time.sleep(rest)
        raise AssertionError("pauses never end")

    def is_over(self) -> bool:
        """Return whether `wait` would return at once; it raises what `wait` would raise."""
        request = self._request()
        if request is None:
            raise UncommittedRequestError(self.request_id)
        if request.status == "refused":
            raise RefusedRequestError(self.request_id, request.error or "")
        if request.status == "waiting":
            return False
        return not self._is_awaited or self._answer(request) is not None

    def _request(self) -> Request | None:
        if self._ended is not None:
            return self._ended
        request = self._look(self.request_id)
        if request is not None and request.status != "waiting":
            self._ended = request
        return request


class AsyncRequestHandle(Generic[T]):
    """The same in an asyncio program: `await handle` waits for it."""

    def __init__(self, handle: RequestHandle[T]) -> None:
        self._handle = handle
        self.request_id = handle.request_id
        self.schedule_id = handle.schedule_id

    def __repr__(self) -> str:
        return f"<Async{repr(self._handle)[1:]}"

    def __await__(self) -> Generator[Any, None, T]:
        return self.wait().__await__()

    async def wait(self, timeout: float | None = None) -> T:
        """Wait as `RequestHandle.wait` does."""
        async with asyncio.timeout(timeout):
            for pause in pauses():
                if await asyncio.to_thread(self._handle.is_over):
                    return cast("T", await self.result())
                await asyncio.sleep(pause)
        raise AssertionError("pauses never end")

    async def status(self) -> RequestState:
        return await asyncio.to_thread(lambda: self._handle.status)

    async def error(self) -> str | None:
        return await asyncio.to_thread(lambda: self._handle.error)

    async def job_id(self) -> str | None:
        return await asyncio.to_thread(lambda: self._handle.job_id)

    async def result(self) -> T | None:
        return await asyncio.to_thread(lambda: self._handle.result)
