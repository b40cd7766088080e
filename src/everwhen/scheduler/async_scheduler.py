"""The scheduler of an asyncio program: the same names, awaitable, and no call that blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from everwhen.model.node import Role
from everwhen.model.policy import IfRunning
from everwhen.model.request import Request
from everwhen.operations.requests import Submission, submit_request_async
from everwhen.scheduler.answers import ScheduleInfo
from everwhen.scheduler.declaring import Agents
from everwhen.scheduler.former_names import method_fault
from everwhen.scheduler.handles import JobHandle, JobResult, pauses
from everwhen.scheduler.listeners import AnyListener, SchedulerEventType, Scope
from everwhen.scheduler.operations import asks_for_trigger, refuse_former_call
from everwhen.scheduler.options import (
    AddOptions,
    AnyFunction,
    ApiOptions,
    Duration,
    Function,
    Instant,
    SchedulerOptions,
    SchedulerStatus,
    TaskOptions,
    UpdateOptions,
)
from everwhen.scheduler.requests import AsyncRequestHandle
from everwhen.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from everwhen.operations.requests import CallerConnection
    from everwhen.scheduler.web import MountedApi

P = ParamSpec("P")
T = TypeVar("T")


def _awaitable(
    method: Callable[Concatenate[Scheduler, P], T],
) -> Callable[Concatenate[AsyncScheduler, P], Coroutine[Any, Any, T]]:
    """Return the method of a `Scheduler` as a coroutine function, which waits on a thread."""

    @wraps(method)
    async def call(self: AsyncScheduler, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.scheduler, *args, **kwargs)

    return call


class AsyncJobHandle:
    """A job that was requested: `await handle` waits for its end."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle
        self.job_id = handle.job_id
        self.skip_reason = handle.skip_reason
        self.is_skipped = handle.is_skipped

    def __repr__(self) -> str:
        return f"<Async{repr(self._handle)[1:]}"

    def __await__(self) -> Generator[Any, None, JobResult]:
        return self.wait().__await__()

    async def wait(self, timeout: float | None = None) -> JobResult:
        """Wait until the job has ended; TimeoutError when it has not by then."""
        async with asyncio.timeout(timeout):
            for pause in pauses():
                if (found := await asyncio.to_thread(self._handle.ended)) is not None:
                    return found
                await asyncio.sleep(pause)
        raise AssertionError("pauses never end")

    async def status(self) -> str:
        return await asyncio.to_thread(lambda: self._handle.status)

    async def result(self) -> Any:
        return await asyncio.to_thread(lambda: self._handle.result)

    async def error(self) -> str | None:
        return await asyncio.to_thread(lambda: self._handle.error)


