"""The catalogue port on SQLite: schedules, their revisions, quiet-hours policies, the system switch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from everwhen.decide.breaker import reset
from everwhen.decide.status import leave_system_span
from everwhen.errors import DuplicateScheduleError, PolicyInUseError, UnknownScheduleError
from everwhen.model.decision import Decision
from everwhen.model.events import Event
from everwhen.model.retention import Cutoffs
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State
from everwhen.model.shared import Shared
from everwhen.model.words import policy_of, policy_words, words_of
from everwhen.ports.catalogue import Change, NewSchedule, ScheduleFilter
from everwhen.stores import statements as sql
from everwhen.stores.plans import PlanCache
from everwhen.stores.sqlite import SqliteSlots, load_breakers, load_shared, outstanding_jobs, system_paused_at
from everwhen.stores.sqlite_commit import commit_decisions, write_events, write_shared
from everwhen.stores.sqlite_database import Lane, SqliteDatabase
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest

_COLD = (
    "name",
    '"group"',
    "command",
    "source",
    "type",
    "spec",
    "timezone",
    "catch_up_policy",
    "quiet_hours_policy_id",
    "payload",
    "created_at",
    "updated_at",
)
_INSERT = f"""INSERT INTO schedules ({", ".join(State._fields[1:])}, {", ".join(_COLD)})
    VALUES ({", ".join("?" * (len(State._fields) - 1 + len(_COLD)))})"""
_INSERT_REVISION = """INSERT INTO schedule_revisions (uid, revision, schedule_id, in_force_at, anchor_at, words)
    VALUES (?, ?, ?, ?, ?, ?)"""
_UPDATE_COLD = f"""UPDATE schedules SET {", ".join(f"{name} = ?" for name in _COLD if name != "created_at")}
    WHERE row_id = ?"""
# Row ids grow with time, so the oldest rows are at the front of each table.
_PRUNE_JOBS = """DELETE FROM jobs WHERE row_id IN (
    SELECT row_id FROM jobs WHERE ended_at < :before AND released_at IS NOT NULL ORDER BY row_id LIMIT :limit)"""
_PRUNE_AUDIT = """DELETE FROM audit_events WHERE id IN (
    SELECT id FROM audit_events WHERE at < :before AND type NOT IN ('schedule.created', 'schedule.updated',
        'schedule.paused', 'schedule.resumed', 'schedule.revived', 'schedule.invalidated', 'schedule.restored')
    ORDER BY id LIMIT :limit)"""
_PRUNE_TRANSITIONS = """DELETE FROM circuit_breaker_transitions WHERE id IN (
    SELECT id FROM circuit_breaker_transitions WHERE at < :before ORDER BY id LIMIT :limit)"""
_PRUNE_OUTPUT = """DELETE FROM job_output WHERE (job_id, attempt, stream, position) IN (
    SELECT job_id, attempt, stream, position FROM job_output WHERE at < :before LIMIT :limit)"""
# idx_schedules_release: a deferred slot has its opening there, and no key.
_DEFERRED = f"""SELECT {sql.STATE} FROM schedules
    WHERE release_at IS NOT NULL AND held_key IS NULL AND quiet_hours_policy_id = ?"""

_SET_RELEASE = "UPDATE schedules SET release_at = ? WHERE row_id = ?"

_REACHED = f"SELECT {sql.STATE} FROM schedules WHERE enabled AND next_slot_at <= ? ORDER BY row_id"
_PORTION = 1_000


class SqliteCatalogue:
    """What is declared, on one SQLite file."""

    def __init__(self, database: SqliteDatabase, plans: PlanCache, slots: SqliteSlots) -> None:
        self._database = database
        self._plans = plans
        self._slots = slots

    def create(self, now: int, schedules: Sequence[NewSchedule]) -> list[State]:
        return self._database.write(Lane.API, lambda c: self._create(c, now, schedules))

    def _create(
        self, connection: sqlite3.Connection, now: int, schedules: Sequence[NewSchedule]
    ) -> list[State]:
        rows = [(*new.creation.state[1:], *_cold(new.plan.definition, new.source, now)) for new in schedules]
        revisions = [_revision(new.creation.state, new.plan, now) for new in schedules]
        connection.execute("SAVEPOINT creation")
        try:
            connection.executemany(_INSERT, rows)
            connection.executemany(_INSERT_REVISION, revisions)
        except sqlite3.IntegrityError as error:
            connection.execute("ROLLBACK TO creation")  # or those before it would be taken for the ones there
            raise DuplicateScheduleError(_existing(connection, schedules)) from error
        connection.execute("RELEASE creation")
        write_events(connection, [event for new in schedules for event in new.creation.events])
        return [new.creation.state for new in schedules]

    def change(self, now: int, schedule_id: str, decide: Change) -> State:
        return self._database.write(Lane.API, lambda c: self._change(c, now, schedule_id, decide).after)

    def _change(self, connection: sqlite3.Connection, now: int, schedule_id: str, decide: Change) -> Decision:
        schedule = self._load(connection, schedule_id)
        if schedule is None:
            raise UnknownScheduleError(schedule_id)
        shared = load_shared(connection, [schedule], schedule.outstanding)
        decision = decide(schedule, now, shared)
        commit_decisions(connection, [decision], shared, now)
        if decision.after.revision != decision.before.revision:
            connection.execute(_INSERT_REVISION, _revision(decision.after, decision.plan, now))
            cold = _cold(decision.plan.definition, _source(connection, decision.after.row_id), now)
            connection.execute(_UPDATE_COLD, (*cold[:-2], cold[-1], decision.after.row_id))
        return decision

    def delete(self, now: int, schedule_id: str, decide: Change) -> None:
        def remove(connection: sqlite3.Connection) -> None:
            decision = self._change(connection, now, schedule_id, decide)
            connection.execute("DELETE FROM schedules WHERE row_id = ?", (decision.after.row_id,))

        self._database.write(Lane.API, remove)

    def get(self, schedule_id: str) -> Schedule | None:
        with self._database.read() as connection:
            return self._load(connection, schedule_id)

    def _load(self, connection: sqlite3.Connection, schedule_id: str) -> Schedule | None:
        query = f"""SELECT {sql.STATE} FROM schedules WHERE schedule_id = :id OR uid = :id
            ORDER BY schedule_id = :id DESC"""
        row = connection.execute(query, {"id": schedule_id}).fetchone()
        if row is None:
            return None
        (schedule,) = self._slots.schedules_of(connection, [State._make(row)])
        return Schedule(schedule.state, schedule.plan, outstanding_jobs(connection, schedule.state.uid))

    def of_source(self, source: str) -> list[Schedule]:
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {sql.STATE} FROM schedules WHERE source = ?", (source,)
            ).fetchall()
            return self._slots.schedules_of(connection, [State._make(row) for row in rows])

    def due_to_resume(self, now: int) -> list[str]:
        # idx_schedules_resume
        query = "SELECT schedule_id FROM schedules WHERE resume_at IS NOT NULL AND resume_at <= ? AND status = 'paused'"
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(query, (now,)).fetchall()]

    def shared_of(self, schedule: Schedule) -> Shared:
        with self._database.read() as connection:
            return load_shared(connection, [schedule])

    def states(self, wanted: ScheduleFilter, *, limit: int, after: str | None = None) -> list[State]:
        values = {"status": wanted.status, "group": wanted.group, "owner": wanted.owner, "type": wanted.type}
        given = [f'"{name}" = :{name}' for name, value in values.items() if value is not None]
        where = " AND ".join([*given, "schedule_id > :after"])
        # The unique key on schedule_id, walked in order.
        query = f"SELECT {sql.STATE} FROM schedules WHERE {where} ORDER BY schedule_id LIMIT :limit"
        with self._database.read() as connection:
            rows = connection.execute(query, {**values, "after": after or "", "limit": limit}).fetchall()
        return [State._make(row) for row in rows]

    def reset_breaker(self, now: int, key: str) -> bool:
        def close(connection: sqlite3.Connection) -> bool:
            shared = Shared(breakers=load_breakers(connection, [key]))
            was_open = reset(shared, key, now)
            write_shared(connection, shared, now)
            if was_open:
                write_events(connection, [Event("breaker.reset", now, detail={"key": key})])
            return was_open

        return self._database.write(Lane.API, close)

    def policies(self) -> list[QuietHoursPolicy]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT policy_id, words FROM quiet_hours_policies ORDER BY policy_id"
            ).fetchall()
        return [policy_of(policy_id, json.loads(words)) for policy_id, words in rows]

    def delete_policy(self, policy_id: str) -> None:
        def remove(connection: sqlite3.Connection) -> None:
            (users,) = connection.execute(
                "SELECT count(*) FROM schedules WHERE quiet_hours_policy_id = ?", (policy_id,)
            ).fetchone()
            if users:
                raise PolicyInUseError(policy_id, users)
            connection.execute("DELETE FROM quiet_hours_policies WHERE policy_id = ?", (policy_id,))
            _touch_policies(connection)

        self._database.write(Lane.API, remove)

    def prune(self, cutoffs: Cutoffs, *, limit: int) -> int:
        def delete(connection: sqlite3.Connection) -> int:
            deleted = sum(
                connection.execute(statement, {"before": before, "limit": limit}).rowcount
                for statement, before in (
                    (_PRUNE_OUTPUT, cutoffs.output),
                    (_PRUNE_JOBS, cutoffs.jobs),
                    (_PRUNE_AUDIT, cutoffs.audit),
                    (_PRUNE_TRANSITIONS, cutoffs.breaker_transitions),
                )
            )
            if deleted:  # the checker has to know from when on the record is whole
                _put_setting(connection, "retained_from", str(max(cutoffs.jobs, cutoffs.audit)))
            return deleted

        return self._database.write(Lane.RETENTION, delete)

    def put_policy(self, now: int, policy: QuietHoursPolicy) -> None:
        def put(connection: sqlite3.Connection) -> None:
            connection.execute(
                """INSERT INTO quiet_hours_policies (policy_id, name, words, created_at, updated_at)
                VALUES (:id, :name, :words, :now, :now)
                ON CONFLICT (policy_id) DO UPDATE SET name = :name, words = :words, updated_at = :now""",
                {
                    "id": policy.policy_id,
                    "name": policy.name,
                    "words": json.dumps(policy_words(policy)),
                    "now": now,
                },
            )
            self._move_openings(connection, policy, now)
            _touch_policies(connection)

        self._database.write(Lane.API, put)

    def _move_openings(self, connection: sqlite3.Connection, policy: QuietHoursPolicy, now: int) -> None:
        """Slots that wait for an opening wait for the new one; what is no longer deferred is decided now (E5)."""
        states = [State._make(row) for row in connection.execute(_DEFERRED, (policy.policy_id,))]
        for schedule in self._slots.schedules_of(connection, states):
            state = schedule.state
            # Made here and not cached: the cache must not know a policy before its commit.
            plan = Plan(state.schedule_id, schedule.definition, policy)
            opening = (
                plan.calendar(state.anchor_at).opening_from(now) if state.held_reason in plan.defers else None
            )
            connection.execute(_SET_RELEASE, (now if opening is None else opening, state.row_id))

    def set_system_paused(self, now: int, is_paused: bool, actor: str | None = None) -> None:
        def switch(connection: sqlite3.Connection) -> None:
            paused_at = system_paused_at(connection)
            if is_paused == (paused_at is not None):
                return
            if paused_at is not None:
                self._leave_system_span(connection, paused_at, now)
            _put_setting(connection, "system_paused", str(now) if is_paused else "")
            event = Event("system.paused" if is_paused else "system.resumed", now, actor=actor)
            write_events(connection, [event])

        self._database.write(Lane.API, switch)

    def _leave_system_span(self, connection: sqlite3.Connection, paused_at: int, now: int) -> None:
        """Every schedule with a slot in the span moves on to its next; one transaction, or a tick might fire it."""
        # A pass over schedules: rare, and by slot_at, which no index knows (jitter sets next_run_at apart).
        rows = connection.execute(_REACHED, (now,)).fetchall()
        for start in range(0, len(rows), _PORTION):
            states = [State._make(row) for row in rows[start : start + _PORTION]]
            schedules = self._slots.schedules_of(connection, states)
            shared = Shared()
            decisions = [leave_system_span(schedule, paused_at, now, shared) for schedule in schedules]
            commit_decisions(connection, decisions, shared, now)


def _cold(definition: Definition, source: str, now: int) -> tuple[object, ...]:
    return (
        definition.name,
        definition.group,
        definition.command,
        source,
        definition.type,
        _spec(definition),
        definition.zone.name,
        definition.catch_up_policy,
        definition.quiet_hours_id,
        definition.payload,
        now,
        now,
    )


def _spec(definition: Definition) -> str:
    match definition.trigger:
        case Every() | EveryMonth():
            return definition.trigger.text
        case Cron():
            return definition.trigger.expression.text
        case Once():
            return definition.trigger.text
        case OnRequest():
            return definition.trigger.kind


def _revision(state: State, plan: Plan, now: int) -> tuple[object, ...]:
    words = json.dumps(words_of(plan.definition), separators=(",", ":"))
    return (state.uid, state.revision, state.schedule_id, now, state.anchor_at, words)


def _existing(connection: sqlite3.Connection, schedules: Sequence[NewSchedule]) -> str:
    seen: set[str] = set()
    for new in schedules:
        schedule_id = new.creation.state.schedule_id
        row = connection.execute("SELECT 1 FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone()
        if row is not None or schedule_id in seen:
            return schedule_id
        seen.add(schedule_id)
    uids = [new.creation.state.uid for new in schedules]
    return next((uid for n, uid in enumerate(uids) if uid in uids[:n] or _was_used(connection, uid)), uids[0])


def _was_used(connection: sqlite3.Connection, uid: str) -> bool:
    row = connection.execute("SELECT 1 FROM schedule_revisions WHERE uid = ?", (uid,)).fetchone()
    return row is not None


def _source(connection: sqlite3.Connection, row_id: int) -> str:
    source: str = connection.execute("SELECT source FROM schedules WHERE row_id = ?", (row_id,)).fetchone()[0]
    return source


def _touch_policies(connection: sqlite3.Connection) -> None:
    row = connection.execute("SELECT value FROM settings WHERE key = 'policies_version'").fetchone()
    _put_setting(connection, "policies_version", str(int(row[0]) + 1 if row else 1))


def _put_setting(connection: sqlite3.Connection, key: str, value: str) -> None:
    connection.execute(
        """INSERT INTO settings (key, value) VALUES (?, ?)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value""",
        (key, value),
    )
