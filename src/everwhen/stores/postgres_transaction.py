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
- The system switch takes an advisory lock that ticks and claims share.

A deadlock is therefore possible in rare cases only: a definition edited between peek and lock, so that another key is
needed; a release that meets a settlement of the very schedule that it releases. PostgreSQL aborts one of the two, and
`postgres_database` runs that one again from its start: nothing in memory has changed.

When a node dies, its transaction is rolled back and its locks are released; what it had committed is in the rows.
Whatever happens with locks, the unique keys on (slot_at, uid) prevent a slot from firing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from psycopg import Connection, errors

from everwhen.errors import StoreError
from everwhen.model.breaker import Breaker, Transition
from everwhen.model.claim import ClaimedJob
from everwhen.model.counters import Start
from everwhen.model.delivery import Delivery
from everwhen.model.events import NOTHING, Event
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.outcome import NewMessage, Outcome
from everwhen.model.output import OutputGap, OutputPiece
from everwhen.model.reasons import CancelReason
from everwhen.model.token import ANSWERS_KEPT, TOKEN_COLUMNS, Answer, Session, Token, token_row
from everwhen.ports.clock import Clock
from everwhen.ports.messages import Subscription
from everwhen.stores import postgres_statements as sql
from everwhen.stores.columns import INSERTED, JOB_ENDED, JOB_INSERTED
from everwhen.stores.postgres_adapters import At, Instants, Integers, Texts, columns_of
from everwhen.stores.postgres_batches import Statement, insert, together, update
from everwhen.stores.postgres_database import Overtaken
from everwhen.stores.postgres_snapshot import PostgresSnapshot
from everwhen.stores.postgres_watermark import Marks
from everwhen.stores.storable import storable
from everwhen.stores.transaction import Declined, Finished, Queue, Row

MOMENT = "100ms"
_SKIP = " FOR UPDATE SKIP LOCKED"
EVALUATING = 0x6576_0002  # an advisory lock: ticks and claims share it


