"""What a node gives to its targets: processes, threads, folders and callbacks, each made once and shared by all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from everwhen.clock import Clock
from everwhen.model.manifest import Plugins
from everwhen.model.outcome import Outcome
from everwhen.model.work_item import OpenWorkSource, WorkItem
from everwhen.model.workflow import Workflows
from everwhen.target import Run, Target
from everwhen.targets.process import Processes
from everwhen.targets.python_function import Functions

T = TypeVar("T")

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
    targets: dict[str, Target] = field(default_factory=dict)  # of the node, as they are made
