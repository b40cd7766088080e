"""Starts and ends of jobs, computed only while a client watches: jobs pay for no index and no row for them (L2).

A watch keeps the jobs that have not ended, and polls each of them until it has. So it misses none of their ends,
whatever the order of commits, and the cost of a poll is bounded by the number of outstanding jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from everwhen.model.derived import Derived, Progress, event_of_end, event_of_start
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

PORTION = 1_000
MOST_FOLLOWED = 20_000  # jobs; with more, the ends of some of them are not reported
MOST_NEW = 20_000  # jobs since the last poll; with more, that was long ago, and the watch starts again


class JobWatch:
    """The view of one reader. Not for two threads at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._firings = store_of(runtime).firings
        self._row: int | None = None  # the last job that was read
        self._told: dict[int, int] = {}  # by row: the reported starts of each job that has not ended

    def look(self) -> list[Derived]:
        """Return the starts and ends since the last call; nothing at the first call."""
        if self._row is None:
            self._begin()
            return []
        found = list(self._moves(self._firings.progress_of(self._told.keys())))
        for job in self._new():
            self._told.setdefault(job.row_id, 0)
            found += self._moves([job])
        while len(self._told) > MOST_FOLLOWED:
            del self._told[next(iter(self._told))]
        return sorted(found, key=lambda told: told.at)

    def _begin(self) -> None:
        self._row = self._firings.last()
        outstanding = self._firings.outstanding(limit=MOST_FOLLOWED)
        self._told = {job.row_id: _starts(job) for job in outstanding}

    def _new(self) -> list[Progress]:
        assert self._row is not None
        found: list[Progress] = []
        while len(found) <= MOST_NEW:
            page = self._firings.progress_after(self._row, limit=PORTION)
            found += (job for job in page if job.row_id not in self._told)
            if not page:
                return found
            self._row = page[-1].row_id
        self._begin()
        return []

    def _moves(self, jobs: list[Progress]) -> Iterator[Derived]:
        for job in jobs:
            starts = _starts(job)
            if starts > self._told[job.row_id]:
                self._told[job.row_id] = starts
                yield from filter(None, [event_of_start(job)])
            if job.is_over:
                del self._told[job.row_id]
                yield from filter(None, [event_of_end(job)])


def _starts(job: Progress) -> int:
    return 0 if job.started_at is None else job.attempt
