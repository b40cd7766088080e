"""Writes on PostgreSQL, where transactions of many nodes run concurrently.

The order of locks
------------------
Every transaction takes its row locks level by level, and within a level in one order:

1. `limits` by key, 2. `circuit_breakers` by key, 3. `schedules` by uid, 4. `plugin_state` by name,
5. `quiet_hours_policies` by id.

What each operation locks
- A tick peeks at due rows, locks the keys of their definitions, then locks those rows that are still due and that no
  other transaction has locked (SKIP LOCKED): it never waits for a schedule. For a key it waits a tenth of a second;
  then it continues without the schedules that need the key, which stay due. So a node that hangs with a key does not
  block the slots of other schedules.
- A claim peeks at ready jobs, locks their keys, locks their schedules, then reads the jobs that are still ready. What
  became ready since the peek waits for the next claim, and for further keys it waits no longer than a tick does.
- A settlement, a rescue and a change peek at their jobs or schedule, lock the keys, lock the schedules, read again.
- Places that become free release held slots of other schedules. Their rows are locked while the key is locked, which
  is the right order of levels; only within the level of schedules the order may be violated.
- Only the transaction that has locked a schedule's row changes its jobs, so jobs are not locked. Where that row is
  deleted, two transactions may collide: every change of a job names the fence that it read, and a transaction that
  finds another fence was overtaken and decides again.
- A new revision takes a shared lock on the quiet hours that it names; the deletion of a policy locks its row before it
  looks for schedules that use it.
- The system switch takes an advisory lock that ticks and claims share. Before it, the end of a system pause takes
  another one, which every change of schedules on request holds from its BEGIN on: the switch then sees all new rows.

A deadlock is therefore possible in rare cases only: a definition edited between peek and lock, or while its slot was
held for a key, so that another key is needed; a release that meets a settlement of the very schedule that it releases.
PostgreSQL aborts one of the two, and `store.postgres.database` runs that one again from its start: nothing in memory
has changed.

When a node dies, its transaction is rolled back and its locks are released; what it had committed is in the rows.
Whatever happens with locks, the unique keys on (slot_at, uid) prevent a slot from firing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection, errors

from everwhen.model.events import Event
from everwhen.model.limits import Breaker, Limit
from everwhen.store.dialect import Statement
from everwhen.store.lanes import Lane
from everwhen.store.postgres.adapters import At, insert, together
from everwhen.store.postgres.database import Overtaken, PostgresDatabase
from everwhen.store.postgres.snapshot import PostgresSnapshot, ProcessState
from everwhen.store.records import INSERTED, JobLine, Offer, Row
from everwhen.store.schedule_rows import INSERT_REVISION, INSERT_SCHEDULE
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS
from everwhen.store.system_rows import BREAKERS, INSERT_EVENT, LIMITS
from everwhen.store.transaction import Snapshot, Transaction

T = TypeVar("T")

SHORT_WAIT = "100ms"
EVALUATING = 0x6576_0002  # an advisory lock: ticks and claims share it
CHANGING = 0x6576_0003  # an advisory lock: transactions that create or change schedules on request share it

# Rows must exist to be locked.
_MAKE_LIMITS = Statement("""
INSERT INTO limits (key) SELECT key FROM unnest(:keys::texts) AS v(key) ON CONFLICT DO NOTHING""")
_MAKE_BREAKERS = Statement("""
INSERT INTO circuit_breakers (key, state) SELECT key, 'closed' FROM unnest(:keys::texts) AS v(key)
ON CONFLICT DO NOTHING""")
_MAKE_PLUGIN_STATES = Statement("""
INSERT INTO plugin_state (plugin, updated_at) SELECT plugin, :now::instant FROM unnest(:plugins::texts) AS v(plugin)
ON CONFLICT DO NOTHING""")
# The primary keys of limits and circuit_breakers.
PUT_LIMITS = Statement(f"""
UPDATE limits l SET {", ".join(f"{name} = v.{name}" for name in Limit._fields if name != "key")}
FROM batch AS v({", ".join(Limit._fields)}) WHERE l.key = v.key""")
_PUT_BREAKERS = Statement(f"""
UPDATE circuit_breakers b SET {", ".join(f"{name} = v.{name}" for name in Breaker._fields if name != "key")}
FROM batch AS v({", ".join(Breaker._fields)}) WHERE b.key = v.key""")
# idx_jobs_outstanding: the next in line. The claim checks whether another job of the schedule is still running.
_READY_SUCCESSORS = Statement("""
UPDATE jobs j SET is_ready = true, ready_at = :now::instant
FROM unnest(:uids::texts) AS queue(uid)
CROSS JOIN LATERAL (
    SELECT row_id FROM jobs WHERE uid = queue.uid AND status = 'queued' AND ready_at IS NULL AND line = 'own'
    ORDER BY slot_at, row_id LIMIT 1) AS successor
