"""The ledger on PostgreSQL: reads of the past.

Commit order (L4)
-----------------
Numbers of events are assigned before their transactions commit, so a larger one may become visible before a smaller
one. Every event therefore also has the number of its transaction, `xid`. A stream reads events of transactions older
than the oldest one still open, in the order (xid, id): nothing can appear before what it has passed. Its cursor is
still one number, the id of the last event; the xid is looked up. Where retention has deleted that event, the stream
continues with the ids above it. After a dump and restore into another cluster old events may have numbers of
transactions that this cluster has yet to assign; no transaction of its own can have made them visible, so they count
as committed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.events import NOTHING, Event
from everwhen.model.history import Breakers, History, Recorded, Revision, ScheduleHistory
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.output import OutputPiece, OutputStream
from everwhen.model.queries import Counts, EventFilter, JobFilter, JobPage, SpanCount
from everwhen.model.schedule import State
from everwhen.model.shared import FOR_EVER
from everwhen.stores import postgres_statements as sql
from everwhen.stores.histories import merge_histories
from everwhen.stores.job_pages import COUNTED, MOST_UIDS, Rows, Way, page_of, way_of
from everwhen.stores.plans import RecordedPlans
from everwhen.stores.postgres_adapters import At, Texts
from everwhen.stores.postgres_database import PostgresDatabase
from everwhen.stores.postgres_snapshot import PostgresSnapshot
from everwhen.stores.postgres_watermark import Marks
from everwhen.stores.storable import storable

# A prefix of the unique key on job_id, `sched-{uid}-n…`: this query has no index of its own.
_JOBS_OF_UID = (
    "job_id >= 'sched-' || %(uid)s || '-n' AND job_id < 'sched-' || %(uid)s || '-o' AND uid = %(uid)s"
)
# idx_audit_schedule: the order of uids. One without a row was deleted.
_UIDS = """
SELECT uid FROM audit_events WHERE uid IS NOT NULL UNION SELECT uid FROM schedules ORDER BY uid"""
# The primary key of schedule_revisions.
_REVISIONS = """
SELECT revision, schedule_id, in_force_at, cause FROM schedule_revisions WHERE uid = %s ORDER BY revision"""
# idx_audit_schedule finds them; sorted in memory, those of one uid.
_EVENTS_OF_UID = f"SELECT id, {sql.EVENT} FROM audit_events WHERE uid = %s ORDER BY id"
# One pass over the table, sorted by the server, fetched in portions.
_ALL_JOBS = f"SELECT {sql.JOB} FROM jobs ORDER BY uid, row_id"
_JOBS_OF = f"SELECT {sql.JOB} FROM jobs WHERE {_JOBS_OF_UID} ORDER BY row_id"
# The unique key on uid.
_STATE_OF = f"SELECT {sql.STATE} FROM schedules WHERE uid = %s"
# idx_audit_schedule: events of no schedule are its last.
_SYSTEM_EVENTS = f"""
SELECT id, {sql.EVENT} FROM audit_events WHERE uid IS NULL
    AND type IN ('system.paused', 'system.resumed', 'system.restored', 'scheduler.clock_stepped') ORDER BY id"""
# A pass over all revisions: run for single requests of people.
_UID_OF = """
SELECT uid FROM schedule_revisions WHERE schedule_id = %(id)s OR uid = %(id)s
ORDER BY in_force_at > %(at)s, greatest(in_force_at, %(at)s) - least(in_force_at, %(at)s), uid DESC LIMIT 1"""
# The primary key of jobs, one step from either end.
_JOB_ROWS = """
SELECT coalesce((SELECT min(row_id) FROM jobs), 0), coalesce((SELECT max(row_id) FROM jobs), 0)"""
# The uid's range in the unique key on job_id, for each of many.
_JOBS_OF_UIDS = """
unnest(%(uids)s) AS those (wanted) JOIN jobs ON job_id >= 'sched-' || those.wanted || '-n'
    AND job_id < 'sched-' || those.wanted || '-o' AND uid = those.wanted"""
# idx_jobs_slot, idx_jobs_backfill, idx_jobs_beside: each origin is in one of them.
_IN_SPAN = [
    f"slot_at >= %(since)s AND slot_at < %(until)s AND {condition}"
    for condition in (
        "origin IN ('schedule', 'catch_up')",
        "origin = 'backfill'",
        "origin IN ('retry', 'manual', 'webhook', 'chat')",
    )
]
_OWNED = "(%(owner)s::text IS NULL OR uid IN (SELECT uid FROM schedules WHERE owner = %(owner)s))"
_JOBS_BETWEEN = [
    f"SELECT {sql.JOB} FROM jobs WHERE {span} AND {_OWNED} ORDER BY slot_at LIMIT %(limit)s"
    for span in _IN_SPAN
]
_STRETCH = "floor(extract(epoch FROM slot_at - %(since)s) * 1000000 / %(width)s)::bigint"
_JOB_SPANS = [
    f"SELECT {_STRETCH}, status, count(*) FROM jobs WHERE {span} AND {_OWNED} GROUP BY 1, 2"
    for span in _IN_SPAN
]
# idx_audit_commit
_COMMITTED = """
(xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot()))"""
_EVENTS_AFTER = f"""
SELECT id, {sql.EVENT} FROM audit_events
WHERE (xid, id) > ((SELECT xid FROM audit_events WHERE id = %(id)s), %(id)s) AND {_COMMITTED}
ORDER BY xid, id LIMIT %(limit)s"""
_EVENTS_ABOVE = f"""
SELECT id, {sql.EVENT} FROM audit_events WHERE id > %(id)s AND {_COMMITTED} ORDER BY xid, id LIMIT %(limit)s"""
_LAST_EVENT = f"SELECT id FROM audit_events WHERE {_COMMITTED} ORDER BY xid DESC, id DESC LIMIT 1"
# idx_audit_schedule, up to the slot: a range event is stored at its first slot and contains its last.
_EVENTS_OF_SLOT = f"""
SELECT id, {sql.EVENT} FROM audit_events WHERE uid = %(uid)s AND slot_at <= %(slot_at)s
    AND (slot_at = %(slot_at)s OR (slot_count > 1 AND (detail->>'first')::bigint <= %(slot)s
        AND (detail->>'last')::bigint >= %(slot)s)) ORDER BY id"""
# caught_up is stored at its last slot, so the search covers later slots.
_CAUGHT_UP_AROUND = f"""
SELECT id, {sql.EVENT} FROM audit_events WHERE uid = %(uid)s AND slot_at > %(slot_at)s
    AND type = 'schedule.caught_up' AND (detail->>'first')::bigint <= %(slot)s ORDER BY id"""
_ALL_BREAKERS = f"SELECT {', '.join(Breaker._fields)} FROM circuit_breakers"
# idx_transitions_key
_LATEST_TRANSITIONS = f"""
SELECT {", ".join(Transition._fields)} FROM circuit_breaker_transitions
WHERE id IN (SELECT max(id) FROM circuit_breaker_transitions GROUP BY key)"""
# idx_transitions_key
_TRANSITIONS = f"""
SELECT {", ".join(Transition._fields)} FROM circuit_breaker_transitions WHERE key = %s ORDER BY id DESC LIMIT %s"""
# A pass over schedules; idx_jobs_outstanding.
_SCHEDULE_COUNTS = "SELECT status, count(*), count(held_slot_at) FROM schedules GROUP BY status"
_JOB_COUNTS = "SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status"
# nodes, whole: the last heartbeat of a process of the release before on_exhausted, or when its migration was applied.
_RULED_FROM = """
SELECT greatest((SELECT max(heartbeat_at) FROM nodes WHERE migration IS NULL), applied_at)
FROM everwhen_migrations WHERE number = 2 AND step = 'before'"""

_PORTION = 2_000

Values = Mapping[str, object] | Sequence[object]


class PostgresLedger:
    """Queries about the past, on one PostgreSQL database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def _rows(self, query: str, values: Values = ()) -> list[Any]:
        with self._database.connection() as connection:
            return _fetch(connection, query, values)

    # -- histories --

    @contextmanager
    def history(self, uids: Sequence[str] | None = None) -> Iterator[History]:
        with self._database.snapshot() as connection:
            connection.execute("SET LOCAL statement_timeout = 0")  # sorting millions of jobs takes its time
            system = _recorded(_fetch(connection, _SYSTEM_EVENTS))
            rows = _fetch(connection, f"SELECT {sql.LIMIT} FROM limits")
            limits = [Limit._make(row) for row in rows] if uids is None else None
            plans = RecordedPlans(PostgresSnapshot(connection, Marks()))
            histories = (
                self._all_histories(connection, plans)
                if uids is None
                else self._histories(connection, plans, uids)
            )
            retained = _fetch(connection, "SELECT value FROM settings WHERE key = 'retained_from'")
            breakers = _breakers(connection) if uids is None else None
            ((ruled_from,),) = _fetch(connection, _RULED_FROM)
            retained_from = int(retained[0][0]) if retained else 0
            yield History(histories, system, limits, retained_from, breakers, ruled_from=ruled_from)

    def _all_histories(self, connection: Connection[Any], plans: RecordedPlans) -> Iterator[ScheduleHistory]:
        uids = [row[0] for row in _fetch(connection, _UIDS)]
        with connection.cursor("all_jobs", binary=True) as cursor:
            cursor.itersize = _PORTION
            cursor.execute(_ALL_JOBS.encode())
            jobs = map(Job._make, cursor)
            yield from merge_histories(
                uids, jobs, lambda uid, found: self._history(connection, plans, uid, found)
            )

    def _histories(
        self, connection: Connection[Any], plans: RecordedPlans, uids: Sequence[str]
    ) -> Iterator[ScheduleHistory]:
        for uid in uids:
            rows = _fetch(connection, _JOBS_OF, {"uid": uid})
            yield self._history(connection, plans, uid, [Job._make(row) for row in rows])

    def _history(
        self, connection: Connection[Any], plans: RecordedPlans, uid: str, jobs: Iterable[Job]
    ) -> ScheduleHistory:
        rows = _fetch(connection, _REVISIONS, (uid,))
        known = plans.load([(uid, row[0]) for row in rows])
        states = _fetch(connection, _STATE_OF, (uid,))
        return ScheduleHistory(
            uid=uid,
            schedule_id=rows[0][1] if rows else uid,
            revisions=[Revision(number, at, known[uid, number], cause) for number, _, at, cause in rows],
            events=_recorded(_fetch(connection, _EVENTS_OF_UID, (uid,))),
            jobs=jobs,
            state=State._make(states[0]) if states else None,
        )

    # -- jobs --

    def uid_of(self, schedule_id: str, at: int = FOR_EVER) -> str | None:
        rows = self._rows(_UID_OF, {"id": storable(schedule_id), "at": At(at)})
        return str(rows[0][0]) if rows else None

    def job(self, job_id: str) -> Job | None:
        rows = self._rows(sql.JOBS, (Texts([job_id]),))
        return Job._make(rows[0]) if rows else None

    def output(self, job_id: str) -> list[OutputPiece]:
        rows = self._rows(sql.OUTPUT, (job_id,))
        return [OutputPiece(OutputStream(job_id, row[0], row[1]), row[2], bytes(row[3])) for row in rows]

    def jobs(self, wanted: JobFilter, *, limit: int, before: int | None = None) -> list[Job]:
        # By uid: the prefix of job_id, sorted in memory. Otherwise the primary key, backwards.
        conditions = _job_conditions(wanted, limit)
        conditions.add(_JOBS_OF_UID, uid=wanted.uid)
        conditions.add("row_id < %(before)s", before=before)
        query = f"SELECT {sql.JOB} FROM jobs {conditions} ORDER BY row_id DESC LIMIT %(limit)s"
        return [Job._make(row) for row in self._rows(query, conditions.values)]

    def job_page(
        self, wanted: JobFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> JobPage:
        # By schedules: the prefixes of job_id, sorted in memory. By status: idx_jobs_outstanding and
        # idx_jobs_unsuccessful. Otherwise the primary key, backwards and bounded.
        with self._database.snapshot() as connection:
            rows = Rows._make(_fetch(connection, _JOB_ROWS)[0])
            way = way_of(wanted, _schedules_asked_for(connection, wanted))
            table, conditions = _way_there(wanted, way, limit)
            count = _counted(connection, table, conditions, way.floor(rows, None))
            conditions.add("row_id < %(before)s", before=before)
            floor = way.floor(rows, before)
            conditions.add("row_id >= %(floor)s", floor=floor or None)
            query = f"""SELECT {sql.JOB} FROM {table} {conditions} ORDER BY row_id DESC
                LIMIT %(limit)s OFFSET %(offset)s"""
            found = _fetch(connection, query, {**conditions.values, "offset": offset})
        jobs = [Job._make(row) for row in found]
        return page_of(
            jobs, count, limit=limit, floor=floor, rows=rows, way=way, is_all=wanted == JobFilter()
        )

    def jobs_between(self, since: int, until: int, *, owner: str | None, limit: int) -> list[Job]:
        values = {"since": At(since), "until": At(until), "owner": _text(owner), "limit": limit}
        with self._database.snapshot() as connection:
            rows = [row for query in _JOBS_BETWEEN for row in _fetch(connection, query, values)]
        return sorted(map(Job._make, rows), key=lambda job: (job.slot_at, job.row_id))[:limit]

    def job_counts(self, since: int, until: int, *, owner: str | None, width: int) -> list[SpanCount]:
        values = {"since": At(since), "until": At(until), "owner": _text(owner), "width": width}
        with self._database.snapshot() as connection:
            return [SpanCount._make(row) for query in _JOB_SPANS for row in _fetch(connection, query, values)]

    # -- events --

    def events(self, wanted: EventFilter, *, limit: int, before: int | None = None) -> list[Recorded]:
        # By uid: idx_audit_schedule, sorted in memory; by owner idx_audit_owner. Otherwise the primary key, backwards.
        conditions = _events_wanted(wanted, limit)
        conditions.add("id < %(before)s", before=before)
        query = f"SELECT id, {sql.EVENT} FROM audit_events {conditions} ORDER BY id DESC LIMIT %(limit)s"
        return _recorded(self._rows(query, conditions.values))

    def count_events(self, wanted: EventFilter, *, most: int) -> int:
        conditions = _events_wanted(wanted, most)
        query = f"SELECT count(*) FROM (SELECT 1 FROM audit_events {conditions} LIMIT %(limit)s) AS found"
        return int(self._rows(query, conditions.values)[0][0])

    def last_event_id(self) -> int:
        return next((int(row[0]) for row in self._rows(_LAST_EVENT)), 0)

    def events_after(self, event_id: int, *, limit: int) -> list[Recorded]:
        is_there = self._rows("SELECT 1 FROM audit_events WHERE id = %s", (event_id,))
        query = _EVENTS_AFTER if is_there else _EVENTS_ABOVE
        return _recorded(self._rows(query, {"id": event_id, "limit": limit}))

    def events_of_slot(self, uid: str, slot_at: int) -> list[Recorded]:
        values = {"uid": uid, "slot_at": At(slot_at), "slot": slot_at}
        with self._database.snapshot() as connection:
            found = _recorded(_fetch(connection, _EVENTS_OF_SLOT, values))
            found += _recorded(_fetch(connection, _CAUGHT_UP_AROUND, values))
        return sorted(found, key=lambda recorded: recorded.id)

    # -- breakers and counts --

    def breaker(self, key: str) -> Breaker:
        rows = self._rows(sql.BREAKERS, (Texts([key]),))
        return Breaker._make(rows[0]) if rows else Breaker(key)

    def breakers(self) -> list[Breaker]:
        return [Breaker._make(row) for row in self._rows(f"{_ALL_BREAKERS} ORDER BY key")]

    def transitions(self, key: str, *, limit: int) -> list[Transition]:
        return [Transition._make(row) for row in self._rows(_TRANSITIONS, (storable(key), limit))]

    def counts(self) -> Counts:
        with self._database.snapshot() as connection:
            schedules = _fetch(connection, _SCHEDULE_COUNTS)
            jobs = _fetch(connection, _JOB_COUNTS)
        return Counts(
            schedules={status: count for status, count, _ in schedules},
            jobs=dict(jobs),
            held=sum(held for _, _, held in schedules),
        )


class _Conditions:
    """The WHERE clause of a list, with only the conditions that were requested."""

    def __init__(self, limit: int) -> None:
        self._texts: list[str] = []
        self.values: dict[str, object] = {"limit": limit}

    def add(self, text: str, **value: object) -> None:
        if any(one is not None for one in value.values()):
            self._texts.append(text)
            self.values |= value

    def say(self, text: str) -> None:
        """Add a condition without a value."""
        self._texts.append(text)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._texts)}" if self._texts else ""


