"""The ledger port: reads of the past, concurrently with the writers.

A history is read in one snapshot, uid by uid; the jobs of all come from one cursor in that order. So a check of
everything needs one pass over them, and the memory for one schedule. On SQLite the log cannot be emptied as long as
the snapshot lasts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from everwhen.model.events import NOTHING, Event
from everwhen.model.history import Breakers, Circumstances, History, Recorded, Revision, ScheduleHistory
from everwhen.model.job import MESSAGE_NODE, Job, job_id
from everwhen.model.limits import FOR_EVER, Breaker, Limit, Transition
from everwhen.model.outcome import OutputPiece, OutputStream
from everwhen.model.queries import (
    Counts,
    EventFilter,
    JobFilter,
    JobPage,
    RecentJob,
    RecentSkip,
    ScheduleFilter,
    ScheduleSpanCount,
    SkipCount,
    SlotsNotFired,
    SpanCount,
    TimelineJob,
)
from everwhen.model.schedule import Plan, State
from everwhen.model.spending import spending_of
from everwhen.store.dialect import Statement, Stream, composed, last_committed
from everwhen.store.job_pages import (
    EVENTS,
    JOBS,
    Rows,
    WhereClause,
    count_jobs,
    find_schedules,
    find_way,
    page_of,
    way_of,
)
from everwhen.store.job_rows import JOB
from everwhen.store.job_spans import JobSpan
from everwhen.store.load import Key, Policies, missing_plan, read_plans, read_policies
from everwhen.store.schedule_rows import STATE
from everwhen.store.skip_spans import SkipSpan
from everwhen.store.system_rows import SPENDINGS
from everwhen.store.transaction import Snapshot, StorePart


def event_columns(of: str = "") -> str:
    """Return the columns of an event, in the order of its fields, for `recorded`."""
    return ", ".join(
        f"CAST({of}{name} AS text)" if name == "detail" else f"{of}{name}" for name in Event._fields
    )


EVENT = event_columns()
MOST_NEAR = 1_000  # jobs, and events, before and after the slot in question

# -- histories --

# idx_audit_schedule: the order of uids. Every schedule has jobs or events; one without a row was deleted.
_UIDS = Statement("""
SELECT DISTINCT uid FROM audit_events WHERE uid IS NOT NULL UNION SELECT uid FROM schedules ORDER BY uid""")
# The primary key of schedule_revisions.
_REVISIONS = Statement("""
SELECT revision, schedule_id, in_force_at, cause FROM schedule_revisions WHERE uid = :uid::text ORDER BY revision""")
# idx_audit_schedule finds them; sorted in memory, those of one uid.
EVENTS_OF_UID = Statement(f"SELECT id, {EVENT} FROM audit_events WHERE uid = :uid::text ORDER BY id")
# One pass over the table, sorted by the database, on disk where it is large.
_ALL_JOBS = Statement(f"SELECT {JOB} FROM jobs ORDER BY uid, row_id")
# A prefix of the unique key on job_id, `sched-{uid}-n…`: this query has no index of its own.
_OF_UID = """
job_id >= 'sched-' || :uid::text || '-n' AND job_id < 'sched-' || :uid::text || '-o' AND uid = :uid::text"""
_SPAN_OF_UID = f"slot_at >= :since::instant AND slot_at < :until::instant AND {_OF_UID}"
_COUNTS_OF_UID = Statement(
    sqlite=f"SELECT (slot_at - :since) / :width, status, count(*) FROM jobs WHERE {_SPAN_OF_UID} GROUP BY 1, 2",
    postgres=f"""
SELECT floor(extract(epoch FROM slot_at - :since::instant) * 1000000 / :width)::bigint, status, count(*)
FROM jobs WHERE {_SPAN_OF_UID} GROUP BY 1, 2""",
)
JOBS_OF = Statement(f"SELECT {JOB} FROM jobs WHERE {_OF_UID} ORDER BY row_id")


def _nearest(of_uid: str, key: str) -> str:
    """Return a query for the keys of so many rows of a uid on each side of an instant, by slot.

    Materialized, because the indexes on slots lead through those of all schedules.
    """
    return f"""