WHERE j.row_id = successor.row_id""")
# idx_jobs_outstanding, idx_jobs_unreleased: the next of another line, when no job of that line is ready or running.
_READY_OTHER_LINES = Statement("""
UPDATE jobs j SET is_ready = true, ready_at = greatest(:now::instant, coalesce(not_before, :now::instant))
FROM batch AS queue(uid, line)
CROSS JOIN LATERAL (
    SELECT row_id FROM jobs WHERE uid = queue.uid AND status = 'queued' AND ready_at IS NULL
        AND line = queue.line ORDER BY slot_at, row_id LIMIT 1) AS successor
WHERE j.row_id = successor.row_id
    AND NOT EXISTS (
        SELECT 1 FROM jobs o WHERE o.uid = queue.uid AND o.status IN ('queued', 'running')
            AND o.line = queue.line AND (o.status = 'running' OR o.ready_at IS NOT NULL))
    AND NOT EXISTS (
        SELECT 1 FROM jobs o WHERE o.node IS NOT NULL AND o.released_at IS NULL
            AND o.uid = queue.uid AND o.line = queue.line)""")
# idx_schedules_held: the oldest first. Slots that were decided meanwhile are not held any more, and are left alone. No
# slot is released before it is due: another node, whose time was ahead, may have held it.
_RELEASE_HELD = Statement("""
UPDATE schedules s SET release_at = greatest(:now::instant, s.held_due_at)
FROM batch AS offer(key, free, due_at, row_id)
CROSS JOIN LATERAL (
    SELECT row_id FROM schedules WHERE held_key = offer.key AND release_at IS NULL
        AND (held_due_at, row_id) > (offer.due_at, offer.row_id)
    ORDER BY held_due_at, row_id LIMIT offer.free) AS oldest