def _job_conditions(wanted: JobFilter, limit: int) -> _Conditions:
    """Return the conditions on the jobs themselves, without those on their schedules."""
    conditions = _Conditions(limit)
    conditions.add("slot_at = %(slot_at)s", slot_at=_at(wanted.slot_at))
    conditions.add("slot_at >= %(since)s", since=_at(wanted.since))
    conditions.add("slot_at < %(until)s", until=_at(wanted.until))
    conditions.add("created_at >= %(enqueued_since)s", enqueued_since=_at(wanted.enqueued_since))
    conditions.add("created_at < %(enqueued_until)s", enqueued_until=_at(wanted.enqueued_until))
    conditions.add("status = ANY(%(statuses)s)", statuses=_any(wanted.statuses))
    conditions.add("origin = ANY(%(origins)s)", origins=_any(wanted.origins))
    return conditions


def _schedules_asked_for(connection: Connection[Any], wanted: JobFilter) -> list[tuple[str, int]] | None:
    """Return the uids whose jobs are wanted, with how often each fired; None: any."""
    conditions = _schedule_conditions(wanted)
    if len(conditions.values) == 1:
        return None
    query = f"SELECT uid, fire_count - numbers_skipped FROM schedules {conditions} LIMIT %(limit)s"
    found = _fetch(connection, query, conditions.values)
    if found or wanted.uid is None or wanted.owner is not None or wanted.group is not None:
        return found
    return [(wanted.uid, 0)]  # perhaps deleted; its owner and group are no longer known