WITH own AS MATERIALIZED ({of_uid}),
before AS (SELECT {key} FROM own WHERE slot_at <= :near::instant ORDER BY slot_at DESC, {key} DESC LIMIT :most),
after AS (SELECT {key} FROM own WHERE slot_at > :near::instant ORDER BY slot_at, {key} LIMIT :most)
SELECT {key} FROM before UNION ALL SELECT {key} FROM after"""


_JOBS_NEAR = Statement(f"""
SELECT {JOB} FROM jobs
WHERE row_id IN ({_nearest(f"SELECT row_id, slot_at FROM jobs WHERE {_OF_UID}", "row_id")}) ORDER BY row_id""")
_SLOT_EVENTS = "type IN ('schedule.skipped', 'schedule.missed', 'schedule.caught_up')"
_SLOT_EVENTS_OF_UID = f"SELECT id, slot_at FROM audit_events WHERE uid = :uid::text AND {_SLOT_EVENTS}"
# idx_audit_schedule finds them: all but those about slots, and of these the nearest.
_EVENTS_NEAR = Statement(f"""
SELECT id, {EVENT} FROM audit_events
WHERE uid = :uid::text AND (NOT {_SLOT_EVENTS} OR id IN ({_nearest(_SLOT_EVENTS_OF_UID, "id")})) ORDER BY id""")
# The unique key on uid.
_STATE_OF = Statement(f"SELECT {STATE} FROM schedules WHERE uid = :uid::text")
# idx_audit_schedule: events of no schedule are at one of its ends.
SYSTEM_EVENTS = Statement(f"""
SELECT id, {EVENT} FROM audit_events WHERE uid IS NULL
    AND type IN ('system.paused', 'system.resumed', 'system.restored', 'scheduler.clock_stepped') ORDER BY id""")
# The same, and a pass over the audit: an announcement is recorded with the schedule that reached the limit.
_SIGNS = Statement(f"""
SELECT id, {EVENT} FROM audit_events WHERE uid IS NULL AND type IN ('scheduler.started', 'node.lost') ORDER BY id""")
_BUDGETS_REACHED = Statement(
    f"SELECT id, {EVENT} FROM audit_events WHERE type = 'budget.reached' ORDER BY id"
)
# quiet_hours_policies, whole.
_POLICIES_WRITTEN = Statement("SELECT policy_id, updated_at FROM quiet_hours_policies")
_RETAINED_FROM = Statement("SELECT value FROM settings WHERE key = 'retained_from'")
_LIMITS = Statement(f"SELECT {', '.join(Limit._fields)} FROM limits")
# nodes and jobs, whole: the migration that a release brought, and the last that a process of the release before it may
# have done. A node has a row. A worker of a queue leaves none: unless the database was new, or `db migrate --after`
# was run, it may have been of either release.
_RULED_FROM = Statement(f"""
SELECT applied_at, (SELECT max(coalesce(stopped_at, lost_at, heartbeat_at)) FROM nodes
        WHERE migration IS NULL OR migration < :number),
    (SELECT max(ended_at) FROM jobs
        WHERE node <> '{MESSAGE_NODE}' AND node NOT IN (SELECT node FROM nodes WHERE migration >= :number)
            AND (node IN (SELECT node FROM nodes) OR NOT EXISTS (SELECT 1 FROM everwhen_migrations a
                WHERE (a.number = :number AND a.step = 'after' OR a.number = 1 AND a.applied_at = m.applied_at)
                    AND a.applied_at <= ended_at)))
FROM everwhen_migrations m WHERE number = :number AND step = 'before'""")
# Retries and failed slots are counted by the rules of release 0.2, reasons are judged by those of release 0.3.
COUNTS_RULED, REASONS_RULED = 2, 3

# -- jobs --

# A pass over all revisions: run for single requests of people.
_UID_OF = Statement("""
SELECT uid FROM schedule_revisions WHERE schedule_id = :id::text OR uid = :id::text
ORDER BY in_force_at > :at::instant,
    greatest(in_force_at, :at::instant) - least(in_force_at, :at::instant), uid DESC LIMIT 1""")
# The unique key on job_id.
_JOB = Statement(f"SELECT {JOB} FROM jobs WHERE job_id = :job_id::text")
# idx_jobs_unreleased: few beside those that run.
RUNNING_SINCE = Statement(f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND status = 'running'
    AND started_at <= :until::instant ORDER BY started_at LIMIT :limit""")
