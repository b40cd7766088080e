"""Jobs whose slots are in a span of time: how many there are, their rows, and their number by status in each bucket.

A day of 100,000 schedules can have a million jobs, and to look at each of their rows takes a second. The indexes by
slot have the slot and the schedule of every job, and reading only them takes a twentieth of that. So jobs are counted
there; the status is read of those jobs alone that did not succeed, for which there are partial indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from everwhen.model.job import JobStatus
from everwhen.model.queries import ScheduleFilter, ScheduleSpanCount, SpanCount, TimelineJob
from everwhen.store.dialect import Queries, Statement, composed
from everwhen.store.schedule_filters import filtered

# idx_jobs_slot, idx_jobs_backfill, idx_jobs_beside: each origin is in one of them. The first two have the uid, once for
# each slot.
_BY_SLOT = ("origin IN ('schedule', 'catch_up')", "origin = 'backfill'")
_WITHOUT_SLOT_KEY = "origin IN ('retry', 'manual', 'webhook', 'chat')"
_ORIGINS = (*_BY_SLOT, _WITHOUT_SLOT_KEY)
_IN_SPAN = "slot_at >= :since::instant AND slot_at < :until::instant"
_TIMELINE_JOB = ", ".join(TimelineJob._fields)
# idx_jobs_outstanding, idx_jobs_unsuccessful: all jobs that did not succeed, or have not yet.
NOT_SUCCEEDED = ("status IN ('queued', 'running')", "status IN ('failed', 'timed_out', 'cancelled', 'lost')")
_COUNT_OTHERS = Statement(
    f"""
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE {NOT_SUCCEEDED[0]} AND uid > ''
    UNION ALL SELECT 1 FROM jobs WHERE {NOT_SUCCEEDED[1]} LIMIT :most) AS others"""
)


@dataclass(frozen=True, slots=True)
class JobSpan:
    """The jobs with a slot in [since, until), of the schedules that match."""

    since: int
    until: int
    wanted: ScheduleFilter

    def count(self, tx: Queries, *, most: int) -> int:
        """Return how many there are; counting stops at `most`."""
        where, values = self._filter
        spans = " UNION ALL ".join(
            f"SELECT 1 FROM jobs WHERE {_IN_SPAN} AND {origin} {_of_those(where)}" for origin in _ORIGINS
        )
        query = (
            f"{_those(where)} SELECT count(*) FROM (SELECT * FROM ({spans}) AS every LIMIT :most) AS found"
        )
        return int(tx.value(composed(query), **values, most=most))

    def jobs(self, tx: Queries, *, limit: int) -> list[TimelineJob]:
        """Return them, the earliest first; so many at most."""
        where, values = self._filter
        rows = [
            TimelineJob._make(row)
            for origin in _ORIGINS
            for row in tx.rows(_rows_of(_TIMELINE_JOB, where, origin), **values, limit=limit)
        ]
        return sorted(rows, key=lambda job: (job.slot_at, job.row_id))[:limit]

    def numbers(self, tx: Queries) -> Counter[str]:
        """Return how many there are of each schedule, by uid."""
        where, values = self._filter
        found = Counter[str]()
        for origin in _ORIGINS:
            query = f"""
{_those(where)} SELECT uid, count(*) FROM jobs WHERE {_IN_SPAN} AND {origin} {_of_those(where)} GROUP BY uid"""
            for uid, number in tx.rows(composed(query), **values):
                found[uid] += number
        return found

    def counts(self, tx: Queries, *, width: int) -> list[SpanCount]:
        """Return their number by status in each bucket of that width."""
        counts = self._counts(tx, width=width, by="")
        return [SpanCount(stretch, status, jobs) for _, stretch, status, jobs in counts]

    def counts_of_each(self, tx: Queries, *, width: int) -> list[ScheduleSpanCount]:
        """Return the same by schedule."""
        counts = self._counts(tx, width=width, by=", uid")
        return [
            ScheduleSpanCount("".join(uid), stretch, status, jobs) for uid, stretch, status, jobs in counts
        ]

    def _counts(self, tx: Queries, *, width: int, by: str) -> list[tuple[list[str], int, JobStatus, int]]:
        """Return the uid if it is asked for, the bucket, the status and the number; `by` is a further column."""
        where, values = self._filter
        values["width"] = width
        every = Counter[tuple[str, int]]()
        for origin in _ORIGINS:
            for at, *uid, number in tx.rows(_counts_of(by, where, f"{_IN_SPAN} AND {origin}"), **values):
                every["".join(uid), (at - self.since) // width] += number
        # Where most jobs fail, those of all times are more than the jobs of the span: then these are read.
        total = every.total()
        if int(tx.value(_COUNT_OTHERS, most=total + 1)) > total:
            return self._read_counts(tx, values, where, by)
        counts = []
        for condition in NOT_SUCCEEDED:
            for at, *uid, status, number in tx.rows(_others_of(f"{by}, status", where, condition), **values):
                stretch = (at - self.since) // width
                counts.append((uid, stretch, status, number))
                every["".join(uid), stretch] -= number
        counts += [
            ([uid], stretch, "succeeded", number) for (uid, stretch), number in every.items() if number
        ]
        return counts

    def _read_counts(
        self, tx: Queries, values: Mapping[str, object], where: str, by: str
    ) -> list[tuple[list[str], int, JobStatus, int]]:
        """Return the same, from the row of each job."""
        width = int(str(values["width"]))
        return [
            (uid, (at - self.since) // width, status, number)
            for origin in _ORIGINS
            for at, *uid, status, number in tx.rows(
                _counts_of(f"{by}, status", where, f"{_IN_SPAN} AND {origin}"), **values
            )
        ]

    @property
    def _filter(self) -> tuple[str, dict[str, object]]:
        where, values = filtered(self.wanted)
        return where, {**values, "since": self.since, "until": self.until}


# PostgreSQL looks up the schedule of each job unless their uids are in a table of their own, and checks a list of them
# from its start for each job.


def _those(where: str) -> str:
    return "" if where == "TRUE" else f"WITH those AS MATERIALIZED (SELECT uid FROM schedules WHERE {where})"


def _of_those(where: str) -> str:
    return "" if where == "TRUE" else "AND uid IN (SELECT uid FROM those)"


@lru_cache(maxsize=128)
def _rows_of(columns: str, where: str, origin: str) -> Statement:
    """Return the query for rows of an index. PostgreSQL would read every row before it looks at its uid."""
    plain = f"""
{_those(where)} SELECT {columns} FROM jobs WHERE {_IN_SPAN} AND {origin} {_of_those(where)}
ORDER BY slot_at LIMIT :limit"""
    if where == "TRUE" or origin == _WITHOUT_SLOT_KEY:
        return Statement(plain)
    by_key = f"""
{_those(where)}, slots AS MATERIALIZED (
    SELECT slot_at AS slot, uid AS whose FROM jobs WHERE {_IN_SPAN} AND {origin} {_of_those(where)}
    ORDER BY slot_at LIMIT :limit)