def _schedule_conditions(wanted: JobFilter) -> _Conditions:
    conditions = _Conditions(MOST_UIDS + 1)
    conditions.add("uid = %(uid)s", uid=_text(wanted.uid))
    conditions.add("owner = %(owner)s", owner=_text(wanted.owner))
    conditions.add('"group" = %(group)s', group=_text(wanted.group))
    return conditions


def _way_there(wanted: JobFilter, way: Way, limit: int) -> tuple[str, _Conditions]:
    conditions = _job_conditions(wanted, limit)
    if way.uids is not None:
        conditions.values["uids"] = Texts([storable(uid) for uid in way.uids])
        return _JOBS_OF_UIDS, conditions
    schedules = _schedule_conditions(wanted)
    if str(schedules):
        del schedules.values["limit"]
        conditions.add(f"uid IN (SELECT uid FROM schedules {schedules})", **schedules.values)
    if way.by is not None:
        conditions.say(way.by.condition)
    return "jobs", conditions


def _counted(connection: Connection[Any], table: str, conditions: _Conditions, floor: int) -> int:
    """Return how many there are, counted up to a bound."""
    above = f"{conditions} {'AND' if str(conditions) else 'WHERE'} row_id >= %(above)s"
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} {above} LIMIT {COUNTED + 1}) AS found"
    count: int = _fetch(connection, query, {**conditions.values, "above": floor})[0][0]
    return count


