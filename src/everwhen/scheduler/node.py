"""What a scheduler has open in one process: its database, what it can run, and the service that does it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from everwhen.engine.call_executor import LoopThread
from everwhen.engine.listeners import Listeners
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.message import Subscriber
from everwhen.operations.local_functions import invalidate_orphans, node_name
from everwhen.runtime import Runtime
from everwhen.scheduler.declaring import Tasks
from everwhen.scheduler.listeners import Declaration
from everwhen.scheduler.options import SchedulerTriggerCallback
from everwhen.target_registry import open_target_registry
from everwhen.targets.python_call import DECLARE_AGAIN
from everwhen.telemetry.engine_log import EngineLog
from everwhen.wiring import Stack, build_service, open_node_stack, open_webhook_sender


@dataclass(frozen=True, slots=True)
class EmbeddedNodeOptions:
    """What a node is made from."""

    database: str
    timezone: str
    service: ServiceOptions


@dataclass(frozen=True, slots=True)
class EmbeddedNode:
    """Open in the process with this id: what a fork inherits is the parent's."""

    stack: Stack
    service: Service
    loop: HostLoop
    local_functions: LocalFunctionWatch
    listeners: Listeners
    is_on_job_thread: Callable[[], bool]
    process: int = field(default_factory=os.getpid)

    @property
    def is_of_this_process(self) -> bool:
        return self.process == os.getpid()

    def listen(self, declared: Declaration) -> None:
        self.listeners.add(declared.on_loop(self.loop))

    def listen_on_thread(self) -> None:
        self.loop.keep()
        self.listeners.start()

    def stop_listening(self) -> None:
        """Deliver what has happened until now to the listeners; after that no coroutine of ours needs the loop."""
        self.listeners.stop()
        self.loop.let_go()


def open_node(
    options: EmbeddedNodeOptions,
    tasks: Tasks,
    on_trigger: SchedulerTriggerCallback | None,
    subscribers: Sequence[Subscriber],
    listeners: Sequence[Declaration],
) -> EmbeddedNode:
    """Open the database and put a node together; nothing runs yet."""
    service_options = options.service
    stack = open_node_stack(
        options.database, timezone=options.timezone, check_interval=service_options.check_interval
    )
    loop = HostLoop()
    target_registry = open_target_registry(
        stack.runtime,
        max_workers=service_options.max_workers,
        functions=tasks,
        on_trigger=on_trigger,
        loop=loop,
    )
    watch = LocalFunctionWatch(stack.runtime, tasks)
    engine_log = EngineLog()
    service = build_service(
        stack,
        replace(
            service_options,
            name=node_name(tasks.name, tasks.process),
            observer=engine_log,
            on_decided=engine_log.decided,
            on_beat=watch.look,
        ),
        target_registry=target_registry,
        subscribers=subscribers,
        webhooks=open_webhook_sender(stack),
    )
    watch.serve_also = service.worker.serve_also
    node = EmbeddedNode(
        stack,
        service,
        loop,
        watch,
        _listeners(stack, service, tasks.name),
        is_on_job_thread=target_registry.is_on_job_thread,
    )
    for declared in listeners:
        node.listen(declared)
    return node


def _listeners(stack: Stack, service: Service, program: str) -> Listeners:
    return Listeners(stack.runtime, program=program, node=lambda: service.node, changes=stack.changes)


class LocalFunctionWatch:
    """Invalidates schedules whose function was in a process of this program that is gone."""

    def __init__(self, runtime: Runtime, tasks: Tasks) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self.serve_also: Callable[[Collection[str]], None] = (
            _nobody  # what the gone ones left in their queues
        )
        self._has_others = True  # other processes may have such schedules; a later one looks after its own

    def begin(self) -> None:
        self._has_others = True
        self.look()

    def look(self) -> None:
        if self._has_others:
            tasks = self._tasks
            orphans = invalidate_orphans(self._runtime, tasks.name, tasks.process, DECLARE_AGAIN)
            self._has_others = orphans.may_have_more
            self.serve_also(orphans.queues)


def _nobody(_queues: Collection[str]) -> None:
    return None


class HostLoop:
    """The event loop of coroutines: inside `async with` that of the program, with its connections and locks."""

    def __init__(self) -> None:
        self._own = LoopThread("everwhen-python")
        self._lent: asyncio.AbstractEventLoop | None = None
        self._is_kept = False

    def keep(self) -> None:
        """Stay open, also when the jobs are done with it, until `let_go`."""
        self._is_kept = True

    def let_go(self) -> None:
        self._is_kept = False
        self.close()

    def lend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Use this loop from now on; None: use our own again."""
        self._lent = loop

    def call(self, work: Callable[..., object], *arguments: Any) -> None:
        lent = self._lent
        if lent is None:
            self._own.call(work, *arguments)
        else:
            lent.call_soon_threadsafe(work, *arguments)

    def close(self) -> None:
        """Close our own loop, unless it is kept; the program closes its own."""
        if not self._is_kept:
            self._own.close()