WHERE s.row_id = oldest.row_id AND s.held_key = offer.key AND s.release_at IS NULL""")
# idx_schedules_next_run, one step from the mark: a sleeping node wakes for an earlier slot anyway. With EXISTS the
# generic plan expects every third row to be earlier, and reads the whole table to find none.
ANNOUNCE = Statement("""
SELECT pg_notify('everwhen', :channels::text) WHERE :jobs
    OR coalesce((SELECT next_run_at FROM schedules WHERE enabled AND next_run_at >= :mark::instant
        ORDER BY next_run_at LIMIT 1) >= :soonest::instant, true)""")
# The unique key on token_id.
_LOCK_TOKEN = Statement("SELECT 1 FROM tokens WHERE token_id = :token_id::text FOR UPDATE")
_TIME = Statement("SELECT clock_timestamp()")
# The numbers by which readers follow streams.
_SEQUENCES = (("audit_events", "id"), ("jobs", "row_id"), ("messages", "id"))
_NEXT_RUN = INSERTED.index("next_run_at")
_encode = json.JSONEncoder(ensure_ascii=False, default=dict).encode


class PostgresTransaction(PostgresSnapshot, Transaction):
    """The methods of a transaction on one connection."""

    migration = POSTGRES_MIGRATIONS[-1].number

    def __init__(self, connection: Connection[Any], process: ProcessState | None = None) -> None:
        super().__init__(connection, process)
        self._clock = self._process.clock
        self._soonest: int | None = None
        self._readied = False
        self.own_revisions: set[tuple[str, int]] = set()

    def rows_to_change(self, statement: Statement, **values: Any) -> list[Any]:
        return self.rows(statement.locking, **values)

    def expect(self, count: int, changed: int) -> None:
        if changed != count:
            raise Overtaken

    # -- rows that must exist to be locked --

    def limits(self, keys: Collection[str], *, wait: bool = True) -> dict[str, Limit]:
        lock = self._lock_keys if wait else self._lock_soon
        return {row[0]: Limit._make(row) for row in lock(LIMITS, _MAKE_LIMITS, keys)}

    def breakers(self, keys: Collection[str], *, wait: bool = True) -> dict[str, Breaker]:
        lock = self._lock_keys if wait else self._lock_soon
        return {row[0]: Breaker._make(row) for row in lock(BREAKERS, _MAKE_BREAKERS, keys)}

    def _lock_keys(self, read: Statement, make: Statement, keys: Collection[str]) -> list[Any]:
        rows = self.rows(read.locking, keys=keys)
        if len(rows) < len(keys):
            self.run(make, keys=sorted(set(keys) - {row[0] for row in rows}))
            rows = self.rows(read.locking, keys=keys)
        return rows

    def _lock_soon(self, read: Statement, make: Statement, keys: Collection[str]) -> list[Any]:
        """Wait no longer than a moment for the keys: their holder releases them in milliseconds, or hangs."""
        rows = self.rows(read.skipping, keys=keys)
        if len(rows) == len(keys):
            return rows
        self._cursor.connection.execute(f"SAVEPOINT moment; SET LOCAL lock_timeout = '{SHORT_WAIT}'".encode())
        try:
            rows = self._lock_keys(read, make, keys)
        except errors.LockNotAvailable:
            self._cursor.execute("ROLLBACK TO SAVEPOINT moment")  # this resets the timeout as well
            return self.rows(read.skipping, keys=keys)
        self._cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
        return rows

    def put_limits(self, limits: Sequence[Limit]) -> None:
        self.run(PUT_LIMITS, batch=limits)

    def put_breakers(self, breakers: Sequence[Breaker]) -> None:
        self.run(_PUT_BREAKERS, batch=breakers)

    def plugin_states(self, plugins: Collection[str]) -> dict[str, str]:
        found = super().plugin_states(plugins)
        if len(found) < len(plugins):
            self.run(_MAKE_PLUGIN_STATES, now=0, plugins=sorted(set(plugins) - found.keys()))
            found = super().plugin_states(plugins)
        return found

    def lock_token(self, token_id: str) -> None:
        self.rows(_LOCK_TOKEN, token_id=token_id)

    def config_revision(self, source: str) -> tuple[int, str]:
        # A writing transaction that reads it is about to write the next one: the lock serialises two of them.
        self._cursor.execute("LOCK TABLE config_revisions IN SHARE ROW EXCLUSIVE MODE")
        return super().config_revision(source)

    def expect_long_pauses(self) -> None:
        self._cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', '60s', true)")

    def exclude_evaluations(self) -> None:
        self._cursor.execute(f"SELECT pg_advisory_xact_lock({EVALUATING})".encode())

    def exclude_changes(self) -> None:
        self._cursor.execute(f"SELECT pg_advisory_xact_lock({CHANGING})".encode())

    # -- notifying others --

    def announce_due(self, due_at: int) -> None:
        self._soonest = due_at if self._soonest is None else min(self._soonest, due_at)

    @property
    def is_sooner(self) -> bool:
        return self._soonest is not None

    def announce(self) -> None:
        """Send at most one notification: a job is ready, or the earliest due instant has moved forward."""
        if self._readied or self._soonest is not None:
            channels = " ".join(["jobs"] * self._readied + ["slots"] * (self._soonest is not None))
            mark = self._marks.due.at
            self.rows(ANNOUNCE, channels=channels, jobs=self._readied, soonest=self._soonest, mark=mark)

    def note_ready(self, instants: Iterable[int | None], *, is_new: bool = True) -> None:
        self._readied |= is_new
        self._marks.ready.lower(instants)

    # -- jobs --

    def ready_successors(self, queues: Collection[JobLine], now: int) -> None:
        own = sorted(queue.uid for queue in queues if queue.line == "own")
        other_lines = sorted(queue for queue in queues if queue.line != "own")
        readied = self.run(_READY_SUCCESSORS, now=now, uids=own) if own else 0
        if other_lines:
            readied += self.run(_READY_OTHER_LINES, now=now, batch=other_lines)
        if readied:
            self.note_ready((now,))

    # -- schedules --

    def insert_schedules(
        self, schedules: Sequence[Row], revisions: Sequence[Row], events: Sequence[Event]
    ) -> str | None:
        """Insert all with one statement: the cost of a single create is mostly round trips."""
        parts = [
            insert(INSERT_REVISION.table, INSERT_REVISION.columns, revisions),
            insert(INSERT_SCHEDULE.table, INSERT_SCHEDULE.columns, schedules),
        ]
        if events:
            parts.insert(0, insert(INSERT_EVENT.table, INSERT_EVENT.columns, self.event_rows(events)))
        query, values = together(parts)
        try:
            self._cursor.execute(query.encode(), values)
        except errors.UniqueViolation:
            self._cursor.execute("ROLLBACK AND CHAIN")  # else no query could run
            return self._taken(schedules)
        self.own_revisions.update((uid, number) for uid, number, *_ in revisions)  # type: ignore[misc]
        self._marks.due.lower(row[_NEXT_RUN] for row in schedules)  # type: ignore[misc]
        return None

    def update_states(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        super().update_states(columns, rows)
        if "next_run_at" in columns:
            position = columns.index("next_run_at")
            self._marks.due.lower(row[position] for row in rows)  # type: ignore[misc]

    def release_held(self, offers: Sequence[Offer], now: int) -> None:
        if self.run(_RELEASE_HELD, now=now, batch=offers):
            self.announce_due(now)

    # -- the rest --

    def encode_detail(self, detail: Mapping[str, object]) -> str:
        # jsonb cannot store NUL either, in any notation.
        return _encode(detail).replace("\\u0000", "\ufffd")

    def leap_numbers(self, by: int) -> None:
        self._cursor.execute(
            "UPDATE audit_events SET id = id + %s WHERE id = (SELECT max(id) FROM audit_events)", (by,)
        )
        for table, key in _SEQUENCES:
            last = f"coalesce((SELECT max({key}) FROM {table}), 0)"
            query = f"SELECT setval(pg_get_serial_sequence(%s, %s), {last} + %s)"
            self._cursor.execute(query.encode(), (table, key, by))

    def latest(self, now: int) -> int:
        return max(now, self.value(_TIME)) if self._process.has_time else super().latest(now)

    def skew(self) -> int:
        return self._process.skew()


# The beginning and end of transactions.


# One round trip for both: later reads see what the system switch has committed.
_BEGIN_EVALUATION = f"BEGIN; SELECT pg_advisory_xact_lock_shared({EVALUATING})"
_BEGIN = {Lane.TICK: _BEGIN_EVALUATION, Lane.CLAIM: _BEGIN_EVALUATION}
_BEGIN_CHANGE = f"BEGIN; SELECT pg_advisory_xact_lock_shared({CHANGING})"


# idx_schedules_next_run, idx_schedules_release: one step into each, as for NEXT_DUE.
_EARLIEST_DUE = """
(SELECT next_run_at FROM schedules WHERE enabled AND next_run_at >= %s ORDER BY next_run_at LIMIT 1)
UNION ALL
(SELECT release_at FROM schedules WHERE release_at IS NOT NULL ORDER BY release_at LIMIT 1)"""


class PostgresStore:
    """Transactions on one PostgreSQL database."""

    is_exclusive = False  # the keys of a claim would be locked after the schedules of a settlement

    def __init__(self, database: PostgresDatabase, process: ProcessState | None = None) -> None:
        self._database = database
        self._process = process or ProcessState()
        self._marks, self.plans = self._process.marks, self._process.plans

    def write(self, lane: Lane, work: Callable[[Transaction], T], *, is_change: bool = False) -> T:
        def transact(connection: Connection[Any]) -> T:
            transaction = PostgresTransaction(connection, self._process)
            result = work(transaction)
            transaction.announce()
            return result

        begin = _BEGIN_CHANGE if is_change else _BEGIN.get(lane, "BEGIN")
        return self._database.transact(transact, begin=begin)

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        with self._database.snapshot() as connection:
            yield PostgresSnapshot(connection, self._process)

    @contextmanager
    def look(self) -> Iterator[Snapshot]:
        with self._database.connection() as connection:
            yield PostgresSnapshot(connection, self._process)

    def earliest_due_at(self) -> int | None:
        with self._marks.due.search() as look:
            rows = self._database.ask(_EARLIEST_DUE, At(look.at))
            look.found = min([row[0] for row in rows], default=None)
        return look.found

    def nothing_due_before(self, instant: int) -> None:
        self._marks.due.raise_to(instant)
