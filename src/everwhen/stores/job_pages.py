"""How a page of jobs is found among millions: through an index where one serves, else by a walk that is bounded.

Jobs have no index by schedule: every firing would pay for it. But the jobs of one schedule lie beside each other in the
unique key on job_id, so those of schedules that fired little are taken from there and sorted. What fires much is met
soon by a walk from the newest job backwards; should it not be, the walk ends after a while, and the page says where
the next one goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from everwhen.model.job import Job, JobStatus
from everwhen.ports.ledger import JobFilter, JobPage

MOST_UIDS = 1_000
FEW_JOBS = 50_000
WALK = 200_000  # jobs that one request looks at
COUNTED = 10_000


class Index(NamedTuple):
    """A partial index, with its condition word for word: a database uses it only where it sees that this holds."""

    name: str
    condition: str
    statuses: frozenset[JobStatus]


_INDEXES = (
    Index("idx_jobs_outstanding", "status IN ('queued', 'running')", frozenset(("queued", "running"))),
    Index(
        "idx_jobs_unsuccessful",
        "status IN ('failed', 'timed_out', 'cancelled', 'lost')",
        frozenset(("failed", "timed_out", "cancelled", "lost")),
    ),
)


class Rows(NamedTuple):
    """The oldest and the newest job that there is; 0 and 0 when there is none."""

    oldest: int
    newest: int


class Way(NamedTuple):
    """How to look: at the jobs of these schedules alone, or (None) at all; through which index, or by a walk."""

    uids: list[str] | None
    is_walk: bool
    by: Index | None = None

    def floor(self, rows: Rows, before: int | None) -> int:
        """The last row to look at."""
        if not self.is_walk:
            return 0
        top = rows.newest + 1 if before is None else min(before, rows.newest + 1)
        return max(top - WALK, 0)


def way_of(wanted: JobFilter, schedules: Sequence[tuple[str, int]] | None) -> Way:
    """`schedules`: the uids that are asked for, with how often each fired; None: any."""
    fired = sum(count for _, count in schedules or ())
    if schedules is not None and len(schedules) <= MOST_UIDS and fired <= FEW_JOBS:
        return Way([uid for uid, _ in schedules], is_walk=False)
    statuses = frozenset(wanted.statuses)
    by = next((index for index in _INDEXES if statuses and statuses <= index.statuses), None)
    return Way(None, is_walk=by is None and wanted != JobFilter(), by=by)


def page_of(
    jobs: list[Job], count: int, *, limit: int, floor: int, rows: Rows, way: Way, is_all: bool
) -> JobPage:
    """What was found, how much there is in all, and where the next page goes on."""
    is_more = count > COUNTED
    is_approximate = is_more or (way.is_walk and way.floor(rows, None) > rows.oldest)
    total = min(count, COUNTED)
    if is_more and is_all:
        total = rows.newest - rows.oldest + 1
    if len(jobs) == limit:
        following: int | None = jobs[-1].row_id
    else:
        following = floor if floor > rows.oldest else None
    return JobPage(jobs, total, is_approximate, following)