# The unique key on job_id.
_DURATIONS = Statement("""
SELECT started_at, ended_at FROM jobs
WHERE job_id = ANY(:ids::texts) AND status = 'succeeded' AND started_at IS NOT NULL AND ended_at IS NOT NULL""")
# The primary key of job_output.
_OUTPUT = Statement("""
SELECT attempt, stream, position, data FROM job_output WHERE job_id = :job_id::text
ORDER BY attempt, stream, position""")
# The primary key of jobs, one step from either end.
_JOB_ROWS = Statement("""
SELECT coalesce((SELECT min(row_id) FROM jobs), 0), coalesce((SELECT max(row_id) FROM jobs), 0)""")
# The last numbers of each schedule, all their retries: ranges of the unique key on job_id.
_RECENT_JOBS = Statement(f"""
SELECT {", ".join(RecentJob._fields)} FROM unnest(:numbers::texts) AS those(wanted) CROSS JOIN jobs
WHERE job_id > those.wanted || '-' AND job_id < those.wanted || '.'""")

# -- events --

# The primary key of audit_events; on PostgreSQL idx_audit_commit.
_STREAM = Stream("audit_events", f"id, {EVENT}")
_LAST_EVENT = Statement(sqlite="SELECT max(id) FROM audit_events", postgres=last_committed("audit_events"))
# idx_audit_schedule, up to the slot: a range event is stored at its first slot and contains its last.
EVENTS_OF_SLOT = Statement(f"""
SELECT id, {EVENT} FROM audit_events WHERE uid = :uid::text AND slot_at <= :slot_at::instant
    AND (slot_at = :slot_at::instant OR (slot_count > 1 AND number_in(detail, 'first') <= :slot
        AND number_in(detail, 'last') >= :slot)) ORDER BY id""")
# idx_audit_schedule, from the end of the part of each schedule; on SQLite then the primary key.
_SKIP = ", ".join(RecentSkip._fields)
_SKIPS_OF = """
FROM audit_events WHERE uid = those.wanted AND slot_at IS NOT NULL AND type IN ('schedule.skipped', 'schedule.missed')
ORDER BY slot_at DESC LIMIT :limit"""
_RECENT_SKIPS = Statement(
    sqlite=f"""
SELECT {_SKIP} FROM unnest(:uids::texts) AS those(wanted) CROSS JOIN audit_events AS e
WHERE e.id IN (SELECT id {_SKIPS_OF})""",
    postgres=f"""
SELECT {_SKIP} FROM unnest(:uids::texts) AS those(wanted) CROSS JOIN LATERAL (SELECT {_SKIP} {_SKIPS_OF}) AS e""",
)
# caught_up is stored at its last slot, so the search covers later slots.
CAUGHT_UP_AROUND = Statement(f"""
SELECT id, {EVENT} FROM audit_events WHERE uid = :uid::text AND slot_at > :slot_at::instant
    AND type = 'schedule.caught_up' AND number_in(detail, 'first') <= :slot ORDER BY id""")

# -- breakers and counts --

_BREAKER = ", ".join(Breaker._fields)
_TRANSITION = ", ".join(Transition._fields)
# The primary key of circuit_breakers.
_BREAKER_OF = Statement(f"SELECT {_BREAKER} FROM circuit_breakers WHERE key = :key::text")
_BREAKERS = Statement(f"SELECT {_BREAKER} FROM circuit_breakers ORDER BY key")
# idx_transitions_key: one step for each key.
_LATEST_TRANSITIONS = Statement(f"""
SELECT {_TRANSITION} FROM circuit_breaker_transitions
WHERE id IN (SELECT max(id) FROM circuit_breaker_transitions GROUP BY key)""")
# idx_transitions_key
_TRANSITIONS = Statement(f"""
SELECT {_TRANSITION} FROM circuit_breaker_transitions WHERE key = :key::text ORDER BY id DESC LIMIT :limit""")
# circuit_breaker_transitions, whole.
_ALL_TRANSITIONS = Statement(f"SELECT {_TRANSITION} FROM circuit_breaker_transitions ORDER BY id")
# A pass over schedules; idx_jobs_outstanding. idx_schedules_held and idx_schedules_release have the held slots, but
# the pass is needed anyway.
_SCHEDULE_COUNTS = Statement("SELECT status, count(*), count(held_slot_at) FROM schedules GROUP BY status")
JOB_COUNTS = Statement("""
SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status""")


