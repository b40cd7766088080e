"""The ledger on SQLite: reads of the past, on read connections, concurrently with the writer.

A history is read in one snapshot, uid by uid; the jobs of all come from one cursor in that order. So a check of
everything needs one pass over them, and the memory for one schedule. The snapshot lasts as long as its block, and the
log cannot be emptied meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.events import NOTHING, Event
from everwhen.model.history import Breakers, History, Recorded, Revision, ScheduleHistory
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.output import OutputPiece, OutputStream
from everwhen.model.queries import Counts, EventFilter, JobFilter, JobPage, SpanCount
from everwhen.model.schedule import State
from everwhen.model.shared import FOR_EVER
from everwhen.stores import sqlite_statements as sql
from everwhen.stores.histories import merge_histories
from everwhen.stores.job_pages import COUNTED, MOST_UIDS, Rows, Way, page_of, way_of
from everwhen.stores.plans import RecordedPlans
from everwhen.stores.sqlite_database import SqliteDatabase
from everwhen.stores.sqlite_snapshot import SqliteSnapshot

_EVENT = ", ".join(Event._fields)

# A prefix of the unique key on job_id, `sched-{uid}-n…`: this query has no index of its own.
_JOBS_OF_UID = "job_id >= 'sched-' || :uid || '-n' AND job_id < 'sched-' || :uid || '-o' AND uid = :uid"

# idx_audit_schedule: the order of uids. Every schedule has jobs or events; one without a row was deleted.
_UIDS = """
SELECT DISTINCT uid FROM audit_events WHERE uid IS NOT NULL UNION SELECT uid FROM schedules ORDER BY uid"""
# The primary key of schedule_revisions.
_REVISIONS = """
SELECT revision, schedule_id, in_force_at, cause FROM schedule_revisions WHERE uid = ? ORDER BY revision"""
# idx_audit_schedule finds them; sorted in memory, those of one uid.
_EVENTS_OF_UID = f"SELECT id, {_EVENT} FROM audit_events WHERE uid = :uid ORDER BY id"
# One pass over the table, sorted by SQLite on disk where it is large.
_ALL_JOBS = f"SELECT {sql.JOB} FROM jobs ORDER BY uid, row_id"
_JOBS_OF = f"SELECT {sql.JOB} FROM jobs WHERE {_JOBS_OF_UID} ORDER BY row_id"
# The unique key on uid.
_STATE_OF = f"SELECT {sql.STATE} FROM schedules WHERE uid = ?"
# idx_audit_schedule: events of no schedule are its first.
_SYSTEM_EVENTS = f"""
SELECT id, {_EVENT} FROM audit_events WHERE uid IS NULL
    AND type IN ('system.paused', 'system.resumed', 'system.restored', 'scheduler.clock_stepped') ORDER BY id"""
_RETAINED_FROM = "SELECT value FROM settings WHERE key = 'retained_from'"
_LIMITS = f"SELECT {', '.join(Limit._fields)} FROM limits"

# A pass over all revisions: run for single requests of people.
_UID_OF = """
SELECT uid FROM schedule_revisions WHERE schedule_id = :id OR uid = :id
ORDER BY in_force_at > :at, abs(in_force_at - :at), uid DESC LIMIT 1"""
# The unique key on job_id.
_JOB = f"SELECT {sql.JOB} FROM jobs WHERE job_id = ?"
# The primary key of jobs, one step from either end.
_JOB_ROWS = """
SELECT coalesce((SELECT min(row_id) FROM jobs), 0), coalesce((SELECT max(row_id) FROM jobs), 0)"""
# The uid's range in the unique key on job_id, for each of many.
_JOBS_OF_UIDS = """
json_each(:uids) AS those CROSS JOIN jobs ON job_id >= 'sched-' || those.value || '-n'
    AND job_id < 'sched-' || those.value || '-o' AND uid = those.value"""
# idx_jobs_slot, idx_jobs_backfill, idx_jobs_beside: each origin is in one of them.
_IN_SPAN = [
    f"slot_at >= :since AND slot_at < :until AND {condition}"
    for condition in (
        "origin IN ('schedule', 'catch_up')",
        "origin = 'backfill'",
        "origin IN ('retry', 'manual', 'webhook', 'chat')",
    )
]
_OWNED = "(:owner IS NULL OR uid IN (SELECT uid FROM schedules WHERE owner = :owner))"
_JOBS_BETWEEN = [
    f"SELECT {sql.JOB} FROM jobs WHERE {span} AND {_OWNED} ORDER BY slot_at LIMIT :limit" for span in _IN_SPAN
]
_JOB_SPANS = [
    f"SELECT (slot_at - :since) / :width, status, count(*) FROM jobs WHERE {span} AND {_OWNED} GROUP BY 1, 2"
    for span in _IN_SPAN
]
# The primary key of audit_events.
_EVENTS_AFTER = f"SELECT id, {_EVENT} FROM audit_events WHERE id > ? ORDER BY id LIMIT ?"
_LAST_EVENT = "SELECT coalesce(max(id), 0) FROM audit_events"
# idx_audit_schedule, up to the slot: a range event is stored at its first slot and contains its last.
_EVENTS_OF_SLOT = f"""
SELECT id, {_EVENT} FROM audit_events WHERE uid = :uid AND slot_at <= :slot_at
    AND (slot_at = :slot_at OR (slot_count > 1 AND json_extract(detail, '$.first') <= :slot_at
        AND json_extract(detail, '$.last') >= :slot_at)) ORDER BY id"""
# caught_up is stored at its last slot, so the search covers later slots.
_CAUGHT_UP_AROUND = f"""
SELECT id, {_EVENT} FROM audit_events WHERE uid = :uid AND slot_at > :slot_at AND type = 'schedule.caught_up'
    AND json_extract(detail, '$.first') <= :slot_at ORDER BY id"""
# The primary key of circuit_breakers.
_BREAKER = f"SELECT {', '.join(Breaker._fields)} FROM circuit_breakers WHERE key = ?"
_BREAKERS = f"SELECT {', '.join(Breaker._fields)} FROM circuit_breakers"
# idx_transitions_key: one step for each key.
_LATEST_TRANSITIONS = f"""
SELECT {", ".join(Transition._fields)} FROM circuit_breaker_transitions
WHERE id IN (SELECT max(id) FROM circuit_breaker_transitions GROUP BY key)"""
# idx_transitions_key
_TRANSITIONS = f"""
SELECT {", ".join(Transition._fields)} FROM circuit_breaker_transitions WHERE key = ? ORDER BY id DESC LIMIT ?"""
# A pass over schedules; idx_jobs_outstanding. idx_schedules_held and idx_schedules_release have the held slots, but
# the pass is needed anyway.
_SCHEDULE_COUNTS = "SELECT status, count(*), count(held_slot_at) FROM schedules GROUP BY status"
_JOB_COUNTS = "SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status"
# nodes, whole: the last heartbeat of a process of the release before on_exhausted, or when its migration was applied.
_RULED_FROM = """
SELECT max(coalesce((SELECT max(heartbeat_at) FROM nodes WHERE migration IS NULL), 0), applied_at)
FROM everwhen_migrations WHERE number = 2 AND step = 'before'"""


class SqliteLedger:
    """Queries about the past, on one SQLite file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    # -- histories --

    @contextmanager
    def history(self, uids: Sequence[str] | None = None) -> Iterator[History]:
        with self._database.read() as connection:
            system = _recorded(connection.execute(_SYSTEM_EVENTS))
            limits = None if uids is not None else [Limit._make(row) for row in connection.execute(_LIMITS)]
            plans = RecordedPlans(SqliteSnapshot(connection))
            histories = (
                self._all_histories(connection, plans)
                if uids is None
                else self._histories(connection, plans, uids)
            )
            breakers = None if uids is not None else _breakers(connection)
            retained = connection.execute(_RETAINED_FROM).fetchone()
            ruled_from = connection.execute(_RULED_FROM).fetchone()[0]
            retained_from = int(retained[0]) if retained else 0
            yield History(histories, system, limits, retained_from, breakers, ruled_from=ruled_from)

    def _all_histories(
        self, connection: sqlite3.Connection, plans: RecordedPlans
    ) -> Iterator[ScheduleHistory]:
        uids = [row[0] for row in connection.execute(_UIDS)]
        jobs = map(Job._make, connection.execute(_ALL_JOBS))
        yield from merge_histories(
            uids, jobs, lambda uid, found: self._history(connection, plans, uid, found)
        )

    def _histories(
        self, connection: sqlite3.Connection, plans: RecordedPlans, uids: Sequence[str]
    ) -> Iterator[ScheduleHistory]:
        for uid in uids:
            yield self._history(
                connection, plans, uid, map(Job._make, connection.execute(_JOBS_OF, {"uid": uid}))
            )

    def _history(
        self, connection: sqlite3.Connection, plans: RecordedPlans, uid: str, jobs: Iterable[Job]
    ) -> ScheduleHistory:
        rows = connection.execute(_REVISIONS, (uid,)).fetchall()
        known = plans.load([(uid, row[0]) for row in rows])
        row = connection.execute(_STATE_OF, (uid,)).fetchone()
        return ScheduleHistory(
            uid=uid,
            schedule_id=rows[0][1] if rows else uid,
            revisions=[Revision(number, at, known[uid, number], cause) for number, _, at, cause in rows],
            events=_recorded(connection.execute(_EVENTS_OF_UID, {"uid": uid})),
            jobs=jobs,
            state=None if row is None else State._make(row),
        )

    # -- jobs --

    def uid_of(self, schedule_id: str, at: int = FOR_EVER) -> str | None:
        with self._database.read() as connection:
            row = connection.execute(_UID_OF, {"id": schedule_id, "at": at}).fetchone()
            return None if row is None else str(row[0])

    def job(self, job_id: str) -> Job | None:
        with self._database.read() as connection:
            row = connection.execute(_JOB, (job_id,)).fetchone()
        return None if row is None else Job._make(row)

    def output(self, job_id: str) -> list[OutputPiece]:
        with self._database.read() as connection:
            rows = connection.execute(sql.OUTPUT, (job_id,)).fetchall()
        return [OutputPiece(OutputStream(job_id, row[0], row[1]), row[2], row[3]) for row in rows]

    def jobs(self, wanted: JobFilter, *, limit: int, before: int | None = None) -> list[Job]:
        # By uid: the prefix of job_id, sorted in memory. Otherwise the primary key, backwards.
        conditions = _job_conditions(wanted)
        conditions.add(_JOBS_OF_UID, uid=wanted.uid)
        conditions.add("row_id < :before", before=before)
        query = f"SELECT {sql.JOB} FROM jobs {conditions} ORDER BY row_id DESC LIMIT :limit"
        with self._database.read() as connection:
            return [
                Job._make(row) for row in connection.execute(query, {**conditions.values, "limit": limit})
            ]

    def job_page(
        self, wanted: JobFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> JobPage:
        # By schedules: the prefixes of job_id, sorted in memory. By status: idx_jobs_outstanding and
        # idx_jobs_unsuccessful. Otherwise the primary key, backwards and bounded.
        with self._database.read() as connection:
            rows = Rows._make(connection.execute(_JOB_ROWS).fetchone())
            way = way_of(wanted, _schedules_asked_for(connection, wanted))
            table, conditions = _way_there(wanted, way)
            count = _counted(connection, table, conditions, way.floor(rows, None))
            conditions.add("row_id < :before", before=before)
            floor = way.floor(rows, before)
            conditions.add("row_id >= :floor", floor=floor or None)
            query = f"""SELECT {sql.JOB} FROM {table} {conditions} ORDER BY row_id DESC LIMIT :limit OFFSET :offset"""
            values = {**conditions.values, "limit": limit, "offset": offset}
            jobs = [Job._make(row) for row in connection.execute(query, values)]
        return page_of(
            jobs, count, limit=limit, floor=floor, rows=rows, way=way, is_all=wanted == JobFilter()
        )

    def jobs_between(self, since: int, until: int, *, owner: str | None, limit: int) -> list[Job]:
        values = {"since": since, "until": until, "owner": owner, "limit": limit}
        with self._database.read() as connection:
            rows = [row for query in _JOBS_BETWEEN for row in connection.execute(query, values)]
        return sorted(map(Job._make, rows), key=lambda job: (job.slot_at, job.row_id))[:limit]

    def job_counts(self, since: int, until: int, *, owner: str | None, width: int) -> list[SpanCount]:
        values = {"since": since, "until": until, "owner": owner, "width": width}
        with self._database.read() as connection:
            return [SpanCount._make(row) for query in _JOB_SPANS for row in connection.execute(query, values)]

    # -- events --

    def events(self, wanted: EventFilter, *, limit: int, before: int | None = None) -> list[Recorded]:
        # By uid: idx_audit_schedule, sorted in memory; by owner idx_audit_owner. Otherwise the primary key, backwards.
        conditions = _events_wanted(wanted)
        conditions.add("id < :before", before=before)
        query = f"SELECT id, {_EVENT} FROM audit_events {conditions} ORDER BY id DESC LIMIT :limit"
        with self._database.read() as connection:
            return _recorded(connection.execute(query, {**conditions.values, "limit": limit}))

    def count_events(self, wanted: EventFilter, *, most: int) -> int:
        conditions = _events_wanted(wanted)
        query = f"SELECT count(*) FROM (SELECT 1 FROM audit_events {conditions} LIMIT :most)"
        with self._database.read() as connection:
            return int(connection.execute(query, {**conditions.values, "most": most}).fetchone()[0])

    def events_after(self, event_id: int, *, limit: int) -> list[Recorded]:
        with self._database.read() as connection:
            return _recorded(connection.execute(_EVENTS_AFTER, (event_id, limit)))

    def last_event_id(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute(_LAST_EVENT).fetchone()[0])

    def events_of_slot(self, uid: str, slot_at: int) -> list[Recorded]:
        values = {"uid": uid, "slot_at": slot_at}
        with self._database.read() as connection:
            found = _recorded(connection.execute(_EVENTS_OF_SLOT, values))
            found += _recorded(connection.execute(_CAUGHT_UP_AROUND, values))
        return sorted(found, key=lambda recorded: recorded.id)

    # -- breakers and counts --

    def breaker(self, key: str) -> Breaker:
        with self._database.read() as connection:
            row = connection.execute(_BREAKER, (key,)).fetchone()
        return Breaker(key) if row is None else Breaker._make(row)

    def breakers(self) -> list[Breaker]:
        with self._database.read() as connection:
            return [Breaker._make(row) for row in connection.execute(f"{_BREAKERS} ORDER BY key")]

    def transitions(self, key: str, *, limit: int) -> list[Transition]:
        with self._database.read() as connection:
            return [Transition._make(row) for row in connection.execute(_TRANSITIONS, (key, limit))]

    def counts(self) -> Counts:
        with self._database.read() as connection:
            schedules = connection.execute(_SCHEDULE_COUNTS).fetchall()
            jobs = connection.execute(_JOB_COUNTS).fetchall()
        return Counts(
            schedules={status: count for status, count, _ in schedules},
            jobs=dict(jobs),
            held=sum(held for _, _, held in schedules),
        )


def _breakers(connection: sqlite3.Connection) -> Breakers:
    rows = [Breaker._make(row) for row in connection.execute(_BREAKERS)]
    return Breakers(rows, [Transition._make(row) for row in connection.execute(_LATEST_TRANSITIONS)])


class _Conditions:
    """The WHERE clause of a list, with only the conditions that were requested."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.values: dict[str, object] = {}

    def add(self, text: str, **value: object) -> None:
        if any(one is not None for one in value.values()):
            self._texts.append(text)
            self.values |= value

    def add_any(self, column: str, fields: Collection[str]) -> None:
        if fields:
            names = {f"{column}_{number}": word for number, word in enumerate(fields)}
            self._texts.append(f"{column} IN ({', '.join(f':{name}' for name in names)})")
            self.values |= names

    def say(self, text: str) -> None:
        """Add a condition without a value."""
        self._texts.append(text)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._texts)}" if self._texts else ""


def _job_conditions(wanted: JobFilter) -> _Conditions:
    """Return the conditions on the jobs themselves, without those on their schedules."""
    conditions = _Conditions()
    conditions.add("slot_at = :slot_at", slot_at=wanted.slot_at)
    conditions.add("slot_at >= :since", since=wanted.since)
    conditions.add("slot_at < :until", until=wanted.until)
    conditions.add("created_at >= :enqueued_since", enqueued_since=wanted.enqueued_since)
    conditions.add("created_at < :enqueued_until", enqueued_until=wanted.enqueued_until)
    conditions.add_any("status", wanted.statuses)
    conditions.add_any("origin", wanted.origins)
    return conditions


def _schedules_asked_for(connection: sqlite3.Connection, wanted: JobFilter) -> list[tuple[str, int]] | None:
    """Return the uids whose jobs are wanted, with how often each fired; None: any."""
    conditions = _schedule_conditions(wanted)
    if not conditions.values:
        return None
    query = f"SELECT uid, fire_count - numbers_skipped FROM schedules {conditions} LIMIT {MOST_UIDS + 1}"
    found = connection.execute(query, conditions.values).fetchall()
    if found or wanted.uid is None or wanted.owner is not None or wanted.group is not None:
        return found
    return [(wanted.uid, 0)]  # perhaps deleted; its owner and group are no longer known


def _schedule_conditions(wanted: JobFilter) -> _Conditions:
    conditions = _Conditions()
    conditions.add("uid = :uid", uid=wanted.uid)
    conditions.add("owner = :owner", owner=wanted.owner)
    conditions.add('"group" = :group', group=wanted.group)
    return conditions


def _way_there(wanted: JobFilter, way: Way) -> tuple[str, _Conditions]:
    conditions = _job_conditions(wanted)
    if way.uids is not None:
        conditions.values["uids"] = json.dumps(way.uids)
        return _JOBS_OF_UIDS, conditions
    schedules = _schedule_conditions(wanted)
    if schedules.values:
        conditions.add(f"uid IN (SELECT uid FROM schedules {schedules})", **schedules.values)
    if way.by is None:
        return "jobs", conditions
    conditions.say(way.by.condition)
    return f"jobs INDEXED BY {way.by.name}", conditions  # else SQLite would scan backwards to get the order


def _counted(connection: sqlite3.Connection, table: str, conditions: _Conditions, floor: int) -> int:
    """Return how many there are, counted up to a bound."""
    above = f"{conditions} {'AND' if str(conditions) else 'WHERE'} row_id >= :above"
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} {above} LIMIT {COUNTED + 1})"
    count: int = connection.execute(query, {**conditions.values, "above": floor}).fetchone()[0]
    return count


def _events_wanted(wanted: EventFilter) -> _Conditions:
    conditions = _Conditions()
    conditions.add("uid = :uid", uid=wanted.uid)
    conditions.add("job_id = :job_id", job_id=wanted.job_id)
    conditions.add("owner = :owner", owner=wanted.owner)
    conditions.add("at >= :since", since=wanted.since)
    conditions.add("at < :until", until=wanted.until)
    conditions.add("slot_at < :slots_until", slots_until=wanted.slots_until)
    conditions.add_any("type", wanted.types)
    return conditions


def _recorded(rows: Iterable[tuple[object, ...]]) -> list[Recorded]:
    return [_event(*row) for row in rows]


def _event(number: object, *columns: object) -> Recorded:
    *plain, detail, trace_id = columns
    fields = NOTHING if detail == "{}" else json.loads(str(detail))
    return Recorded(int(str(number)), Event._make((*plain, fields, trace_id)))
