"""The workflows that schedules can start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from everwhen.model.schedule import Target

DispatchEvent = Callable[[str, dict[str, Any], str | None], Any]
"""`dispatch_event("schedule", event_data, owner)`. The work is done when the call has returned and any
awaitable that it returned is done; the work has failed when the call raises."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow: a handler of this process, or another target. Without `triggers`, every trigger node is accepted."""

    workflow_id: str
    run: DispatchEvent | Target
    name: str = ""
    triggers: tuple[str, ...] = ()


class Workflows(Protocol):
    """The workflows that are known now."""

    def find(self, workflow_id: str) -> Workflow | None: ...
