"""Reads on SQLite: thin statements on the connection of the current turn, or on a reader's.

There is one writer at a time, under the file lock: no other transaction changes what this one reads before its
commit. So nothing is locked, and there is nothing to peek at.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from everwhen.model.breaker import Breaker
from everwhen.model.counters import ScheduleCounters
from everwhen.model.delivery import Delivery
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.node import Node
from everwhen.model.schedule import State
from everwhen.model.token import Answer, Token, token_of
from everwhen.ports.messages import Message, MessageFilter, Subscription
from everwhen.stores import sqlite_statements as sql
from everwhen.stores.transaction import Due, Finished, LockHint, Row

if TYPE_CHECKING:
    from everwhen.decide.hand_over import OnTheirWay

_PORTION = 1_000  # SQLite accepts a bounded number of parameters


class SqliteSnapshot:
    """The reads on one connection."""

    __slots__ = ("_all", "_many", "_settings")

    own_revisions: Collection[tuple[str, int]] = ()

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._all = connection.execute
        self._many = connection.executemany
        self._settings: dict[str, str] | None = None

    # -- nothing to peek at --

    def peek_due(self, due: Due) -> Sequence[LockHint]:
        return ()

    def peek_ready(self, now: int, *, limit: int, queues: Sequence[str] | None) -> Sequence[LockHint]:
        return ()

    def peek_jobs(self, job_ids: Sequence[str]) -> Sequence[LockHint]:
        return ()

    def peek_deliverable(self, now: int, *, limit: int) -> Sequence[LockHint]:
        return ()

    def peek_schedule(self, schedule_id: str) -> Sequence[LockHint]:
        return ()

    # -- reading --

    def _of_keys(self, query: str, keys: Collection[str]) -> list[Row]:
        """Return the rows of many keys, in portions."""
        wanted, rows = sorted(keys), []
        for start in range(0, len(wanted), _PORTION):
            portion = wanted[start : start + _PORTION]
            rows += self._all(f"{query} ({', '.join('?' * len(portion))})", portion).fetchall()
        return rows

    def limits(self, keys: Collection[str]) -> dict[str, Limit]:
        query = f"SELECT {', '.join(Limit._fields)} FROM limits WHERE key IN"
        found = {limit.key: limit for limit in map(Limit._make, self._of_keys(query, keys))}
        return {key: found.get(key) or Limit(key) for key in keys}

    def breakers(self, keys: Collection[str]) -> dict[str, Breaker]:
        query = f"SELECT {', '.join(Breaker._fields)} FROM circuit_breakers WHERE key IN"
        found = {breaker.key: breaker for breaker in map(Breaker._make, self._of_keys(query, keys))}
        return {key: found.get(key) or Breaker(key) for key in keys}

    limits_at_hand, breakers_at_hand = limits, breakers  # writers run one after the other

    def due(self, due: Due) -> list[State]:
        values = {"now": due.now, "floor": due.floor, "limit": due.limit}
        if due.behind:
            return self._states(sql.DUE_BEHIND, values)
        released = self._states(sql.RELEASED, values)
        values["limit"] -= len(released)
        return released + self._states(sql.DUE_LATELY, values)

    def _states(self, query: str, values: Mapping[str, object] | Sequence[object]) -> list[State]:
        return [State._make(row) for row in self._all(query, values)]

    def lock_schedules(self, uids: Collection[str]) -> None:
        return None

    def states(self, uids: Collection[str]) -> dict[str, State]:
        query = f"SELECT {sql.STATE} FROM schedules WHERE uid IN"
        return {state.uid: state for state in map(State._make, self._of_keys(query, uids))}

    def counters(self, uids: Collection[str]) -> dict[str, ScheduleCounters]:
        return {row[1]: ScheduleCounters._make(row) for row in self._of_keys(sql.COUNTERS, uids)}  # type: ignore[misc]

    def state(self, schedule_id: str) -> State | None:
        return next(iter(self._states(sql.STATE_BY_ID, {"id": schedule_id})), None)

    def states_of_source(self, source: str) -> list[State]:
        return self._states(f"SELECT {sql.STATE} FROM schedules WHERE source = ?", (source,))

    def states_from_before(self, source: str, *, only_groups: bool) -> list[State]:
        return self._states(sql.STATES_FROM_BEFORE, {"source": source, "only_groups": only_groups})

    def states_soonest(self, limit: int, owner: str | None) -> list[State]:
        return self._states(sql.STATES_SOONEST, {"limit": limit, "owner": owner})

    def states_reached(self, now: int) -> list[State]:
        return self._states(sql.STATES_REACHED, (now,))

    def states_until(self, until: int, *, limit: int) -> list[State]:
        return self._states(sql.STATES_UNTIL, {"until": until, "limit": limit})

    def jobs_until(self, until: int, *, limit: int) -> list[Job]:
        return self.ready_jobs(until, limit=limit, queues=None)

    def states_deferred(self, policy_id: str) -> list[State]:
        return self._states(sql.STATES_DEFERRED, (policy_id,))

    def list_states(self, wanted: Mapping[str, str], *, limit: int, after: str) -> list[State]:
        where = " AND ".join([*(f'"{name}" = :{name}' for name in wanted), "schedule_id > :after"])
        # The unique key on schedule_id, scanned in order.
        query = f"SELECT {sql.STATE} FROM schedules WHERE {where} ORDER BY schedule_id LIMIT :limit"
        return self._states(query, {**wanted, "after": after, "limit": limit})

    def ready_jobs(self, now: int, *, limit: int, queues: Sequence[str] | None) -> list[Job]:
        wanted = None if queues is None else json.dumps(list(queues))
        rows = self._all(sql.READY_JOBS, {"now": now, "limit": limit, "queues": wanted})
        return [Job._make(row) for row in rows]

    def ready_of(self, uids: Collection[str], now: int, *, queues: Sequence[str] | None) -> list[Job]:
        wanted = None if queues is None else json.dumps(list(queues))
        values = [{"uid": uid, "now": now, "queues": wanted} for uid in sorted(uids)]
        return [Job._make(row) for value in values for row in self._all(sql.READY_OF_SCHEDULE, value)]

    def jobs(self, job_ids: Sequence[str]) -> dict[str, Job]:
        query = f"SELECT {sql.JOB} FROM jobs WHERE job_id IN"
        return {job.job_id: job for job in map(Job._make, self._of_keys(query, set(job_ids)))}

    def deliverable_jobs(self, now: int, *, limit: int) -> list[Job]:
        return [Job._make(row) for row in self._all(sql.DELIVERABLE_JOBS, {"now": now, "limit": limit})]

    def on_their_way(self, jobs: Sequence[Job]) -> OnTheirWay:
        from everwhen.decide.hand_over import OnTheirWay  # commands that only read open snapshots, too

        keys = {job.capacity_key for job in jobs if job.capacity_key is not None}
        lines = {job.uid for job in jobs if job.line == "own"}
        sent: Counter[str] = Counter(key for (key,) in self._of_keys(sql.SENT_KEYS, keys))  # type: ignore[misc]
        return OnTheirWay(sent, {uid for (uid,) in self._of_keys(sql.SENT_LINES, lines)})  # type: ignore[misc]

    def deliveries(self, job_ids: Sequence[str]) -> dict[str, int]:
        return dict(self._of_keys(sql.SENT_NUMBERS, set(job_ids)))  # type: ignore[arg-type]

    def overdue_deliveries(self, now: int, *, limit: int) -> list[Delivery]:
        return [Delivery(*row) for row in self._all(sql.OVERDUE_DELIVERIES, {"now": now, "limit": limit})]

    def needless_deliveries(self, *, limit: int) -> list[Delivery]:
        return [Delivery(*row) for row in self._all(sql.NEEDLESS_DELIVERIES, {"limit": limit})]

    def delivery_of(self, job_id: str) -> Delivery | None:
        return next((Delivery(*row) for row in self._all(sql.DELIVERY_OF, (job_id,))), None)

    def next_delivery_at(self, now: int) -> int | None:
        found: int | None = self._all(sql.NEXT_DELIVERY).fetchone()[0]
        return found

    def finished(self, job_ids: Sequence[str]) -> list[Finished]:
        return [Finished._make(row) for row in self._of_keys(sql.FINISHED, job_ids)]

    def filled_slots(self, uid: str, slots: Sequence[int]) -> set[int]:
        values = {"uid": uid, "slots": json.dumps(list(slots))}
        return {row[0] for row in self._all(sql.FILLED_SLOTS, values)}

    def outstanding(self, uids: Collection[str]) -> dict[str, list[Job]]:
        jobs = map(Job._make, self._of_keys(sql.OUTSTANDING, uids))
        in_order = sorted(jobs, key=lambda job: (job.uid, job.slot_at, job.row_id))
        return {uid: list(group) for uid, group in groupby(in_order, key=lambda job: job.uid)}

    def all_outstanding(self) -> list[Job]:
        return [Job._make(row) for row in self._all(sql.ALL_OUTSTANDING)]

    def unreleased_jobs(self) -> list[Job]:
        return [Job._make(row) for row in self._all(sql.UNRELEASED_JOBS)]

    def last_instant(self) -> int:
        return self._one(sql.LAST_INSTANT) or 0

    def queued_catch_up(self, breaker_keys: Collection[str]) -> list[Job]:
        return [Job._make(row) for row in self._of_keys(sql.QUEUED_CATCH_UP, breaker_keys)]

    def lost_nodes(self, *, node: str, oldest: int, newest: int) -> list[Node]:
        rows = self._all(sql.LOST_NODES, {"node": node, "oldest": oldest, "newest": newest})
        return [Node._make(row) for row in rows]

    def nodes(self) -> list[Node]:
        return [Node._make(row) for row in self._all(sql.NODES)]

    def jobs_external_over(self, now: int) -> list[Job]:
        return [Job._make(row) for row in self._all(sql.JOBS_EXTERNAL_OVER, (now,))]

    def outcome_token(self, job_id: str) -> str | None:
        row = self._all(sql.OUTCOME_TOKEN, (job_id,)).fetchone()
        return None if row is None else row[0]

    def jobs_of_dead_nodes(self, *, node: str, oldest: int, newest: int) -> list[Job]:
        rows = self._all(sql.JOBS_OF_DEAD_NODES, {"node": node, "oldest": oldest, "newest": newest})
        return [Job._make(row) for row in rows]

    def jobs_of_node(self, node: str) -> list[Job]:
        return [Job._make(row) for row in self._all(sql.JOBS_OF_NODE, (node,))]

    def plugin_states(self, plugins: Collection[str]) -> dict[str, str]:
        return dict(self._of_keys("SELECT plugin, state FROM plugin_state WHERE plugin IN", plugins))  # type: ignore[arg-type]

    def subscription(self, subscriber: str) -> Subscription | None:
        row = self._all(f"{sql.SUBSCRIPTIONS} WHERE subscriber = ?", (subscriber,)).fetchone()
        return None if row is None else Subscription._make(row)

    def subscriptions(self) -> list[Subscription]:
        return [Subscription._make(row) for row in self._all(f"{sql.SUBSCRIPTIONS} ORDER BY subscriber")]

    def messages_after(self, message_id: int, *, limit: int) -> list[Message]:
        return [Message._make(row) for row in self._all(sql.MESSAGES_AFTER, (message_id, limit))]

    def last_message_id(self) -> int:
        return self._one(sql.LAST_MESSAGE) or 0

    def list_messages(self, wanted: MessageFilter, *, limit: int, before: int | None) -> list[Message]:
        values = {**wanted._asdict(), "before": before, "limit": limit}
        return [Message._make(row) for row in self._all(sql.LIST_MESSAGES, values)]

    def count_messages(self, wanted: MessageFilter, *, most: int) -> int:
        values = {**wanted._asdict(), "before": None, "limit": most}
        return int(self._all(sql.COUNT_MESSAGES, values).fetchone()[0])

    def settings(self) -> Mapping[str, str]:
        if self._settings is None:
            self._settings = dict(self._all("SELECT key, value FROM settings"))
        return self._settings

    def policies(self, source: str | None = None) -> list[tuple[str, str]]:
        return self._all(sql.POLICIES, {"source": source}).fetchall()

    def hold_policies(self, policy_ids: Collection[str]) -> dict[str, str]:
        return dict(self._of_keys(sql.POLICIES_OF, policy_ids))  # type: ignore[arg-type]

    def config_revision(self, source: str) -> tuple[int, str]:
        row = self._all(sql.CONFIG_REVISION, (source,)).fetchone()
        return (0, "") if row is None else (row[0], row[1])

    def config_places(self) -> str | None:
        row = self._all(sql.CONFIG_PLACES).fetchone()
        return None if row is None else row[0]

    def config_sections(self) -> str | None:
        row = self._all(sql.CONFIG_SECTIONS).fetchone()
        return None if row is None else row[0]

    def revisions(self, keys: Sequence[tuple[str, int]]) -> Iterable[tuple[str, int, str, str]]:
        for start in range(0, len(keys), _PORTION // 2):
            portion = keys[start : start + _PORTION // 2]
            places = ", ".join(["(?, ?)"] * len(portion))
            query = f"""SELECT uid, revision, schedule_id, words FROM schedule_revisions
                WHERE (uid, revision) IN (VALUES {places})"""
            yield from self._all(query, [value for key in portion for value in key])

    def heartbeats(self, since: int) -> list[tuple[int, int]]:
        return self._all(sql.COVERAGE, {"since": since}).fetchall()

    def clock_steps(self, since: int) -> list[tuple[int, int]]:
        return self._all(sql.CLOCK_STEPS, {"since": since}).fetchall()

    def last_heartbeat_at(self) -> int | None:
        return self._one(sql.LAST_HEARTBEAT)

    def _one(self, query: str, values: Mapping[str, object] | Sequence[object] = ()) -> int | None:
        found: int | None = self._all(query, values).fetchone()[0]
        return found

    def next_due_at(self) -> int | None:
        return self._one(sql.NEXT_DUE)

    def next_resume_at(self) -> int | None:
        return self._one(sql.NEXT_RESUME)

    def next_ready_at(self, queues: Sequence[str] | None, now: int | None = None) -> int | None:
        return self._one(sql.NEXT_READY, {"queues": None if queues is None else json.dumps(list(queues))})

    def cancel_requests(self, node: str) -> list[str]:
        return [row[0] for row in self._all(sql.CANCEL_REQUESTS, {"node": node})]

    def due_to_resume(self, now: int) -> list[str]:
        return [row[0] for row in self._all(sql.DUE_TO_RESUME, (now,))]

    def entries(
        self, wanted: Mapping[str, str], *, text: str | None, limit: int, before: int | None, offset: int
    ) -> list[tuple[State, Row]]:
        where, values = _filtered(wanted, text)
        if before is not None:
            where, values = f"{where} AND row_id < :before", {**values, "before": before}
        query = f"SELECT {sql.ENTRY} FROM schedules WHERE {where} ORDER BY row_id DESC LIMIT :limit OFFSET :offset"
        rows = self._all(query, {**values, "limit": limit, "offset": offset})
        return [_entry(row) for row in rows]

    def entry(self, schedule_id: str) -> tuple[State, Row] | None:
        query = sql.STATE_BY_ID.replace(sql.STATE, sql.ENTRY)
        row = self._all(query, {"id": schedule_id}).fetchone()
        return None if row is None else _entry(row)

    def id_of_key(self, key: str) -> str | None:
        row = self._all("SELECT schedule_id FROM schedules WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def count_schedules(self, wanted: Mapping[str, str], *, text: str | None, most: int) -> int:
        where, values = _filtered(wanted, text)
        query = f"SELECT count(*) FROM (SELECT 1 FROM schedules WHERE {where} LIMIT :most)"
        return self._one(query, {**values, "most": most}) or 0

    def count_of_token(self, token_id: str) -> int:
        return self._one(sql.COUNT_OF_TOKEN, (token_id,)) or 0

    def token_by_hash(self, hash: str) -> Token | None:
        row = self._all(f"{sql.TOKENS} WHERE hash = ?", (hash,)).fetchone()
        return None if row is None else token_of(row)

    def tokens(self) -> list[Token]:
        return [token_of(row) for row in self._all(f"{sql.TOKENS} ORDER BY created_at DESC, token_id")]

    def token_of_session(self, hash: str, now: int) -> Token | None:
        row = self._all(sql.TOKEN_OF_SESSION, (hash, now)).fetchone()
        return None if row is None else token_of(row)

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        row = self._all(sql.ANSWER, (token_id, key, since)).fetchone()
        return None if row is None else Answer(*row)

    def requester(self, job: Job) -> str | None:
        row = self._all(sql.REQUESTER, (job.uid, job.slot_at, job.job_id)).fetchone()
        return None if row is None else row[0]

    def users_of_policy(self, policy_id: str) -> list[str]:
        # A pass over schedules: used only when a policy is deleted.
        query = "SELECT schedule_id FROM schedules WHERE quiet_hours_policy_id = ? ORDER BY schedule_id"
        return [row[0] for row in self._all(query, (policy_id,))]


def _filtered(wanted: Mapping[str, str], text: str | None) -> tuple[str, dict[str, object]]:
    conditions = [f'"{name}" = :{name}' for name in wanted]
    values: dict[str, object] = {**wanted}
    if text is not None:
        conditions.append("(instr(lower(name), :text) > 0 OR instr(lower(schedule_id), :text) > 0)")
        values["text"] = text.lower()
    return " AND ".join(conditions) or "TRUE", values


def _entry(row: Row) -> tuple[State, Row]:
    size = len(State._fields)
    return State._make(row[:size]), row[size:]