class PostgresTransaction(PostgresSnapshot):
    """The methods of a transaction on one connection."""

    _LOCK: ClassVar[str] = " FOR UPDATE"

    def __init__(
        self,
        connection: Connection[Any],
        marks: Marks,
        skew: Callable[[], int] = lambda: 0,
        has_time: bool = False,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(connection, marks)
        self._skew = skew
        self._has_time = has_time
        self._clock = clock
        self._soonest: int | None = None
        self._readied = False
        self.own_revisions: set[tuple[str, int]] = set()

    def _run(self, query: str, *values: object) -> int:
        return self._cursor.execute(query.encode(), values).rowcount

    def _run_batch(self, statement: Statement) -> None:
        query, values = statement
        self._cursor.execute(query.encode(), values)

    def _run_guarded(self, count: int, query: str, *values: object) -> None:
        """Run a statement on rows that must be as they were read; else raise Overtaken, to decide all again."""
        if self._run(query, *values) != count:
            raise Overtaken

    # -- rows that must exist to be locked --

    def limits(self, keys: Collection[str]) -> dict[str, Limit]:
        rows = self._rows(sql.LIMITS + self._LOCK, (Texts(sorted(keys)),))
        if len(rows) < len(keys):
            self._run(sql.MAKE_LIMITS, Texts(sorted(set(keys) - {row[0] for row in rows})))
            rows = self._rows(sql.LIMITS + self._LOCK, (Texts(sorted(keys)),))
        return {row[0]: Limit._make(row) for row in rows}

    def breakers(self, keys: Collection[str]) -> dict[str, Breaker]:
        rows = self._rows(sql.BREAKERS + self._LOCK, (Texts(sorted(keys)),))
        if len(rows) < len(keys):
            self._run(sql.MAKE_BREAKERS, Texts(sorted(set(keys) - {row[0] for row in rows})))
            rows = self._rows(sql.BREAKERS + self._LOCK, (Texts(sorted(keys)),))
        return {row[0]: Breaker._make(row) for row in rows}

    def limits_at_hand(self, keys: Collection[str]) -> dict[str, Limit]:
        rows = self._rows(sql.LIMITS + _SKIP, (Texts(sorted(keys)),))
        if len(rows) < len(keys):
            rows = self._within_a_moment(self.limits, sql.LIMITS, keys)
        return {row[0]: Limit._make(row) for row in rows}

    def breakers_at_hand(self, keys: Collection[str]) -> dict[str, Breaker]:
        rows = self._rows(sql.BREAKERS + _SKIP, (Texts(sorted(keys)),))
        if len(rows) < len(keys):
            rows = self._within_a_moment(self.breakers, sql.BREAKERS, keys)
        return {row[0]: Breaker._make(row) for row in rows}

    def _within_a_moment(
        self, take: Callable[[Collection[str]], Mapping[str, Row]], query: str, keys: Collection[str]
    ) -> list[Any]:
        """Wait a moment for the keys: their holder releases them in milliseconds, or hangs."""
        self._cursor.connection.execute(f"SAVEPOINT moment; SET LOCAL lock_timeout = '{MOMENT}'".encode())
        try:
            found = list(take(keys).values())
        except errors.LockNotAvailable:
            self._run("ROLLBACK TO SAVEPOINT moment")  # this resets the timeout as well
            return self._rows(query + _SKIP, (Texts(sorted(keys)),))
        self._run("SET LOCAL lock_timeout TO DEFAULT")
        return found

    def plugin_states(self, plugins: Collection[str]) -> dict[str, str]:
        found = super().plugin_states(plugins)
        if len(found) < len(plugins):
            self._run(sql.MAKE_PLUGIN_STATES, At(0), Texts(sorted(set(plugins) - found.keys())))
            found = super().plugin_states(plugins)
        return found

    # -- notifying others --

    def announce_due(self, due_at: int) -> None:
        self._soonest = due_at if self._soonest is None else min(self._soonest, due_at)

    @property
    def is_sooner(self) -> bool:
        return self._soonest is not None

    def announce(self) -> None:
        """Send at most one notification: a job is ready, or the earliest due instant has moved forward."""
        if self._readied or self._soonest is not None:
            fields = " ".join(["jobs"] * self._readied + ["slots"] * (self._soonest is not None))
            soonest = None if self._soonest is None else At(self._soonest)
            values = {
                "words": fields,
                "jobs": self._readied,
                "soonest": soonest,
                "mark": At(self._marks.due.at),
            }
            self._rows(sql.ANNOUNCE, values)

    def expect_long_pauses(self) -> None:
        self._rows("SELECT set_config('idle_in_transaction_session_timeout', '60s', true)")

    def exclude_evaluations(self) -> None:
        self._rows(f"SELECT pg_advisory_xact_lock({EVALUATING})")

    # -- jobs --

    def insert_jobs(self, rows: Sequence[Row]) -> None:
        self._insert_jobs(JOB_INSERTED, rows)
        self._ready(row[-1] for row in rows)  # type: ignore[misc]

    def insert_ended_jobs(self, rows: Sequence[Row]) -> None:
        self._insert_jobs(JOB_ENDED, rows)

    def _insert_jobs(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        try:
            self._run_batch(insert("jobs", columns, rows))
        except errors.UniqueViolation as error:
            # Two schedulers cannot cause this: a row was changed manually, or the job does not come from `decide`.
            raise StoreError(
                "a slot, or an id, of this batch has its job already, so nothing of the batch was written; "
                "look for a schedule whose next_slot_at lies before its last_slot_at"
            ) from error

    def _ready(self, instants: Iterable[int | None]) -> None:
        self._readied = True
        self._marks.ready.lower(instants)

    def start_jobs(self, claimed: Sequence[ClaimedJob]) -> None:
        rows = [(j.deadline_at, j.is_probe, j.row_id, j.fence - 1) for j in [c.job for c in claimed]]
        columns = columns_of(("deadline_at", "is_probe", "row_id", "fence"), rows)
        job = claimed[0].job
        assert job.started_at is not None
        self._run_guarded(len(rows), sql.START_JOBS, At(job.started_at), job.node, *columns)

    def postpone_jobs(self, postponed: Sequence[tuple[Job, int]]) -> None:
        until = Instants([until for _, until in postponed])
        self._marks.ready.lower(until for _, until in postponed)
        self._run(sql.POSTPONE_JOBS, until, _row_ids([job for job, _ in postponed]))

    def end_jobs(self, ended: Sequence[tuple[Job | Finished, Outcome]], now: int) -> None:
        rows = [(o.status, o.error, o.result, job.row_id, job.fence) for job, o in ended]
        columns = columns_of(("status", "error", "result", "row_id", "fence"), rows)
        self._run_guarded(len(rows), sql.END_JOBS, At(now), At(now), *columns)

    def cancel_jobs(self, cancelled: Sequence[tuple[Job, CancelReason]], now: int) -> None:
        reasons = Texts([reason for _, reason in cancelled])
        rows = _row_ids([job for job, _ in cancelled])
        self._run_guarded(len(cancelled), sql.CANCEL_JOBS, At(now), At(now), reasons, rows)

    def keep_jobs(self, jobs: Sequence[Job]) -> None:
        self._run(sql.KEEP_JOBS, _row_ids(jobs))

    def let_go_of_jobs(self, jobs: Sequence[Job], now: int) -> None:
        self._run_guarded(len(jobs), sql.RELEASE_JOBS, At(now), _row_ids(jobs))

    def hand_over_jobs(self, jobs: Sequence[tuple[Job, str]]) -> None:
        rows = [(token, job.row_id, job.fence) for job, token in jobs]
        columns = columns_of(("outcome_token", "row_id", "fence"), rows)
        self._run_guarded(len(rows), sql.HAND_OVER_JOBS, *columns)

    def requeue_jobs(self, jobs: Sequence[Job], now: int, *, is_rescue: bool) -> None:
        fences = Integers([job.fence for job in jobs])
        self._run_guarded(len(jobs), sql.REQUEUE_JOBS, At(now), int(is_rescue), _row_ids(jobs), fences)
        self._ready((now,))

    def send_jobs(self, jobs: Sequence[Job], now: int, until: int) -> dict[str, int]:
        fences = Integers([job.fence for job in jobs])
        self._marks.ready.lower((until,))
        numbers = dict(self._rows(sql.SEND_JOBS, (At(now), At(until), _row_ids(jobs), fences)))
        if len(numbers) != len(jobs):
            raise Overtaken
        return numbers

    def close_deliveries(self, jobs: Sequence[Job]) -> None:
        self._run_guarded(len(jobs), sql.CLOSE_DELIVERIES, _row_ids(jobs))

    def call_back(self, jobs: Sequence[Job], now: int) -> None:
        self._run_guarded(len(jobs), sql.CALL_BACK, At(now), _row_ids(jobs))
        self._ready((now,))

    def count_rescues(self, jobs: Sequence[Job]) -> None:
        self._run(sql.COUNT_RESCUES, _row_ids(jobs))

    def leave_deliveries(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        until = Instants([until for _, until in deliveries])
        self._marks.ready.lower(until for _, until in deliveries)
        self._run(sql.LEAVE_DELIVERIES, until, *_messages([delivery for delivery, _ in deliveries]))

    def withdraw_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self._run(sql.WITHDRAW_DELIVERIES, *_messages(deliveries))

    def ready_successors(self, queues: Collection[Queue], now: int) -> None:
        own = sorted(queue.uid for queue in queues if queue.line == "own")
        beside = sorted(queue for queue in queues if queue.line != "own")
        readied = self._run(sql.READY_SUCCESSORS, At(now), Texts(own)) if own else 0
        if beside:
            uids, lines = Texts([queue.uid for queue in beside]), Texts([queue.line for queue in beside])
            values = {"now": At(now), "uids": uids, "lines": lines}
            readied += self._cursor.execute(sql.READY_BESIDE, values).rowcount
        if readied:
            self._ready((now,))

    def let_retries_go(self, breaker_keys: Collection[str], now: int) -> None:
        self._cursor.execute(sql.LET_RETRIES_GO, {"now": At(now), "keys": Texts(sorted(breaker_keys))})
        self._ready((now,))

    # -- schedules --

    def insert_schedules(
        self, schedules: Sequence[Row], revisions: Sequence[Row], events: Sequence[Event]
    ) -> str | None:
        """Insert all with one statement: the cost of a single create is mostly round trips."""
        parts = [insert("schedule_revisions", _REVISION, revisions), insert("schedules", INSERTED, schedules)]
        if events:
            parts.insert(0, _inserted_events(events))
        try:
            self._run_batch(together(parts))
        except errors.UniqueViolation:
            self._run("ROLLBACK AND CHAIN")  # else no query could run
            return self._taken([(str(row[0]), str(row[1])) for row in schedules])
        self.own_revisions.update([row[:2] for row in revisions])  # type: ignore[misc]
        self._marks.due.lower(row[_NEXT_RUN] for row in schedules)  # type: ignore[misc]
        return None

    def _taken(self, new: Sequence[tuple[str, str]]) -> str:
        """Return the first id that exists or occurs twice; if there is none, the first such uid."""
        ids, uids = [schedule_id for _, schedule_id in new], [uid for uid, _ in new]
        query = "SELECT schedule_id FROM schedules WHERE schedule_id = ANY(%s)"
        known = {row[0] for row in self._rows(query, (Texts(ids),))}
        query = "SELECT uid FROM schedule_revisions WHERE uid = ANY(%s)"
        used = {row[0] for row in self._rows(query, (Texts(uids),))}
        return _first_taken(ids, known) or _first_taken(uids, used) or uids[0]

    def insert_revision(self, revision: Row) -> None:
        self._run_batch(insert("schedule_revisions", _REVISION, [revision]))
        self.own_revisions.add(revision[:2])  # type: ignore[arg-type]

    def put_causes(self, causes: Sequence[tuple[str, str, int]]) -> None:
        self._run(sql.PUT_CAUSES, *columns_of(("cause", "uid", "revision"), causes))

    def update_states(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self._run_batch(update("schedules", columns, rows))
        if "next_run_at" in columns:
            position = columns.index("next_run_at")
            self._marks.due.lower(row[position] for row in rows)  # type: ignore[misc]

    def count_starts(self, start: Start, row_ids: Sequence[int], now: int) -> None:
        run_at = At(now) if start.is_own else None
        self._run(sql.COUNT_STARTS, *start[:3], run_at, Integers(row_ids))

    def count_successes(self, jobs: Sequence[Finished], now: int) -> None:
        rows, ids = Integers([job.schedule_row for job in jobs]), Texts([job.job_id for job in jobs])
        self._run(sql.COUNT_SUCCESSES, At(now), At(now), rows, ids)

    def delete_schedule(self, row_id: int) -> None:
        self._run("DELETE FROM schedules WHERE row_id = %s", row_id)

    def release_held(self, places: Sequence[tuple[str, int]], now: int) -> None:
        keys, free = Texts([key for key, _ in places]), Integers([free for _, free in places])
        if self._run(sql.RELEASE_HELD, At(now), keys, free):
            self.announce_due(now)

    def release_next_held(self, declined: Sequence[Declined], now: int) -> None:
        columns = columns_of(Declined._fields, declined)
        if self._run(sql.RELEASE_NEXT_HELD, At(now), *columns):
            self.announce_due(now)

    # -- side effects of jobs --

    def put_plugin_states(self, states: Mapping[str, str], now: int) -> None:
        self._run(sql.PUT_PLUGIN_STATES, At(now), Texts(list(states)), Texts(list(states.values())))

    def insert_messages(self, messages: Sequence[NewMessage], now: int) -> None:
        rows = [(m.event_id, now, m.schedule_id, m.uid, m.owner, m.job_id, m.body) for m in messages]
        query, values = insert("messages", sql.NEW_MESSAGE, rows)
        self._run_batch((f"{query} {sql.UNLESS_SAID}", values))

    def put_subscription(self, subscription: Subscription, now: int) -> None:
        held = subscription._asdict()
        for name in ("next_attempt_at", "held_until"):
            held[name] = None if held[name] is None else At(held[name])
        values = {**held, "subscriber": storable(subscription.subscriber), "now": At(now)}
        self._cursor.execute(sql.PUT_SUBSCRIPTION, values)

    # -- tokens --

    def lock_token(self, token_id: str) -> None:
        self._rows("SELECT 1 FROM tokens WHERE token_id = %s FOR UPDATE", (token_id,))

    def insert_token(self, token: Token, hash: str) -> bool:
        query, values = insert("tokens", ("hash", *TOKEN_COLUMNS), [(hash, *token_row(token))])
        return self._insert_new(query, values)

    def revoke_token(self, token_id: str, now: int) -> bool:
        return self._run(sql.REVOKE_TOKEN, At(now), storable(token_id)) > 0

    def insert_session(self, session: Session) -> None:
        self._run(sql.FORGET_SESSIONS, At(session.created_at))
        self._run_batch(insert("sessions", Session._fields, [session]))

    def delete_session(self, hash: str) -> None:
        self._run(sql.DELETE_SESSION, hash)

    def end_sessions(self) -> int:
        return self._run("DELETE FROM sessions")

    def insert_answer(self, answer: Answer, now: int) -> bool:
        since = At(now - ANSWERS_KEPT)
        self._run(sql.FORGET_ANSWERS, since)
        return self._run(sql.INSERT_ANSWER, *answer.fields, At(answer.stored_at(now)), since) > 0

    def _insert_new(self, query: str, values: list[Any]) -> bool:
        return self._run(f"{query} ON CONFLICT DO NOTHING", *values) > 0

    # -- the ledger, and shared limits and breakers --

    def insert_events(self, events: Sequence[Event]) -> None:
        if events:
            self._run_batch(_inserted_events(events))

    def leap_numbers(self, by: int) -> None:
        self._run("UPDATE audit_events SET id = id + %s WHERE id = (SELECT max(id) FROM audit_events)", by)
        for table, key in sql.SEQUENCES:
            last = f"coalesce((SELECT max({key}) FROM {table}), 0)"
            self._rows(f"SELECT setval(pg_get_serial_sequence(%s, %s), {last} + %s)", (table, key, by))

    def put_limits(self, limits: Sequence[Limit]) -> None:
        self._run(sql.PUT_LIMITS, *columns_of(Limit._fields, limits))

    def put_breakers(self, breakers: Sequence[Breaker]) -> None:
        self._run(sql.PUT_BREAKERS, *columns_of(Breaker._fields, breakers))

    def insert_transitions(self, transitions: Sequence[Transition]) -> None:
        self._run_batch(insert("circuit_breaker_transitions", Transition._fields, transitions))

    def put_setting(self, key: str, value: str) -> None:
        self._settings = None
        self._run(sql.PUT_SETTING, key, value)

    def put_policy(self, policy_id: str, name: str, fields: str, now: int, source: str) -> None:
        values = {"id": policy_id, "name": storable(name), "words": fields, "now": At(now), "source": source}
        self._cursor.execute(sql.PUT_POLICY, values)

    def config_revision(self, source: str) -> tuple[int, str]:
        # A writing transaction that reads it is about to write the next one: the lock serialises two of them.
        self._run("LOCK TABLE config_revisions IN SHARE ROW EXCLUSIVE MODE")
        return super().config_revision(source)

    def insert_config(
        self, now: int, *, source: str, digest: str, actor: str | None, places: str, sections: str
    ) -> None:
        self._run(sql.FORGET_PLACES, source)  # only the newest keeps them
        fields = (storable(places), storable(sections))
        self._run(sql.INSERT_CONFIG, At(now), source, digest, actor, *fields)

    def delete_policy(self, policy_id: str) -> None:
        self._run("DELETE FROM quiet_hours_policies WHERE policy_id = %s", policy_id)

    def latest(self, now: int) -> int:
        if self._has_time:
            return max(now, self._one(sql.TIME) or now)
        return now if self._clock is None else max(now, self._clock.now())

    def put_heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool
    ) -> None:
        values = {
            "node": node,
            "version": version,
            "scheduler": is_scheduler,
            "worker": is_worker,
            "now": At(now),
        }
        self._cursor.execute(sql.HEARTBEAT, {**values, "skew": self._skew()})

    def put_lost(self, nodes: Sequence[str], now: int) -> set[str]:
        return {row[0] for row in self._rows(sql.PUT_LOST, (At(now), Texts(nodes)))}

    def put_output(self, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap], now: int) -> None:
        for piece in pieces:
            self._run(sql.PUT_OUTPUT, *piece.stream, piece.position, At(now), piece.data)
        for gap in gaps:
            self._run(sql.DROP_OUTPUT, *gap.stream, gap.start, gap.end)

    def put_sign_off(self, now: int, *, node: str) -> None:
        self._cursor.execute(sql.SIGN_OFF, {"now": At(now), "node": node})

    def forget_node(self, node: str) -> bool:
        return bool(self._rows(sql.FORGET_NODE, {"node": node}))


_REVISION = ("uid", "revision", "schedule_id", "in_force_at", "anchor_at", "words", "cause")
_spell = json.JSONEncoder(ensure_ascii=False, default=dict).encode  # a detail is any mapping
_NEXT_RUN = INSERTED.index("next_run_at")


def _row_ids(jobs: Sequence[Job]) -> Integers:
    return Integers([job.row_id for job in jobs])


def _messages(deliveries: Sequence[Delivery]) -> tuple[Texts, Integers]:
    return Texts([d.job_id for d in deliveries]), Integers([d.number for d in deliveries])


def _inserted_events(events: Sequence[Event]) -> Statement:
    rows = [(*event[:10], _words(event), event.trace) for event in events]
    return insert("audit_events", Event._fields, rows)


def _words(event: Event) -> str:
    if event.detail is NOTHING:
        return "{}"
    # jsonb cannot store NUL either, in any notation.
    return _spell(event.detail).replace("\\u0000", "\ufffd")


def _first_taken(names: Sequence[str], known: Collection[str]) -> str | None:
    seen: set[str] = set(known)
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
