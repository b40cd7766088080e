"""Writes on SQLite: thin statements, one after another, on the connection of the current turn."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from everwhen.clock import Clock
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
from everwhen.model.subscription import Subscription
from everwhen.model.token import ANSWERS_KEPT, Answer, Session, Token, token_row
from everwhen.stores import sqlite_statements as sql
from everwhen.stores.sqlite_database import Lane, SqliteDatabase
from everwhen.stores.sqlite_errors import is_refusal
from everwhen.stores.sqlite_insert import SparseInsert
from everwhen.stores.sqlite_snapshot import SqliteSnapshot
from everwhen.stores.transaction import Declined, Finished, Queue, Row, Snapshot, Transaction

T = TypeVar("T")

_spell = json.JSONEncoder(default=dict).encode  # a detail is any mapping


class SqliteStore:
    """Transactions on one SQLite database. `clock` gives the time at which a turn begins."""

    is_exclusive = True

    def __init__(self, database: SqliteDatabase, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock

    def write(self, lane: Lane, work: Callable[[Transaction], T]) -> T:
        clock = self._clock
        return self._database.write(lane, lambda connection: work(SqliteTransaction(connection, clock)))

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        with self._database.read() as connection:
            yield SqliteSnapshot(connection)

    look = read

    def earliest_due_at(self) -> int | None:
        with self.look() as snapshot:
            return snapshot.next_due_at()

    def nothing_due_before(self, instant: int) -> None:
        return None  # an index of SQLite has no dead entries


class SqliteTransaction(SqliteSnapshot):
    """The methods of a transaction on one connection."""

    __slots__ = ("_clock", "is_sooner", "own_revisions")

    def __init__(self, connection: sqlite3.Connection, clock: Clock | None = None) -> None:
        super().__init__(connection)
        self._clock = clock
        self.is_sooner = False
        self.own_revisions: set[tuple[str, int]] = set()

    def _insert(self, insert: SparseInsert, rows: Sequence[Row]) -> None:
        for statement, values in insert.runs(rows):
            self._many(statement, values)

    # -- jobs --

    def insert_jobs(self, rows: Sequence[Row]) -> None:
        self._insert_jobs(sql.INSERT_JOB, rows)

    def insert_ended_jobs(self, rows: Sequence[Row]) -> None:
        self._insert_jobs(sql.INSERT_ENDED_JOB, rows)

    def _insert_jobs(self, insert: SparseInsert, rows: Sequence[Row]) -> None:
        try:
            self._insert(insert, rows)
        except sqlite3.IntegrityError as error:
            if is_refusal(error):
                raise
            # Two schedulers cannot cause this: a row was changed manually, or the job does not come from `decide`.
            raise StoreError(
                "a slot, or an id, of this batch has its job already, so nothing of the batch was written; "
                "look for a schedule whose next_slot_at lies before its last_slot_at"
            ) from error

    def start_jobs(self, claimed: Sequence[ClaimedJob]) -> None:
        alike: dict[Row, list[int]] = {}
        for job in [one.job for one in claimed]:
            start = (job.started_at, job.deadline_at, job.node, job.is_probe)
            alike.setdefault(start, []).append(job.row_id)
        for values, row_ids in alike.items():
            self._all(sql.START_JOBS, (*values, json.dumps(row_ids)))

    def postpone_jobs(self, postponed: Sequence[tuple[Job, int]]) -> None:
        self._many(sql.POSTPONE_JOB, [(until, job.row_id) for job, until in postponed])

    def end_jobs(self, ended: Sequence[tuple[Job | Finished, Outcome]], now: int) -> None:
        loud: list[Row] = []
        silent: dict[str, list[int]] = {}
        for job, outcome in ended:
            if outcome.error is None and outcome.result is None:
                silent.setdefault(outcome.status, []).append(job.row_id)
            else:
                loud.append((outcome.status, now, now, outcome.error, outcome.result, job.row_id))
        self._many(sql.END_JOB, loud)
        for status, row_ids in silent.items():
            self._all(sql.END_JOBS_SILENTLY, (status, now, now, json.dumps(row_ids)))

    def cancel_jobs(self, cancelled: Sequence[tuple[Job, CancelReason]], now: int) -> None:
        rows = [{"now": now, "reason": reason, "row_id": job.row_id} for job, reason in cancelled]
        self._many(sql.CANCEL_JOB, rows)

    def keep_jobs(self, jobs: Sequence[Job]) -> None:
        self._many(sql.KEEP_JOB, [(job.row_id,) for job in jobs])

    def let_go_of_jobs(self, jobs: Sequence[Job], now: int) -> None:
        self._many(sql.RELEASE_JOB, [(now, job.row_id) for job in jobs])

    def hand_over_jobs(self, jobs: Sequence[tuple[Job, str]]) -> None:
        self._many(sql.HAND_OVER_JOB, [(token, job.row_id, job.fence) for job, token in jobs])

    def requeue_jobs(self, jobs: Sequence[Job], now: int, *, is_rescue: bool) -> None:
        shared = {"now": now, "counted": int(is_rescue)}
        self._many(sql.REQUEUE_JOB, [{**shared, "row_id": job.row_id} for job in jobs])

    def send_jobs(self, jobs: Sequence[Job], now: int, until: int) -> dict[str, int]:
        return dict(self._all(sql.SEND_JOBS, (now, until, _rows_of(jobs))).fetchall())

    def close_deliveries(self, jobs: Sequence[Job]) -> None:
        self._all(sql.CLOSE_DELIVERIES, (_rows_of(jobs),))

    def call_back(self, jobs: Sequence[Job], now: int) -> None:
        self._all(sql.CALL_BACK, (now, _rows_of(jobs)))

    def count_rescues(self, jobs: Sequence[Job]) -> None:
        self._all(sql.COUNT_RESCUES, (_rows_of(jobs),))

    def leave_deliveries(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        self._many(sql.LEAVE_DELIVERY, [(until, d.job_id, d.number) for d, until in deliveries])

    def withdraw_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self._many(sql.WITHDRAW_DELIVERY, [(d.job_id, d.number) for d in deliveries])

    def ready_successors(self, queues: Collection[Queue], now: int) -> None:
        for queue in sorted(queues):
            statement = sql.READY_SUCCESSOR if queue.line == "own" else sql.READY_BESIDE
            self._all(statement, {"now": now, **queue._asdict()})

    def let_retries_go(self, breaker_keys: Collection[str], now: int) -> None:
        self._many(sql.LET_RETRIES_GO, [{"now": now, "key": key} for key in sorted(breaker_keys)])

    # -- schedules --

    def insert_schedules(
        self, schedules: Sequence[Row], revisions: Sequence[Row], events: Sequence[Event]
    ) -> str | None:
        self._all("SAVEPOINT creation")
        try:
            self._insert(sql.INSERT_SCHEDULE, schedules)
            self._many(sql.INSERT_REVISION, revisions)
        except sqlite3.IntegrityError as error:
            if is_refusal(error):
                raise
            self._all("ROLLBACK TO creation")  # else _taken would find the rows of this batch
            return self._taken([(str(row[0]), str(row[1])) for row in schedules])
        self._all("RELEASE creation")
        self.own_revisions.update((uid, number) for uid, number, *_ in revisions)  # type: ignore[misc]
        self.insert_events(events)
        return None

    def _taken(self, new: Sequence[tuple[str, str]]) -> str:
        """Return the first id that exists or occurs twice; if there is none, the first such uid."""
        seen: set[str] = set()
        for _, schedule_id in new:
            found = self._all("SELECT 1 FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone()
            if found is not None or schedule_id in seen:
                return schedule_id
            seen.add(schedule_id)
        for uid, _ in new:
            found = self._all("SELECT 1 FROM schedule_revisions WHERE uid = ?", (uid,)).fetchone()
            if found is not None or uid in seen:
                return uid
            seen.add(uid)
        return new[0][0]

    def insert_revision(self, revision: Row) -> None:
        self._all(sql.INSERT_REVISION, revision)
        uid, number, *_ = revision
        self.own_revisions.add((uid, number))  # type: ignore[arg-type]

    def put_causes(self, causes: Sequence[tuple[str, str, int]]) -> None:
        self._many(sql.PUT_CAUSE, causes)

    def update_states(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self._many(sql.update_of(columns), rows)

    def count_starts(self, start: Start, row_ids: Sequence[int], now: int) -> None:
        run_at = now if start.is_own else None
        counts = (start.running_jobs, start.waiting, start.retries_waiting)
        self._all(sql.COUNT_STARTS, (*counts, run_at, json.dumps(row_ids)))

    def count_successes(self, jobs: Sequence[Finished], now: int) -> None:
        self._all(sql.COUNT_SUCCESSES, (now, now, json.dumps([job.row_id for job in jobs])))

    def delete_schedule(self, row_id: int) -> None:
        self._all("DELETE FROM schedules WHERE row_id = ?", (row_id,))

    def release_held(self, places: Sequence[tuple[str, int]], now: int) -> None:
        rows = [{"now": now, "key": key, "places": free} for key, free in places]
        if self._many(sql.RELEASE_HELD, rows).rowcount:
            self.announce_due(now)

    def release_next_held(self, declined: Sequence[Declined], now: int) -> None:
        self._many(sql.RELEASE_NEXT_HELD, [{"now": now, **one._asdict()} for one in declined])

    # -- side effects of jobs --

    def put_plugin_states(self, states: Mapping[str, str], now: int) -> None:
        self._many(sql.PUT_PLUGIN_STATE, [(plugin, state, now) for plugin, state in states.items()])

    def insert_messages(self, messages: Sequence[NewMessage], now: int) -> None:
        rows = [(m.event_id, now, m.schedule_id, m.uid, m.owner, m.job_id, m.body) for m in messages]
        self._many(sql.INSERT_MESSAGE, rows)

    def put_subscription(self, subscription: Subscription, now: int) -> None:
        self._all(sql.PUT_SUBSCRIPTION, {**subscription._asdict(), "now": now})

    # -- tokens --

    def lock_token(self, token_id: str) -> None:
        return None

    def insert_token(self, token: Token, hash: str) -> bool:
        return self._all(sql.INSERT_TOKEN, (hash, *token_row(token))).rowcount > 0

    def revoke_token(self, token_id: str, now: int) -> bool:
        return self._all(sql.REVOKE_TOKEN, (now, token_id)).rowcount > 0

    def insert_session(self, session: Session) -> None:
        self._all(sql.FORGET_SESSIONS, (session.created_at,))
        self._all(sql.INSERT_SESSION, session)

    def delete_session(self, hash: str) -> None:
        self._all(sql.DELETE_SESSION, (hash,))

    def end_sessions(self) -> int:
        return self._all("DELETE FROM sessions").rowcount

    def insert_answer(self, answer: Answer, now: int) -> bool:
        since = now - ANSWERS_KEPT
        self._all(sql.FORGET_ANSWERS, (since,))
        return self._all(sql.INSERT_ANSWER, (*answer.fields, answer.stored_at(now), since)).rowcount > 0

    # -- the ledger, and shared limits and breakers --

    def insert_events(self, events: Sequence[Event]) -> None:
        rows = [event.row("{}" if event.detail is NOTHING else _spell(event.detail)) for event in events]
        self._insert(sql.INSERT_EVENT, rows)

    def leap_numbers(self, by: int) -> None:
        # A new row gets the number after the last one, so the last one is moved; messages have their own counter.
        for table, key in (("audit_events", "id"), ("jobs", "row_id")):
            last = f"(SELECT max({key}) FROM {table})"
            self._all(f"UPDATE {table} SET {key} = {key} + ? WHERE {key} = {last}", (by,))
        self._all("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'messages'", (by,))

    def put_limits(self, limits: Sequence[Limit]) -> None:
        self._many(sql.PUT_LIMIT, limits)

    def put_breakers(self, breakers: Sequence[Breaker]) -> None:
        self._many(sql.PUT_BREAKER, breakers)

    def insert_transitions(self, transitions: Sequence[Transition]) -> None:
        self._many(sql.INSERT_TRANSITION, transitions)

    def expect_long_pauses(self) -> None:
        return None

    def exclude_evaluations(self) -> None:
        return None

    def announce_due(self, due_at: int) -> None:
        self.is_sooner = True  # for this process; the change counter wakes the others

    def put_setting(self, key: str, value: str) -> None:
        self._settings = None
        self._all(sql.PUT_SETTING, (key, value))

    def put_policy(self, policy_id: str, name: str, fields: str, now: int, source: str) -> None:
        values = {"id": policy_id, "name": name, "words": fields, "now": now, "source": source}
        self._all(sql.PUT_POLICY, values)

    def insert_config(
        self, now: int, *, source: str, digest: str, actor: str | None, places: str, sections: str
    ) -> None:
        self._all(sql.FORGET_PLACES, (source,))  # only the newest keeps them
        said = {"digest": digest, "places": places, "sections": sections}
        values = {"now": now, "source": source, "actor": actor, **said}
        self._all(sql.INSERT_CONFIG, values)

    def delete_policy(self, policy_id: str) -> None:
        self._all("DELETE FROM quiet_hours_policies WHERE policy_id = ?", (policy_id,))

    def latest(self, now: int) -> int:
        return now if self._clock is None else max(now, self._clock.now())

    def put_heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool
    ) -> None:
        values = {
            "node": node,
            "version": version,
            "scheduler": is_scheduler,
            "worker": is_worker,
            "now": now,
        }
        self._all(sql.HEARTBEAT, values)

    def put_lost(self, nodes: Sequence[str], now: int) -> set[str]:
        self._many("UPDATE nodes SET lost_at = ? WHERE node = ?", [(now, node) for node in nodes])
        return set(nodes)  # writers run one after the other

    def put_output(self, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap], now: int) -> None:
        self._many(sql.PUT_OUTPUT, [(*piece.stream, piece.position, now, piece.data) for piece in pieces])
        self._many(sql.DROP_OUTPUT, [(*gap.stream, gap.start, gap.end) for gap in gaps])

    def put_sign_off(self, now: int, *, node: str) -> None:
        self._all(sql.SIGN_OFF, {"now": now, "node": node})

    def forget_node(self, node: str) -> bool:
        return bool(self._all(sql.FORGET_NODE, {"node": node}).fetchall())


def _rows_of(jobs: Sequence[Job]) -> str:
    return json.dumps([job.row_id for job in jobs])
