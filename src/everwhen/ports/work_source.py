"""Where agents get their work from.

An item belongs to whoever claimed it (`by`, one attempt of one job) until it is completed or released. A claim
whose holder died must come to be available again; how, is the source's affair. Sources may block: they are asked
on a thread of their own. Any error that they raise is reported, and fails at most the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from everwhen.model.work_item import WorkItem, WorkOutcome


class WorkSource(Protocol):
    """One inbox."""

    def fetch_available(self, *, limit: int = 10) -> Sequence[WorkItem]:
        """Items that may be claimed, the next one first."""
        ...

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        """The item, now taken; None when somebody else was faster. Its id may have changed."""
        ...

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        """The work on a claimed item is over."""
        ...

    def release(self, item_id: str, *, reason: str) -> None:
        """A claimed item is available again: the work on it did not take place."""
        ...

    def get(self, item_id: str) -> WorkItem | None:
        """One item, claimed or not; None when it is unknown."""
        ...


OpenWorkSource = Callable[[Mapping[str, Any]], WorkSource]
"""How a kind of source is opened from its words: `{type: directory, path: inbox}`."""
