"""What a scheduler has open in one process: its database, what it can run, and the service that does it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from everwhen.engine.call_executor import LoopThread
from everwhen.engine.service import Service
from everwhen.model.message import Subscriber
from everwhen.scheduler.declaring import Tasks
from everwhen.scheduler.options import SchedulerTriggerCallback
from everwhen.target_registry import open_target_registry
from everwhen.wiring import Stack, build_service, open_node_stack


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is made from."""

    database: str
    check_interval: float
    timezone: str
    max_workers: int
    lease: float
    queues: Sequence[str]


@dataclass(frozen=True, slots=True)
class Node:
    """Open in the process with this id: what a fork inherits is the parent's."""

    stack: Stack
    service: Service
    loop: HostLoop
    process: int = field(default_factory=os.getpid)

    @property
    def is_of_this_process(self) -> bool:
        return self.process == os.getpid()


def open_node(
    options: NodeOptions,
    tasks: Tasks,
    on_trigger: SchedulerTriggerCallback | None,
    subscribers: Sequence[Subscriber],
) -> Node:
    """Open the database and put a node together; nothing runs yet."""
    stack = open_node_stack(
        options.database, timezone=options.timezone, check_interval=options.check_interval
    )
    loop = HostLoop()
    target_registry = open_target_registry(
        stack.runtime, max_workers=options.max_workers, functions=tasks, on_trigger=on_trigger, loop=loop
    )
    service = build_service(
        stack,
        queues=options.queues,
        check_interval=options.check_interval,
        max_workers=options.max_workers,
        lease=options.lease,
        target_registry=target_registry,
        subscribers=subscribers,
    )
    return Node(stack, service, loop)


class HostLoop:
    """Inside `async with` a coroutine finds the loop, and so the connections and locks, of its program."""

    def __init__(self) -> None:
        self._own = LoopThread("everwhen-python")
        self._lent: asyncio.AbstractEventLoop | None = None

    def lend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Use this one from now on; None: our own again."""
        self._lent = loop

    def call(self, work: Callable[..., object], *arguments: Any) -> None:
        lent = self._lent
        if lent is None:
            self._own.call(work, *arguments)
        else:
            lent.call_soon_threadsafe(work, *arguments)

    def close(self) -> None:
        """Ours ends; the program's is its own affair."""
        self._own.close()
