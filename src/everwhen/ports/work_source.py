"""Sources of work for agents.

An item belongs to its claimant (`by`, one attempt of one job) until it is completed or released. A claim whose holder
died must become available again; the source decides how. Sources may block: they are called on a thread of their own.
Any error that they raise is reported, and fails at most the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from everwhen.model.work_item import WorkItem, WorkOutcome


class WorkSource(Protocol):
    """One inbox."""

    def fetch_available(self, *, limit: int = 10) -> Sequence[WorkItem]:
        """Return items that may be claimed, the next one first."""
        ...

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        """Claim an item and return it; None when another claimant was faster. Its id may have changed."""
        ...

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        """Record that the work on a claimed item has ended."""
        ...

    def release(self, item_id: str, *, reason: str) -> None:
        """Make a claimed item available again: the work on it did not take place."""
        ...

    def get(self, item_id: str) -> WorkItem | None:
        """Return one item, claimed or not; None when it is unknown."""
        ...


OpenWorkSource = Callable[[Mapping[str, Any]], WorkSource]
"""A function that opens a kind of source from its fields: `{type: directory, path: inbox}`."""
