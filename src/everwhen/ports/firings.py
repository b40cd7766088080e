"""Jobs in the order in which they were enqueued, and held slots: what is told beside the audit (L2, L4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from everwhen.model.derived import Firing, Hold, Progress


class Firings(Protocol):
    """Nothing here writes, and every question is bounded."""

    def after(self, row_id: int, *, limit: int) -> list[Firing]:
        """Jobs behind a row, by row_id; never one before which another may still appear."""
        ...

    def last(self) -> int:
        """The row behind which a stream begins that begins now; 0 when there is none."""
        ...

    def progress_after(self, row_id: int, *, limit: int) -> list[Progress]:
        """How far the jobs behind a row have come, by row_id; the same jobs as `after`."""
        ...

    def progress_of(self, row_ids: Collection[int]) -> list[Progress]:
        """How far these jobs have come; those that are gone are not among them."""
        ...

    def outstanding(self, *, limit: int) -> list[Progress]:
        """Jobs that are queued or running, in no order; where there are more than `limit`, some of them."""
        ...

    def owners(self, uids: Collection[str]) -> dict[str, str | None]:
        """Whose schedules these are; those that are gone are not among them."""
        ...

    def holds(self, *, uid: str | None = None, owner: str | None = None, limit: int) -> list[Hold]:
        """Slots that are held, in no order; where there are more than `limit`, some of them."""
        ...