class AsyncScheduler:
    """A `Scheduler` whose calls are awaited; its coroutines run on the loop that it was started on.

    Decorators are plain: they are used before there is a loop.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                method_fault(name) or f"{type(self).__name__!r} object has no attribute {name!r}",
                name=name,
                obj=self,
            )

    def __init__(self, database: str, **options: Unpack[SchedulerOptions]) -> None:
        self.scheduler = Scheduler(database, **options)

    @property
    def name(self) -> str:
        """Return the name of the program; processes of one name share its functions and their jobs."""
        return self.scheduler.name

    @property
    def timezone(self) -> str:
        """Return the time zone of schedules that set none."""
        return self.scheduler.timezone

    @property
    def database(self) -> str:
        """Return the address of the database."""
        return self.scheduler.database

    # -- declaring --

    @asks_for_trigger
    def every(
        self, interval: Duration, **options: Unpack[TaskOptions]
    ) -> Callable[[AnyFunction], AnyFunction]:
        return self.scheduler.every(interval, **options)

    @asks_for_trigger
    def cron(self, expression: str, **options: Unpack[TaskOptions]) -> Callable[[AnyFunction], AnyFunction]:
        return self.scheduler.cron(expression, **options)

    @asks_for_trigger
    def at(self, moment: Instant, **options: Unpack[TaskOptions]) -> Callable[[AnyFunction], AnyFunction]:
        return self.scheduler.at(moment, **options)

    @asks_for_trigger
    def after(self, delay: Duration, **options: Unpack[TaskOptions]) -> Callable[[AnyFunction], AnyFunction]:
        return self.scheduler.after(delay, **options)

    def subscribe(self, callback: Callable[[dict[str, Any]], Any], *, id: str | None = None) -> None:
        self.scheduler.subscribe(callback, id=id)

    def on(
        self, *types: SchedulerEventType, scope: Scope = "process", name: str | None = None
    ) -> Callable[[AnyListener], AnyListener]:
        return self.scheduler.on(*types, scope=scope, name=name)

    # -- inside another application --

    def asgi(self, **options: Unpack[ApiOptions]) -> MountedApi:
        return self.scheduler.asgi(**options)

    create_token = _awaitable(Scheduler.create_token)
    forget_listener = _awaitable(Scheduler.forget_listener)

    # -- starting and stopping --

    async def start(self, agents: Agents | None = None) -> None:
        await self.scheduler.start_on_loop(agents)

    stop = _awaitable(Scheduler.stop)
    close = _awaitable(Scheduler.close)
    set_agents = _awaitable(Scheduler.set_agents)

    async def run(self, agents: Agents | None = None) -> None:
        """Start, and run until the task is cancelled; then stop, and wait for running jobs."""
        await self._run(agents, "up")

    async def run_worker(self) -> None:
        """Run only the jobs that other processes of this name fire, until the task is cancelled."""
        await self._run(None, "worker")

    async def _run(self, agents: Agents | None, role: Role) -> None:
        await self.scheduler.start_on_loop(agents, role)
        try:
            await asyncio.to_thread(self.scheduler._log_next_runs)
            await asyncio.Event().wait()
        finally:
            await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.scheduler.__aexit__(kind, error, trace)

    # -- what is known without a question to the database --

    def is_running(self) -> bool:
        return self.scheduler.is_running()

    def get_status(self) -> SchedulerStatus:
        return self.scheduler.get_status()

    get_state = _awaitable(Scheduler.get_state)
    get_running_job_count = _awaitable(Scheduler.get_running_job_count)
    get_total_running_job_count = _awaitable(Scheduler.get_total_running_job_count)

    # -- schedules --

    @overload
    async def add(
        self,
        id: str,
        function: Function | None = None,
        /,
        *,
        connection: None = None,
        **options: Unpack[AddOptions],
    ) -> ScheduleInfo: ...

    @overload
    async def add(
        self,
        function: Function,
        /,
        *,
        id: str | None = None,
        connection: None = None,
        **options: Unpack[AddOptions],
    ) -> ScheduleInfo: ...

    @overload
    async def add(
        self,
        id: str,
        function: Function | None = None,
        /,
        *,
        connection: CallerConnection,
        **options: Unpack[AddOptions],
    ) -> AsyncRequestHandle[ScheduleInfo]: ...

    @overload
    async def add(
        self,
        function: Function,
        /,
        *,
        id: str | None = None,
        connection: CallerConnection,
        **options: Unpack[AddOptions],
    ) -> AsyncRequestHandle[ScheduleInfo]: ...

    async def add(
        self,
        first: Any = None,
        second: Any = None,
        /,
        *others: Any,
        id: str | None = None,
        connection: CallerConnection | None = None,
        **options: Any,
    ) -> ScheduleInfo | AsyncRequestHandle[ScheduleInfo]:
        refuse_former_call([first, second], others, id, options)
        own = self.scheduler
        if connection is None:
            add: Callable[..., ScheduleInfo] = own.add
            return await asyncio.to_thread(add, first, second, id=id, **options)
        submission = await asyncio.to_thread(own._request_add, first, second, id, options)
        return await self._submit(submission, connection, own._schedule_of)

    add_many = _awaitable(Scheduler.add_many)

    @overload
    async def update(
        self, schedule_id: str, *, connection: None = None, **changes: Unpack[UpdateOptions]
    ) -> ScheduleInfo: ...

    @overload
    async def update(
        self, schedule_id: str, *, connection: CallerConnection, **changes: Unpack[UpdateOptions]
    ) -> AsyncRequestHandle[ScheduleInfo]: ...

    async def update(
        self, schedule_id: str, *, connection: CallerConnection | None = None, **changes: Any
    ) -> ScheduleInfo | AsyncRequestHandle[ScheduleInfo]:
        own = self.scheduler
        if connection is None:
            return await asyncio.to_thread(lambda: own.update(schedule_id, **changes))
        submission = await asyncio.to_thread(own._request_update, schedule_id, changes)
        return await self._submit(submission, connection, own._schedule_of)

    @overload
    async def remove(
        self, schedule_id: str, *, cancel_running: bool = False, connection: None = None
    ) -> None: ...

    @overload
    async def remove(
        self, schedule_id: str, *, cancel_running: bool = False, connection: CallerConnection
    ) -> AsyncRequestHandle[None]: ...

    async def remove(
        self, schedule_id: str, *, cancel_running: bool = False, connection: CallerConnection | None = None
    ) -> AsyncRequestHandle[None] | None:
        own = self.scheduler
        if connection is None:
            return await asyncio.to_thread(own.remove, schedule_id, cancel_running=cancel_running)
        submission = await asyncio.to_thread(own._request_removal, schedule_id, cancel_running)
        return await self._submit(submission, connection, lambda _request: None)

    remove_all = _awaitable(Scheduler.remove_all)
    pause = _awaitable(Scheduler.pause)
    pause_all = _awaitable(Scheduler.pause_all)
    resume = _awaitable(Scheduler.resume)
    resume_all = _awaitable(Scheduler.resume_all)
    revive = _awaitable(Scheduler.revive)
    get_schedule = _awaitable(Scheduler.get_schedule)
    schedules = _awaitable(Scheduler.schedules)
    print_schedules = _awaitable(Scheduler.print_schedules)
    check_schedule = _awaitable(Scheduler.check_schedule)
    upcoming = _awaitable(Scheduler.upcoming)
    why = _awaitable(Scheduler.why)

    # -- jobs --

    @overload
    async def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
        connection: None = None,
    ) -> AsyncJobHandle: ...

    @overload
    async def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
        connection: CallerConnection,
    ) -> AsyncRequestHandle[JobResult]: ...

    async def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
        connection: CallerConnection | None = None,
    ) -> AsyncJobHandle | AsyncRequestHandle[JobResult]:
        own = self.scheduler
        if connection is None:
            handle = await asyncio.to_thread(own.trigger, schedule_id, payload, if_running=if_running)
            return AsyncJobHandle(handle)
        submission = await asyncio.to_thread(own._request_trigger, schedule_id, payload, if_running)
        return await self._submit(submission, connection, own._job_of, is_awaited=True)

    async def rerun(self, job_id: str, *, if_running: IfRunning = "queue") -> AsyncJobHandle:
        return AsyncJobHandle(await asyncio.to_thread(self.scheduler.rerun, job_id, if_running=if_running))

    backfill = _awaitable(Scheduler.backfill)
    cancel = _awaitable(Scheduler.cancel)
    get_job = _awaitable(Scheduler.get_job)
    jobs = _awaitable(Scheduler.jobs)

    # -- requests inside the program's own transaction --

    async def _submit(
        self,
        submission: Submission,
        connection: CallerConnection,
        answer: Callable[[Request], T | None],
        *,
        is_awaited: bool = False,
    ) -> AsyncRequestHandle[T]:
        await submit_request_async(self.scheduler._runtime, submission, connection)
        return AsyncRequestHandle(self.scheduler._request_handle(submission, answer, is_awaited=is_awaited))