_ANY_SCHEDULE = ScheduleFilter()


class Ledger(StorePart):
    """Queries about the past, on one database."""

    # -- histories --

    @contextmanager
    def history(self, uids: Sequence[str] | None = None, *, near: int = 0) -> Iterator[History]:
        """Yield histories, one by one, inside the block; None: of all schedules, deleted ones included, and whole.

        Of single schedules, which may have fired millions of times, they have the jobs, skips and misses whose slots
        are the nearest to an instant, `MOST_NEAR` on each side.
        """
        with self._store.read() as tx:
            tx.expect_long_statements()  # sorting millions of jobs takes its time
            policies = read_policies(tx)  # the checker must not trust a cache of what it checks
            retained_from = tx.value(_RETAINED_FROM)
            if uids is None:
                histories = _all_histories(tx, policies)
            else:
                histories = (_history_near(tx, policies, uid, near) for uid in uids)
            yield History(
                histories,
                tx.many(recorded, SYSTEM_EVENTS),
                tx.many(Limit._make, _LIMITS) if uids is None else None,
                int(retained_from or 0),
                Breakers(tx.many(Breaker._make, _BREAKERS), tx.many(Transition._make, _LATEST_TRANSITIONS))
                if uids is None
                else None,
                ruled_from=_ruled_from(tx, COUNTS_RULED) if uids is None else 0,
                spendings=tx.many(spending_of, SPENDINGS) if uids is None else None,
                circumstances=_circumstances(tx) if uids is None else None,
            )

    def revisions(
        self, uid: str, *, limit: int, before: int | None = None, most: float = inf
    ) -> tuple[list[Revision], int]:
        """Return so many revisions of a definition, newest first, and how many there are in all.

        `before`: of a lower number only; `most`: no more behind those that have so many characters.
        """
        found: list[Revision] = []
        size = 0
        with self._store.read() as tx:
            policies, rows = read_policies(tx), tx.rows(_REVISIONS, uid=uid)
            for number, _, at, cause in reversed(rows):
                if len(found) == limit or size > most:
                    break
                if before is not None and number >= before:
                    continue
                key = (uid, number)
                found.append(Revision(number, at, _known_plan(read_plans(tx, [key], policies), key), cause))
                size += found[-1].plan.definition.size
        return found, len(rows)

    # -- jobs --

    def uid_of(self, schedule_id: str, at: int = FOR_EVER) -> str | None:
        """Return the uid behind an id, deleted schedules included; a uid is returned as it is.

        Of several schedules with the id, it is the newest that had begun by `at`, else the first one.
        """
        return self._one(_first, _UID_OF, id=schedule_id, at=at)

    def job(self, job_id: str) -> Job | None:
        """Return one job."""
        return self._one(Job._make, _JOB, job_id=job_id)

    def running_since(self, until: int, *, limit: int) -> list[Job]:
        """Return the jobs that a node has been running since an instant or longer, the longest first."""
        return self._many(Job._make, RUNNING_SINCE, until=until, limit=limit)

    def durations_before(self, uid: str, number: int, *, limit: int) -> list[int]:
        """Return how long the runs before a job took that succeeded; first tries only, among so many numbers."""
        ids = [job_id(uid, earlier, 0) for earlier in range(max(number - limit, 0), number)]
        return self._many(lambda row: row[1] - row[0], _DURATIONS, ids=ids)

    def output(self, job_id: str) -> list[OutputPiece]:
        """Return the stored output of a job, by attempt, stream and position."""

        def piece(row: Sequence[Any]) -> OutputPiece:
            attempt, stream, position, data = row
            return OutputPiece(OutputStream(job_id, attempt, stream), position, bytes(data))

        return self._many(piece, _OUTPUT, job_id=job_id)

    def jobs(self, wanted: JobFilter, *, limit: int, before: int | None = None) -> list[Job]:
        """Return jobs, newest first; `before` is a row_id."""
        # By uid: the prefix of job_id, sorted in memory. Otherwise the primary key, backwards.
        conditions = WhereClause(wanted, JOBS)
        conditions.add(_OF_UID, uid=wanted.uid)
        conditions.add("row_id < :before", before=before)
        query = composed(f"SELECT {JOB} FROM jobs {conditions} ORDER BY row_id DESC LIMIT :limit")
        return self._many(Job._make, query, **conditions.values, limit=limit)

    def job_page(
        self, wanted: JobFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> JobPage:
        """Return a page of jobs for people, newest first, in bounded time: it may have fewer than `limit`."""
        # By schedules: the prefixes of job_id, sorted in memory. By status: idx_jobs_outstanding and
        # idx_jobs_unsuccessful. Otherwise the primary key, backwards and bounded.
        with self._store.read() as tx:
            rows = tx.many(Rows._make, _JOB_ROWS)[0]
            way = way_of(wanted, find_schedules(tx, wanted))
            table, conditions = find_way(wanted, way)
            count = count_jobs(tx, table, conditions, way.floor(rows, None))
            conditions.add("row_id < :before", before=before)
            floor = way.floor(rows, before)
            conditions.add("row_id >= :floor", floor=floor or None)
            query = composed(
                f"SELECT {JOB} FROM {table} {conditions} ORDER BY row_id DESC LIMIT :limit OFFSET :offset"
            )
            jobs = tx.many(Job._make, query, **conditions.values, limit=limit, offset=offset)
        return page_of(
            jobs, count, limit=limit, floor=floor, rows=rows, way=way, is_all=wanted == JobFilter()
        )

    def count_jobs_between(
        self, since: int, until: int, wanted: ScheduleFilter = _ANY_SCHEDULE, *, most: int
    ) -> int:
        """Return how many jobs `jobs_between` would find; counting stops at `most`."""
        with self._store.read() as tx:
            return JobSpan(since, until, wanted).count(tx, most=most)

    def jobs_between(
        self, since: int, until: int, wanted: ScheduleFilter = _ANY_SCHEDULE, *, limit: int
    ) -> list[TimelineJob]:
        """Return jobs with a slot in [since, until), the earliest first; of the schedules that match."""
        with self._store.read() as tx:
            return JobSpan(since, until, wanted).jobs(tx, limit=limit)

    def job_numbers(self, since: int, until: int, wanted: ScheduleFilter = _ANY_SCHEDULE) -> Counter[str]:
        """Return how many jobs of `jobs_between` each schedule has, by uid."""
        with self._store.read() as tx:
            return JobSpan(since, until, wanted).numbers(tx)

    def job_counts(
        self, since: int, until: int, wanted: ScheduleFilter = _ANY_SCHEDULE, *, width: int
    ) -> list[SpanCount]:
        """Count the jobs of `jobs_between` by status, for each bucket of that width."""
        with self._store.read() as tx:
            return JobSpan(since, until, wanted).counts(tx, width=width)

    def job_counts_of_each(
        self, since: int, until: int, uids: Collection[str], *, width: int
    ) -> list[ScheduleSpanCount]:
        """Count the jobs of these schedules by schedule and status, for each bucket of that width."""
        with self._store.read() as tx:
            return JobSpan(since, until, ScheduleFilter(uids=uids)).counts_of_each(tx, width=width)

    def job_counts_of(self, uid: str, since: int, until: int, *, width: int) -> list[SpanCount]:
        """Count the jobs of one schedule by status, for each bucket of that width."""
        values = {"uid": uid, "since": since, "until": until, "width": width}
        return self._many(SpanCount._make, _COUNTS_OF_UID, **values)

    def recent_jobs(self, last_numbers: Mapping[str, int], *, count: int) -> list[RecentJob]:
        """Return the jobs with the last numbers of each schedule, retries included; `last_numbers` is by uid."""
        numbers = [
            f"sched-{uid}-n{number}"
            for uid, last in last_numbers.items()
            for number in range(max(last - count, 0) + 1, last + 1)
        ]
        with self._store.read() as tx:
            return tx.many(RecentJob._make, _RECENT_JOBS, numbers=numbers)

    def recent_skips(self, uids: Iterable[str], *, count: int) -> list[RecentSkip]:
        """Return the last events of each schedule about slots that did not fire."""
        return self._many(RecentSkip._make, _RECENT_SKIPS, uids=list(uids), limit=count)

    # -- slots that did not fire --

    def skips_between(
        self,
        since: int,
        until: int,
        wanted: ScheduleFilter = _ANY_SCHEDULE,
        *,
        limit: int,
    ) -> list[SlotsNotFired]:
        """Return the events about slots in [since, until) that did not fire, the earliest recorded first."""
        with self._store.read() as tx:
            return SkipSpan(since, until, wanted).events(tx, limit=limit)

    def skip_ranges(
        self, since: int, until: int, wanted: ScheduleFilter, *, limit: int, behind: int = 0
    ) -> list[SlotsNotFired]:
        """Return the events of `skips_between` that are about several slots; `behind`: without so many first ones."""
        with self._store.read() as tx:
            return SkipSpan(since, until, wanted).ranges(tx, limit=limit, behind=behind)

    def skip_range_number(self, since: int, until: int, wanted: ScheduleFilter) -> int:
        """Return how many of them there are."""
        with self._store.read() as tx:
            return SkipSpan(since, until, wanted).range_number(tx)

    def skip_numbers(self, since: int, until: int, wanted: ScheduleFilter = _ANY_SCHEDULE) -> dict[str, int]:
        """Return how many events of `skips_between` each schedule has, by uid."""
        with self._store.read() as tx:
            return SkipSpan(since, until, wanted).numbers(tx)

    def skip_counts(
        self,
        since: int,
        until: int,
        wanted: ScheduleFilter = _ANY_SCHEDULE,
        *,
        width: int,
        by_schedule: bool = False,
    ) -> list[SkipCount]:
        """Count the slots of `skips_between` that have events of their own, for each bucket of that width."""
        with self._store.read() as tx:
            return SkipSpan(since, until, wanted).counts(tx, width=width, by_schedule=by_schedule)

    # -- events --

    def events(self, wanted: EventFilter, *, limit: int, before: int | None = None) -> list[Recorded]:
        """Return events, newest first; `before` is an id."""
        # By uid: idx_audit_schedule, sorted in memory; by owner idx_audit_owner. Otherwise the primary key, backwards.
        conditions = WhereClause(wanted, EVENTS)
        conditions.add("id < :before", before=before)
        query = composed(f"SELECT id, {EVENT} FROM audit_events {conditions} ORDER BY id DESC LIMIT :limit")
        return self._many(recorded, query, **conditions.values, limit=limit)

    def count_events(self, wanted: EventFilter, *, most: int) -> int:
        """Return how many events match; counting stops at `most`."""
        conditions = WhereClause(wanted, EVENTS)
        query = f"SELECT count(*) FROM (SELECT 1 FROM audit_events {conditions} LIMIT :most) AS found"
        return int(self._many(_first, composed(query), **conditions.values, most=most)[0])

    def events_after(self, event_id: int, *, limit: int) -> list[Recorded]:
        """Return events in commit order, for streams."""
        with self._store.look() as tx:
            return [recorded(row) for row in _STREAM.after(tx, event_id, limit)]

    def last_event_id(self) -> int:
        """Return the last event in commit order, behind which a stream starts without a gap; 0 if there is none."""
        with self._store.look() as tx:
            return tx.number(_LAST_EVENT) or 0

    def events_of_slot(self, uid: str, slot_at: int) -> list[Recorded]:
        """Return the events about one slot, including those that count it in a range."""
        values = {"uid": uid, "slot_at": slot_at, "slot": slot_at}
        with self._store.read() as tx:
            found = tx.many(recorded, EVENTS_OF_SLOT, **values)
            found += tx.many(recorded, CAUGHT_UP_AROUND, **values)
        return sorted(found, key=lambda recorded: recorded.id)

    # -- breakers and counts --

    def breaker(self, key: str) -> Breaker:
        """Return one breaker as it is now; closed when it never changed."""
        return self._one(Breaker._make, _BREAKER_OF, key=key) or Breaker(key)

    def breakers(self) -> list[Breaker]:
        """Return every breaker that ever changed, by key."""
        return self._many(Breaker._make, _BREAKERS)

    def transitions(self, key: str, *, limit: int) -> list[Transition]:
        """Return the transitions of a breaker, newest first."""
        return self._many(Transition._make, _TRANSITIONS, key=key, limit=limit)

    def counts(self) -> Counts:
        """Return the current totals."""
        with self._store.read() as tx:
            schedules = tx.rows(_SCHEDULE_COUNTS)
            jobs = tx.rows(JOB_COUNTS)
        return Counts(
            schedules={status: count for status, count, _ in schedules},
            jobs=dict(jobs),
            held=sum(held for _, _, held in schedules),
        )


# -- histories --


def _circumstances(tx: Snapshot) -> Circumstances:
    return Circumstances(
        judged_from=_ruled_from(tx, REASONS_RULED),
        transitions=tx.many(Transition._make, _ALL_TRANSITIONS),
        policies=dict(tx.rows(_POLICIES_WRITTEN)),
        nodes=tx.nodes(),
        signs=tx.many(recorded, _SIGNS),
        reached=tx.many(recorded, _BUDGETS_REACHED),
    )


def _ruled_from(tx: Snapshot, migration: int) -> int:
    """Return from when on only the rules of releases with that migration counted."""
    ((applied_at, node_at, job_at),) = tx.rows(_RULED_FROM, number=migration)
    return int(max(applied_at, (node_at or 0) + 1, (job_at or 0) + 1))


def _all_histories(tx: Snapshot, policies: Policies) -> Iterator[ScheduleHistory]:
    """Yield histories one by one, each with its jobs, in one pass over both; also for jobs without other records."""
    jobs = groupby(map(Job._make, tx.stream(_ALL_JOBS)), key=lambda job: job.uid)
    recorded_uids: Iterator[tuple[str, Iterable[Job]]] = ((uid, ()) for uid in tx.column(_UIDS))
    last = None
    for uid, found in merge(jobs, recorded_uids, key=itemgetter(0)):
        if uid != last:  # of two equal ones the first has the jobs
            yield _history(tx, policies, uid, found)
        last = uid


def _history_near(tx: Snapshot, policies: Policies, uid: str, near: int) -> ScheduleHistory:
    around = {"uid": uid, "near": near, "most": MOST_NEAR}
    jobs, events = tx.many(Job._make, _JOBS_NEAR, **around), tx.many(recorded, _EVENTS_NEAR, **around)
    return _history(tx, policies, uid, jobs, events)


def _history(
    tx: Snapshot,
    policies: Policies,
    uid: str,
    jobs: Iterable[Job],
    events: Sequence[Recorded] | None = None,
) -> ScheduleHistory:
    rows = tx.rows(_REVISIONS, uid=uid)
    known = read_plans(tx, [(uid, row[0]) for row in rows], policies)
    return ScheduleHistory(
        uid=uid,
        schedule_id=rows[0][1] if rows else uid,
        revisions=[
            Revision(number, at, _known_plan(known, (uid, number)), cause) for number, _, at, cause in rows
        ],
        events=tx.many(recorded, EVENTS_OF_UID, uid=uid) if events is None else events,
        jobs=jobs,
        state=tx.one(State._make, _STATE_OF, uid=uid),
    )


def _known_plan(plans: Mapping[Key, Plan], key: Key) -> Plan:
    return plans.get(key) or missing_plan(key)


def recorded(row: Sequence[Any]) -> Recorded:
    """Return an event, whose detail is JSON, with the number before it."""
    number, *plain, detail, trace_id = row
    fields = NOTHING if detail == "{}" else json.loads(detail)
    return Recorded(number, Event._make((*plain, fields, trace_id)))


def _first(row: Sequence[Any]) -> Any:
    return row[0]