SELECT {columns} FROM slots CROSS JOIN LATERAL (
    SELECT {columns} FROM jobs WHERE slot_at = slots.slot AND uid = slots.whose AND {origin} OFFSET 0) AS found"""
    return Statement(sqlite=plain, postgres=by_key)


@lru_cache(maxsize=128)
def _counts_of(more: str, where: str, condition: str) -> Statement:
    """Return the query for the start of each bucket, further columns, and the number of jobs."""
    return _by_bucket(_those(where), more, f"FROM jobs WHERE {condition} {_of_those(where)}")


@lru_cache(maxsize=128)
def _others_of(more: str, where: str, condition: str) -> Statement:
    """Return the same for jobs of these statuses. All of them are read first, from the index of their status."""
    those = _those(where)
    others = f"others AS MATERIALIZED (SELECT slot_at, status, uid FROM jobs WHERE {condition})"
    first = f"{those}, {others}" if those else f"WITH {others}"
    return _by_bucket(first, more, f"FROM others WHERE {_IN_SPAN} {_of_those(where)}")


def _by_bucket(first: str, more: str, jobs: str) -> Statement:
    grouping = ", ".join(str(number) for number in range(1, 2 + more.count(",")))
    return Statement(
        sqlite=f"""
{first} SELECT :since + (slot_at - :since) / :width * :width{more}, count(*) {jobs} GROUP BY {grouping}""",
        postgres=f"""
{first} SELECT date_bin(:width * interval '1 microsecond', slot_at, :since::instant){more}, count(*)
{jobs} GROUP BY {grouping}""",
    )
