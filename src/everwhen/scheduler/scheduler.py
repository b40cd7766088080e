"""The scheduler that a program embeds: functions become schedules, and a node of this process fires and runs them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from everwhen.clock import local_zone_name
from everwhen.engine.service import Service, ServiceOptions
from everwhen.errors import ConfigError, SchedulerError, shown
from everwhen.model.instants import optional_datetime
from everwhen.model.message import Subscriber
from everwhen.model.node import Role
from everwhen.model.values import bound_queue
from everwhen.operations.next_runs import describe_next_runs
from everwhen.runtime import Runtime
from everwhen.scheduler.answers import SchedulerState
from everwhen.scheduler.callables import callee_of, checked_figures, checked_name, id_of
from everwhen.scheduler.declaring import (
    Agents,
    Task,
    Tasks,
    check_declarations,
    declare_late,
    declare_on,
    judge_task,
    named,
    plain,
    zone_name,
)
from everwhen.scheduler.listeners import (
    AnyListener,
    Declaration,
    SchedulerEventType,
    Scope,
    checked_listening,
    declaration,
)
from everwhen.scheduler.node import EmbeddedNode, EmbeddedNodeOptions, open_node
from everwhen.scheduler.operations import SchedulerOperations, asks_for_trigger, refuse_former_keys
from everwhen.scheduler.options import (
    AnyFunction,
    ApiOptions,
    Duration,
    Instant,
    SchedulerLogger,
    SchedulerStatus,
    SchedulerTriggerCallback,
    TaskOptions,
    TimeZone,
)
from everwhen.scheduler.zone_notice import ZoneNotice
from everwhen.signals import ProcessSignals, wait_until
from everwhen.targets.python_function import JobContext
from everwhen.targets.subscribers import CallbackSubscriber
from everwhen.telemetry.log_to import LogTo
from everwhen.timetable.civil_time import zone

if TYPE_CHECKING:
    from everwhen.scheduler.web import MountedApi

log = logging.getLogger("everwhen")


class Scheduler(SchedulerOperations):
    """Fires what is declared in code and what is added, in this process and in every other of the same name.

    >>> scheduler = Scheduler("sqlite://", name="docs")
    >>> @scheduler.every("5m", id="poll")
    ... def poll(run):
    ...     return "polled"
    >>> with scheduler:
    ...     scheduler.get_status(), [slot.is_estimate for slot in scheduler.upcoming("poll", 2)]
    ('running', [False, False])
    """

    def __init__(
        self,
        database: str,
        *,
        name: str = "app",
        check_interval: float = 1.0,
        on_trigger: SchedulerTriggerCallback | None = None,
        logger: SchedulerLogger | None = None,
        timezone: TimeZone | None = None,
        max_workers: int = 8,
        max_workers_per_owner: int | None = None,
        lease: float = 30.0,
        queues: Sequence[str] = ("default",),
        context: JobContext | None = None,
    ) -> None:
        """Make a scheduler; nothing runs, and no database is opened yet.

        `timezone` is the zone of schedules that set none: UTC without it, which a warning names at the first schedule
        that is about the wall clock. `context` makes a context manager that each function runs inside, in the thread
        or task that runs it. `max_workers_per_owner` is how many of its workers the jobs of one owner
        may have, one less than `max_workers` without it; those without an owner may have all.
        """
        checked_name("name", name)
        checked_figures(
            check_interval=check_interval,
            max_workers=max_workers,
            max_workers_per_owner=max_workers_per_owner,
            lease=lease,
        )
        if not isinstance(database, str):
            raise ConfigError(f"database must be a URL, such as sqlite:///shop.db, not {database!r}")
        if isinstance(queues, str) or not isinstance(queues, Iterable):
            raise ConfigError(f'queues must be a list, as in queues=["{shown(queues)}"]')
        if on_trigger is not None and not callable(on_trigger):
            raise ConfigError(f"on_trigger must be a function, not {on_trigger!r}")
        if logger is not None and not isinstance(logger, SchedulerLogger):
            raise ConfigError(
                f"logger is a {type(logger).__name__}; it must have the methods debug, info, warning and error, as "
                f'logging.getLogger("{shown(name)}") has'
            )
        super().__init__(
            Tasks(name, on_trigger, context or nullcontext),
            lambda: self._runtime_of_calls,
            zone_notice=ZoneNotice(logger) if timezone is None else None,
        )
        programs = (name, f"{name}/{self._tasks.process}")  # the second for what only this process can run
        self._queues = [
            bound_queue(checked_name("queue", queue), program) for queue in queues for program in programs
        ]
        where = local_zone_name() if timezone == "local" else zone(zone_name(timezone or "UTC")).name
        service = ServiceOptions(
            check_interval=check_interval,
            max_workers=max_workers,
            max_workers_per_owner=max_workers_per_owner,
            lease=lease,
            queues=self._queues,
        )
        self._options = EmbeddedNodeOptions(database, where, service)
        self._on_trigger = on_trigger
        self._agents: Agents = {}
        self._subscribers: list[Subscriber] = []
        self._listeners: list[Declaration] = []
        self._log_to = None if logger is None else LogTo(logger)
        self._lent: Runtime | None = None
        self._stopper: threading.Thread | None = None  # for a function that has called `stop`
        self._run_over: threading.Event | None = None  # for which `run` waits
        self._opened: EmbeddedNode | None = None
        # Never closed here: their locks and sockets are the parent's.
        self._of_parents: list[EmbeddedNode] = []
        self._guard = threading.RLock()

    @property
    def name(self) -> str:
        """Return the name of the program; processes of one name share its functions and their jobs."""
        return self._name

    @property
    def timezone(self) -> str:
        """Return the time zone of schedules that set none."""
        return self._options.timezone

    @property
    def database(self) -> str:
        """Return the address of the database."""
        return self._options.database

    @property
    def queues(self) -> Sequence[str]:
        """Return the queues of its jobs as the database has them, with the name of the program."""
        return self._queues

    @property
    def functions(self) -> Tasks:
        """Return the functions that this process has declared, by decorators and by `add`."""
        return self._tasks

    @property
    def listeners(self) -> Sequence[Declaration]:
        """Return the listeners that this process has declared by `on`."""
        return tuple(self._listeners)

    @property
    def on_trigger(self) -> SchedulerTriggerCallback | None:
        """Return the function of the host that runs what has no function of its own."""
        return self._on_trigger

    # -- declaring --

    @asks_for_trigger
    def every(
        self, interval: Duration, **options: Unpack[TaskOptions]
    ) -> Callable[[AnyFunction], AnyFunction]:
        """Run a function at an interval: `5m`, `1h30m`, `daily`, `monthly`, a timedelta."""
        return self._declaring({"every": interval}, options)

    @asks_for_trigger
    def cron(self, expression: str, **options: Unpack[TaskOptions]) -> Callable[[AnyFunction], AnyFunction]:
        """Run a function whenever five fields match: `0 9 * * 1-5`."""
        return self._declaring({"cron": expression}, options)

    @asks_for_trigger
    def at(self, moment: Instant, **options: Unpack[TaskOptions]) -> Callable[[AnyFunction], AnyFunction]:
        """Run a function once, at an instant; without an offset it is read in the schedule's zone."""
        return self._declaring({"at": moment}, options)

    @asks_for_trigger
    def after(self, delay: Duration, **options: Unpack[TaskOptions]) -> Callable[[AnyFunction], AnyFunction]:
        """Run a function once, so long after the schedule was first declared; a restart does not count anew."""
        return self._declaring({"after": delay}, options)

    def subscribe(self, callback: Callable[[dict[str, Any]], Any], *, id: str | None = None) -> None:
        """Have a function, plain or async, called with every message, at least once each and in order.

        The id names its place in the stream, which survives restarts.
        """
        subscriber = CallbackSubscriber(id or id_of(callback), callback)
        with self._guard:
            self._subscribers.append(subscriber)
            if self._own_node is not None:
                self._own_node.service.subscribe(subscriber)

    def on(
        self, *types: SchedulerEventType, scope: Scope = "process", name: str | None = None
    ) -> Callable[[AnyListener], AnyListener]:
        """Have a function, plain or async, called with each `SchedulerEvent` of these types; without types, of all.

        It is called while the scheduler runs: job.started, .succeeded, .failed and .timed_out of jobs that
        this process ran, and everything else about schedules of this program. With `scope="all"` it gets everything
        in the database at least once, also what happened while nothing ran: the database keeps its position under
        `name`, and of several processes one at a time delivers. An exception is logged and has no other effect.

        >>> scheduler = Scheduler("sqlite://", name="docs")
        >>> @scheduler.on("job.failed", "schedule.missed")
        ... def show(event):
        ...     print(event.type, event.schedule_id)
        """
        found, cursor = checked_listening(types, scope, name)

        def listen(function: AnyListener) -> AnyListener:
            with self._guard:
                declared = declaration(function, found, cursor, self._listeners)
                if self._own_node is not None:
                    self._own_node.listen(declared)
                self._listeners.append(declared)
            return function

        return listen

    # -- inside another application --

    def asgi(self, **options: Unpack[ApiOptions]) -> MountedApi:
        """Return the REST API as an ASGI application, to mount under any prefix; it starts no scheduler.

        The first request opens the database. The hosting application decides which Host headers it answers to,
        unless `allowed_hosts` names them here.
        """
        from everwhen.scheduler.web import MountedApi  # the web framework takes time to import

        return MountedApi(self._name, options, own_node=lambda: self._own_node, open_node=lambda: self._node)

    # -- life --

    def run(self, agents: Agents | None = None) -> None:
        """Start, and run until SIGINT or SIGTERM; then stop, and wait for running jobs."""
        self._run(agents, "up")

    def run_worker(self) -> None:
        """Run only the jobs that other processes of this name fire, until SIGINT or SIGTERM; declare nothing."""
        self._run(None, "worker")

    def _run(self, agents: Agents | None, role: Role) -> None:
        self._take_role(role)
        with _stop_signals(self._node.service) as stopped:
            self._start(agents, None, role)
            self._log_next_runs()
            self._run_over = stopped
            try:
                wait_until(stopped, self.is_running)
            finally:
                self._run_over = None
                self.stop()
                self.close()

    def _log_next_runs(self) -> None:
        """Log what runs next, as `run` does when it starts."""
        for line in describe_next_runs(self._runtime):
            log.info("%s", line)

    def start(self, agents: Agents | None = None) -> None:
        """Bring the database to what is declared here, then fire and run; returns at once."""
        self._start(agents, None)

    def stop(self, *, wait_for_jobs: bool = True, timeout: float = 30.0) -> None:
        """Fire nothing more, and wait for running jobs; past the timeout they are ended, with an error.

        A function that the scheduler runs may call it: it then returns at once, and the stop waits for the function.
        """
        node = self._own_node
        if node is None:
            return
        if (run_over := self._run_over) is not None:
            run_over.set()
        if node.is_on_job_thread():
            stop = partial(self._stop_for_job, node, wait_for_jobs=wait_for_jobs, timeout=timeout)
            self._stopper = threading.Thread(target=stop, name="everwhen-stop")
            self._stopper.start()
            return
        if self._stopper is not None:  # it uses what the caller may be about to close
            self._stopper.join()
        self._stop(node, wait_for_jobs=wait_for_jobs, timeout=timeout)

    def _stop_for_job(self, node: EmbeddedNode, **how: Any) -> None:
        try:
            self._stop(node, **how)
        except SchedulerError as error:
            log.error("scheduler %s: %s", self._name, error)

    def _stop(self, node: EmbeddedNode, *, wait_for_jobs: bool, timeout: float) -> None:
        was_running = node.service.status != "stopped"
        try:
            node.service.stop(wait_for_jobs=wait_for_jobs, timeout=timeout)
        finally:
            node.stop_listening()
            if node.stack.changes is not None:
                node.stack.changes.rest()
            if was_running:
                log.info("scheduler %s stopped", self._name)
            node.loop.lend(None)
            if self._log_to is not None:
                self._log_to.end()

    def close(self) -> None:
        """Close the database of a stopped scheduler; whatever is asked next opens it again."""
        with self._guard:
            node = self._own_node
            if node is not None:
                self._opened = None
                node.stack.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._close_file()

    async def __aenter__(self) -> Self:
        """Start; inside the block, coroutines run on the loop of the program."""
        await self.start_on_loop()
        return self

    async def start_on_loop(self, agents: Agents | None = None, role: Role = "up") -> None:
        """Start; coroutines run on the loop that this is awaited on."""
        loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, agents, loop, role))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:  # its thread goes on: what it has started is stopped again
            await asyncio.wait([starting])
            if starting.exception() is None:
                await self.__aexit__(None, None, None)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # On a thread: the jobs that are awaited may run on this loop. A cancellation meanwhile leaves the stop to its
        # end, and the database open until then.
        await asyncio.shield(asyncio.to_thread(self.__exit__, kind, error, trace))

    def set_agents(self, agents: Agents) -> None:
        """Replace the agents, also while it runs; schedules of those that are gone are removed."""
        with self._guard:
            before, self._agents = self._agents, named(agents)
            try:
                if self.is_running():
                    self._reconcile()
            except BaseException:
                self._agents = before
                raise

    # -- questions --

    def is_running(self) -> bool:
        return self.get_status() == "running"

    def get_status(self) -> SchedulerStatus:
        node = self._own_node
        return "stopped" if node is None else node.service.status

    def get_state(self) -> SchedulerState:
        """Status and counts of this process."""
        node = self._own_node
        if node is None:
            return SchedulerState("stopped", None, 0, 0, None)
        service, counts = node.service, node.service.ticker.counts
        started_at, last_check_at = map(optional_datetime, (service.started_at, counts.last_check_at))
        return SchedulerState(service.status, started_at, counts.checks, counts.fired, last_check_at)

    def get_running_job_count(self, group: str) -> int:
        """Return how many jobs of an agent, plugin or workflow this process runs."""
        node = self._own_node
        return 0 if node is None else node.service.worker.running_count_of(group)

    def get_total_running_job_count(self) -> int:
        """Return how many jobs this process runs."""
        node = self._own_node
        return 0 if node is None else node.service.worker.running_count

    # -- inside --

    def _declaring(
        self, trigger: dict[str, Any], options: TaskOptions
    ) -> Callable[[AnyFunction], AnyFunction]:
        refuse_former_keys(options)
        keys = {key: value for key, value in options.items() if key not in ("args", "kwargs")}
        fields: dict[str, Any] = {**trigger, **plain(keys)}
        given, isolate = fields.pop("id", None), bool(fields.pop("isolate", False))
        args, kwargs = options.get("args"), options.get("kwargs")

        def declare(function: AnyFunction) -> AnyFunction:
            schedule_id = checked_name("id", given) if given is not None else id_of(function)
            callee = callee_of(schedule_id, function, args, kwargs)
            self._declare(Task(schedule_id, plain(fields), callee, isolate))
            return function

        return declare

    def _declare(self, task: Task) -> None:
        with self._guard:
            self._tasks.add(task)
            try:
                self._notice_zone(judge_task(task, self._name, self.timezone), task.fields)
                if self.is_running():
                    declare_late(self._node.stack.runtime, self._tasks, task)
                    self._node.local_functions.begin()
            except BaseException:
                self._tasks.drop(task.schedule_id)
                raise

    @property
    def _runtime_of_calls(self) -> Runtime:
        lent = self._lent
        return self._node.stack.runtime if lent is None or self.is_running() else lent

    @property
    def _own_node(self) -> EmbeddedNode | None:
        """Return the open node, if this process has opened it: what a fork inherits is the parent's."""
        node = self._opened
        return node if node is not None and node.is_of_this_process else None

    @property
    def _node(self) -> EmbeddedNode:
        with self._guard:
            node = self._opened
            if node is not None and not node.is_of_this_process:
                # A thread that was inside the database's library at the fork leaves its locks locked for ever here.
                if node.service.status != "stopped":
                    raise SchedulerError(
                        "the scheduler was running when this process was forked, and works only in the parent;"
                        " start it after the fork, or create a Scheduler of its own in the child"
                    )
                self._of_parents.append(node)
                node = None
            if node is None:
                node = open_node(
                    self._options, self._tasks, self._on_trigger, self._subscribers, self._listeners
                )
                self._opened = node
            return node

    def _start(
        self, agents: Agents | None, loop: asyncio.AbstractEventLoop | None, role: Role = "up"
    ) -> None:
        with self._guard:
            self._take_role(role)
            if self.get_status() != "stopped":
                raise SchedulerError(f"the scheduler is {self.get_status()}; stop it before it starts again")
            if agents is not None:
                self._agents = named(agents)
            node = self._node
            node.loop.lend(loop)
            if self._log_to is not None:
                self._log_to.begin()
            try:
                node.listeners.begin()
                node.service.prepare(self._reconcile if node.service.is_scheduler else None)
                node.listen_on_thread()
                log.info("scheduler %s started as node %s", self._name, node.service.node)
                node.service.begin()
            except BaseException:
                node.stop_listening()
                node.loop.lend(None)
                if self._log_to is not None:
                    self._log_to.end()
                raise

    def _reconcile(self) -> None:
        """Bring the database to what is declared here; remove schedules of this name that are no longer declared."""
        node = self._node
        self.declare_on(node.stack.runtime)
        node.local_functions.begin()

    def declare_on(self, runtime: Runtime) -> None:
        """Change this database as a start would; for tests."""
        declare_on(runtime, self._tasks, self._agents)

    def lend(self, runtime: Runtime | None) -> None:
        """Have calls such as `trigger` reach this database while the scheduler does not run; for tests."""
        self._lent = runtime

    def check_on(self, runtime: Runtime) -> int:
        """Raise what a start on this database would refuse, and write nothing; return how many are declared."""
        return check_declarations(runtime, self._tasks, self._agents)

    def _take_role(self, role: Role) -> None:
        with self._guard:
            service = self._options.service
            if role == service.role:
                return
            if self.get_status() != "stopped":
                raise SchedulerError(f"the scheduler is {self.get_status()}; stop it before it starts again")
            self.close()
            self._options = replace(self._options, service=replace(service, role=role))

    def _close_file(self) -> None:
        """Close the database, unless it is in memory: its content would be lost."""
        if self._options.database != "sqlite://":
            self.close()


@contextmanager
def _stop_signals(service: Service) -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM. Python handles signals in the main thread only: elsewhere the event is never set."""
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    with ProcessSignals() as signals:
        yield signals.on_stop(service.kill, service.prepare_to_stop)
