"""Pages of jobs among millions, and the merge of jobs with the other records of their schedules.

The search for a page of jobs among millions: through an index if one fits, else by a bounded scan.

Jobs have no index by schedule: every firing would pay for it. But the jobs of one schedule are adjacent in the unique
key on job_id, so those of schedules that fired rarely are read from there and sorted. Jobs of schedules that fire
often are soon found by a scan backwards from the newest job. If they are not, the scan ends at its bound, and the
page says where the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from everwhen.model.history import ScheduleHistory
from everwhen.model.job import Job, JobStatus
from everwhen.model.queries import JobFilter, JobPage

MOST_UIDS = 1_000
FEW_JOBS = 50_000
WALK = 200_000  # jobs that one request examines
COUNTED = 10_000


class Index(NamedTuple):
    """A partial index, with its exact condition: a database uses the index only where it recognises that this holds."""

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
    """The row_ids of the oldest and the newest job; 0 and 0 when there is none."""

    oldest: int
    newest: int


class Way(NamedTuple):
    """A search path: the jobs of these schedules only, or (None) all jobs; through which index, or by a scan."""

    uids: list[str] | None
    is_walk: bool
    by: Index | None = None

    def floor(self, rows: Rows, before: int | None) -> int:
        """Return the last row to examine."""
        if not self.is_walk:
            return 0
        top = rows.newest + 1 if before is None else min(before, rows.newest + 1)
        return max(top - WALK, 0)


def way_of(wanted: JobFilter, schedules: Sequence[tuple[str, int]] | None) -> Way:
    """Choose the search path. `schedules`: the wanted uids, with how often each fired; None: any."""
    fired = sum(count for _, count in schedules or ())
    if schedules is not None and len(schedules) <= MOST_UIDS and fired <= FEW_JOBS:
        return Way([uid for uid, _ in schedules], is_walk=False)
    statuses = frozenset(wanted.statuses)
    by = next((index for index in _INDEXES if statuses and statuses <= index.statuses), None)
    return Way(None, is_walk=by is None and wanted != JobFilter(), by=by)


def page_of(
    jobs: list[Job], count: int, *, limit: int, floor: int, rows: Rows, way: Way, is_all: bool
) -> JobPage:
    """Return the page: the jobs found, how many there are in all, and where the next page begins."""
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


# Merging jobs, in order of uid, with the other records of those uids.


def merge_histories(
    uids: Sequence[str], jobs: Iterable[Job], history: Callable[[str, Iterable[Job]], ScheduleHistory]
) -> Iterator[ScheduleHistory]:
    """Yield histories one by one, each with its jobs, in one pass over both; also for jobs without other records."""
    groups = groupby(jobs, key=lambda job: job.uid)
    upcoming = next(groups, None)
    for uid in uids:
        while upcoming is not None and upcoming[0] < uid:
            yield history(*upcoming)
            upcoming = next(groups, None)
        if upcoming is not None and upcoming[0] == uid:
            yield history(*upcoming)
            upcoming = next(groups, None)
        else:
            yield history(uid, ())
    while upcoming is not None:
        yield history(*upcoming)
        upcoming = next(groups, None)
