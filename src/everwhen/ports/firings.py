"""Jobs in the order in which they were enqueued, and held slots: the feed items that are not in the audit (L2, L4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from everwhen.model.derived import Firing, Hold, Progress


class Firings(Protocol):
    """Reads of jobs and held slots. No method writes, and every query is bounded."""

    def after(self, row_id: int, *, limit: int) -> list[Firing]:
        """Return jobs behind a row, by row_id; never one that another may still precede."""
        ...

    def last(self) -> int:
        """Return the row behind which a stream that starts now begins; 0 when there is none."""
        ...

    def progress_after(self, row_id: int, *, limit: int) -> list[Progress]:
        """Return the progress of the jobs behind a row, by row_id; the same jobs as `after`."""
        ...

    def progress_of(self, row_ids: Collection[int]) -> list[Progress]:
        """Return the progress of these jobs, without those that no longer exist."""
        ...

    def outstanding(self, *, limit: int) -> list[Progress]:
        """Return jobs that are queued or running, in no order; at most `limit` of them."""
        ...

    def owners(self, uids: Collection[str]) -> dict[str, str | None]:
        """Return the owners of these schedules, without those that no longer exist."""
        ...

    def holds(self, *, uid: str | None = None, owner: str | None = None, limit: int) -> list[Hold]:
        """Return held slots, in no order; at most `limit` of them."""
        ...
