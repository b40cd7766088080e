"""Pages of jobs among millions: the conditions of lists, and the search through an index if one fits, else by a scan.

Jobs have no index by schedule: every firing would pay for it. But the jobs of one schedule are adjacent in the unique
key on job_id, so those of schedules that fired rarely are read from there and sorted. Jobs of schedules that fire
often are soon found by a scan backwards from the newest job. If they are not, the scan ends at its bound, and the
page says where the next one begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from everwhen.model.job import Job, JobStatus
from everwhen.model.queries import EventFilter, JobFilter, JobPage
from everwhen.store.dialect import Queries, composed

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


# The conditions on jobs, on their schedules, and on events, by the field of the filter.
JOBS = {
    "slot_at": "slot_at = :slot_at::instant",
    "since": "slot_at >= :since::instant",
    "until": "slot_at < :until::instant",
    "enqueued_since": "created_at >= :enqueued_since::instant",
    "enqueued_until": "created_at < :enqueued_until::instant",
    "statuses": "status = ANY(:statuses::texts)",
    "origins": "origin = ANY(:origins::texts)",
}
_SCHEDULES = {
    "uid": "uid = :uid::text",
    "uids": "uid = ANY(:uids::texts)",
    "owner": "owner = :owner::text",
    "group": '"group" = :group::text',
}
EVENTS = {
    "uid": "uid = :uid::text",
    "uids": "uid = ANY(:uids::texts)",
    "job_id": "job_id = :job_id::text",
    "owner": "owner = :owner::text",
    "since": "at >= :since::instant",
    "until": "at < :until::instant",
    "slots_until": "slot_at < :slots_until::instant",
    "types": "type = ANY(:types::texts)",
}
# The uid's range in the unique key on job_id, for each of many.
_THOSE_UIDS = "unnest(:uids::texts) AS those(wanted) CROSS JOIN jobs"
_OF_THOSE = """
job_id >= 'sched-' || those.wanted || '-n' AND job_id < 'sched-' || those.wanted || '-o' AND uid = those.wanted"""


class WhereClause:
    """The WHERE clause of a list, with only the conditions that the filter names."""

    def __init__(self, wanted: JobFilter | EventFilter, texts: Mapping[str, str]) -> None:
        self.texts: list[str] = []
        self.values: dict[str, object] = {}
        for name, text in texts.items():
            value = getattr(wanted, name)
            self.add(text, **{name: sorted(value) or None if text.endswith("::texts)") else value})

    def add(self, text: str, **value: object) -> None:
        if any(one is not None for one in value.values()):
            self.texts.append(text)
            self.values |= value

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self.texts)}" if self.texts else ""


def find_schedules(tx: Queries, wanted: JobFilter) -> list[tuple[str, int]] | None:
    """Return the uids whose jobs are wanted, with how often each fired; None: any."""
    conditions = WhereClause(wanted, _SCHEDULES)
    if not conditions.values:
        return None
    query = f"SELECT uid, fire_count - numbers_skipped FROM schedules {conditions} LIMIT {MOST_UIDS + 1}"
    found = tx.rows(composed(query), **conditions.values)
    if wanted.owner is not None or wanted.group is not None:
        return found
    named = set(wanted.uids)
    if wanted.uid is not None:
        named = {wanted.uid} & named if named else {wanted.uid}
    # The others are perhaps deleted; their owners and groups are no longer known.
    return [*found, *((uid, 0) for uid in sorted(named - {uid for uid, _ in found}))]


def find_way(wanted: JobFilter, way: Way) -> tuple[str, WhereClause]:
    """Return the table to read, with the index if it is named, and the conditions."""
    conditions = WhereClause(wanted, JOBS)
    if way.uids is not None:
        conditions.add(_OF_THOSE, uids=way.uids)
        return _THOSE_UIDS, conditions
    schedules = WhereClause(wanted, _SCHEDULES)
    if schedules.values:
        conditions.add(f"uid IN (SELECT uid FROM schedules {schedules})", **schedules.values)
    if way.by is None:
        return "jobs", conditions
    conditions.texts.append(way.by.condition)
    return f"jobs INDEXED BY {way.by.name}", conditions  # else SQLite would scan backwards to get the order


def count_jobs(tx: Queries, table: str, conditions: WhereClause, floor: int) -> int:
    """Return how many there are, counted up to a bound."""
    above = f"{conditions} {'AND' if conditions.texts else 'WHERE'} row_id >= :above"
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} {above} LIMIT {COUNTED + 1}) AS found"
    return int(tx.value(composed(query), **conditions.values, above=floor))
