"""The runners of a node: for every kind of `model.target_kinds` the target that its module makes.

A target may have `fault_of(schedule_id, definition)`: why it cannot run a schedule here, or None when it can.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, TypeVar

from everwhen.clock import Clock
from everwhen.model.group import Workflows
from everwhen.model.outcome import Outcome
from everwhen.model.plugin import Plugins
from everwhen.model.schedule import Definition
from everwhen.model.target_kinds import KINDS, TargetKind
from everwhen.model.work_item import OpenWorkSource, WorkItem
from everwhen.operations.agent_runs import AgentRuns
from everwhen.target import Run, Target
from everwhen.targets.process import Processes
from everwhen.targets.python_function import Functions

# Blocking calls, each on its own thread: however many hang, no other call waits for them.
#
# The loop's own executor has a few threads that everything shares; third-party code that may block for ever
# must not use them. The threads end with the process.


T = TypeVar("T")


def aside(call: Callable[[], T]) -> Future[T]:
    """Run the call on a thread and return its future. The caller cannot stop it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_work, args=(call, future), name="everwhen-aside", daemon=True).start()
    return future


def _work(call: Callable[[], T], future: Future[T]) -> None:
    try:
        result = call()
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:  # sys.exit ends only this thread; the caller has to see a failure
        future.set_exception(RuntimeError(repr(error)))
    else:
        future.set_result(result)


Host = Callable[[Mapping[str, Any], Run, WorkItem | None, str], Awaitable[Outcome]]
"""Runs agents in place of their commands: the agent's fields, the run, its work item, the prompt."""

StateOf = Callable[[str], dict[str, Any]]
"""Returns everything that a plugin has stored; empty when it never stored anything."""


class Hands(Protocol):
    """Threads for blocking calls, and a loop for the user's coroutines."""

    def hand_over(self, work: Callable[[], T], /) -> Future[T]: ...

    def submit(self, work: Coroutine[Any, Any, T], /) -> tuple[Future[T], Callable[[], None]]:
        """Return a future that ends with the coroutine, and a function that cancels it."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Resources:
    """The argument of every `make_target`."""

    clock: Clock
    processes: Processes  # one instance, so that a second signal to stop reaches all processes
    hands: Hands
    plugins: Plugins
    plugin_state: StateOf
    workflows: Workflows
    sources: Mapping[str, OpenWorkSource] = field(default_factory=dict)  # where agents find work, by type
    functions: Functions | None = None  # that the program declares
    host: Host | None = None
    allow_private_urls: bool = False
    agent_runs: AgentRuns | None = None  # what runs of agents get besides their prompts
    targets: dict[str, Target] = field(default_factory=dict)  # of the node, as they are made


MakeTarget = Callable[[Resources], Target]


def make_targets(resources: Resources, installed: Mapping[str, Target]) -> dict[str, Target]:
    """Return the targets by kind; those of this package replace installed ones of the same name."""
    resources.targets.update(installed)
    for kind in KINDS.values():
        make = maker_of(kind)
        if make is not None:
            resources.targets[kind.name] = make(resources)
    return resources.targets


def maker_of(kind: TargetKind) -> MakeTarget | None:
    """Import the function that makes the target of a kind; None when no worker runs that kind."""
    if kind.runner is None:
        return None
    module, _, function = kind.runner.partition(":")
    make: MakeTarget = getattr(import_module(module), function)
    return make


def fault_of(targets: Mapping[str, Target], schedule_id: str, definition: Definition) -> str | None:
    """Return why these targets cannot run a schedule; None when they can."""
    kind = definition.target.kind
    if kind in KINDS and KINDS[kind].runner is None:
        return None
    target = targets.get(kind)
    if target is None:
        return f'no target of kind "{kind}" on this node'
    find: Callable[[str, Definition], str | None] | None = getattr(target, "fault_of", None)
    if find is None:
        return None
    try:
        return find(schedule_id, definition)
    except Exception as error:
        if kind in KINDS:
            raise
        return f'the check of target "{kind}" failed: {type(error).__name__}: {error}'  # another package's mistake