def _text(value: str | None) -> str | None:
    return None if value is None else storable(value)


def _events_wanted(wanted: EventFilter, limit: int) -> _Conditions:
    conditions = _Conditions(limit)
    conditions.add("uid = %(uid)s", uid=_text(wanted.uid))
    conditions.add("job_id = %(job_id)s", job_id=_text(wanted.job_id))
    conditions.add("owner = %(owner)s", owner=_text(wanted.owner))
    conditions.add("at >= %(since)s", since=_at(wanted.since))
    conditions.add("at < %(until)s", until=_at(wanted.until))
    conditions.add("slot_at < %(slots_until)s", slots_until=_at(wanted.slots_until))
    conditions.add("type = ANY(%(types)s)", types=_any(wanted.types))
    return conditions


def _at(instant: int | None) -> At | None:
    return None if instant is None else At(instant)


def _any(fields: Collection[str]) -> Texts | None:
    return Texts(sorted(fields)) if fields else None


def _breakers(connection: Connection[Any]) -> Breakers:
    rows = [Breaker._make(row) for row in _fetch(connection, _ALL_BREAKERS)]
    return Breakers(rows, [Transition._make(row) for row in _fetch(connection, _LATEST_TRANSITIONS)])


def _fetch(connection: Connection[Any], query: str, values: Values = ()) -> list[Any]:
    return connection.cursor(binary=True).execute(query.encode(), values).fetchall()


def _recorded(rows: Iterable[Sequence[Any]]) -> list[Recorded]:
    return [_event(*row) for row in rows]


def _event(number: int, *columns: Any) -> Recorded:
    *plain, detail, trace_id = columns
    fields = NOTHING if detail == "{}" else json.loads(detail)
    return Recorded(number, Event._make((*plain, fields, trace_id)))
