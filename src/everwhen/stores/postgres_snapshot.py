"""Reads on PostgreSQL. In a writing transaction, rows that are read to be changed are locked (`_LOCK`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

from psycopg import Connection

from everwhen.decide.hand_over import OnTheirWay
from everwhen.model.breaker import Breaker
from everwhen.model.counters import ScheduleCounters
from everwhen.model.delivery import Delivery
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.node import Node
from everwhen.model.queries import MessageFilter
from everwhen.model.schedule import State
from everwhen.model.subscription import Message, Subscription
from everwhen.model.token import Answer, Token, token_of
from everwhen.stores import postgres_statements as sql
from everwhen.stores.postgres_adapters import At, Instants, Integers, Texts
from everwhen.stores.postgres_queries import PostgresQueries
from everwhen.stores.postgres_watermark import Marks
from everwhen.stores.storable import storable
from everwhen.stores.transaction import Due, Finished, LockHint, Row


class PostgresSnapshot(PostgresQueries):
    """The reads on one connection."""

    _LOCK: ClassVar[str] = ""
    own_revisions: Collection[tuple[str, int]] = ()

    def __init__(self, connection: Connection[Any], marks: Marks) -> None:
        super().__init__(connection)
        self._marks = marks
        self._settings: dict[str, str] | None = None
        self._peeked: list[int] = []  # the rows of the last peek, locked next

    def _rows(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        return self._cursor.execute(query.encode(), values).fetchall()

    def _states(self, query: str, values: Sequence[object] | Mapping[str, object]) -> list[State]:
        return [State._make(row) for row in self._rows(query, values)]

    def _jobs(self, query: str, values: Sequence[object] | Mapping[str, object]) -> list[Job]:
        return [Job._make(row) for row in self._rows(query, values)]

    # -- peeks --

    def peek_due(self, due: Due) -> Sequence[LockHint]:
        offset = due.page * due.limit
        values = {
            "now": At(due.now),
            "floor": At(due.floor),
            "mark": At(self._marks.due.at),
            "limit": due.limit,
            "offset": offset,
            "until": offset + due.limit,
        }
        return self._remember(self._rows(sql.PEEK_BEHIND if due.behind else sql.PEEK_DUE, values))

    def peek_ready(self, now: int, *, limit: int, queues: Sequence[str] | None) -> Sequence[LockHint]:
        wanted = None if queues is None else Texts(list(queues))
        return self._remember(
            self._rows(
                sql.PEEK_READY,
                {"now": At(now), "mark": At(self._marks.ready.at), "limit": limit, "queues": wanted},
            )
        )

    def _remember(self, rows: Sequence[Row]) -> list[LockHint]:
        self._peeked = [row[0] for row in rows]  # type: ignore[misc]
        return [LockHint._make(_padded(row[1:])) for row in rows]

    def peek_deliverable(self, now: int, *, limit: int) -> Sequence[LockHint]:
        values = {"now": At(now), "mark": At(self._marks.ready.at), "limit": limit}
        return self._remember(self._rows(sql.PEEK_DELIVERABLE, values))

    def peek_jobs(self, job_ids: Sequence[str]) -> Sequence[LockHint]:
        return [LockHint._make(row) for row in self._rows(sql.PEEK_JOBS, (Texts(job_ids),))]

    def peek_schedule(self, schedule_id: str) -> Sequence[LockHint]:
        return [LockHint._make(row) for row in self._rows(sql.PEEK_SCHEDULE, {"id": storable(schedule_id)})]

    # -- reads that lock --

    def limits(self, keys: Collection[str]) -> dict[str, Limit]:
        found = {
            row[0]: Limit._make(row) for row in self._rows(sql.LIMITS + self._LOCK, (Texts(sorted(keys)),))
        }
        return {key: found.get(key) or Limit(key) for key in keys}

    def breakers(self, keys: Collection[str]) -> dict[str, Breaker]:
        rows = self._rows(sql.BREAKERS + self._LOCK, (Texts(sorted(keys)),))
        found = {row[0]: Breaker._make(row) for row in rows}
        return {key: found.get(key) or Breaker(key) for key in keys}

    limits_at_hand, breakers_at_hand = limits, breakers  # a reader waits for no lock

    def due(self, due: Due) -> list[State]:
        if not self._peeked:
            return []
        found = self._states(sql.TAKE_DUE, {"rows": Integers(self._peeked), "now": At(due.now)})
        return sorted(found)  # by row_id, so that of equal ones the older goes first on every database

    def lock_schedules(self, uids: Collection[str]) -> None:
        self._rows(sql.SCHEDULES_OF + self._LOCK, (Texts(sorted(uids)),))

    def states(self, uids: Collection[str]) -> dict[str, State]:
        found = self._states(sql.STATES_OF + self._LOCK, (Texts(sorted(uids)),))
        return {state.uid: state for state in found}

    def counters(self, uids: Collection[str]) -> dict[str, ScheduleCounters]:
        if not uids:
            return {}
        found = self._rows(sql.COUNTERS_OF + self._LOCK, (Texts(sorted(uids)),))
        return {counts.uid: counts for counts in map(ScheduleCounters._make, found)}

    def state(self, schedule_id: str) -> State | None:
        return next(iter(self._states(sql.STATE_BY_ID + self._LOCK, {"id": storable(schedule_id)})), None)

    def states_of_source(self, source: str) -> list[State]:
        return self._states(sql.STATES_OF_SOURCE, (source,))

    def states_from_before(self, source: str, *, only_groups: bool) -> list[State]:
        return self._states(sql.STATES_FROM_BEFORE, {"source": source, "only_groups": only_groups})

    def states_soonest(self, limit: int, owner: str | None) -> list[State]:
        whose = None if owner is None else storable(owner)
        return self._states(sql.STATES_SOONEST, {"limit": limit, "owner": whose})

    def states_reached(self, now: int) -> list[State]:
        return self._states(sql.STATES_REACHED + self._LOCK, (At(now),))

    def states_until(self, until: int, *, limit: int) -> list[State]:
        return self._states(sql.STATES_UNTIL, {"until": At(until), "limit": limit})

    def jobs_until(self, until: int, *, limit: int) -> list[Job]:
        return self._jobs(sql.JOBS_UNTIL, {"until": At(until), "limit": limit})

    def states_deferred(self, policy_id: str) -> list[State]:
        return self._states(sql.STATES_DEFERRED + self._LOCK, (policy_id,))

    def list_states(self, wanted: Mapping[str, str], *, limit: int, after: str) -> list[State]:
        where = " AND ".join([*(f'"{name}" = %({name})s' for name in wanted), "schedule_id > %(after)s"])
        # The unique key on schedule_id, scanned in order.
        query = f"SELECT {sql.STATE} FROM schedules WHERE {where} ORDER BY schedule_id LIMIT %(limit)s"
        return self._states(query, {**wanted, "after": after, "limit": limit})

    def ready_jobs(self, now: int, *, limit: int, queues: Sequence[str] | None) -> list[Job]:
        if not self._peeked:
            return []
        return self._jobs(sql.TAKE_READY, {"rows": Integers(self._peeked), "now": At(now)})

    def ready_of(self, uids: Collection[str], now: int, *, queues: Sequence[str] | None) -> list[Job]:
        # No lock of their own: their schedules are locked.
        wanted = None if queues is None else Texts(list(queues))
        return self._jobs(sql.READY_OF, {"uids": Texts(sorted(uids)), "now": At(now), "queues": wanted})

    def jobs(self, job_ids: Sequence[str]) -> dict[str, Job]:
        found = self._jobs(sql.JOBS, (Texts(sorted(set(job_ids))),))
        return {job.job_id: job for job in found}

    def deliverable_jobs(self, now: int, *, limit: int) -> list[Job]:
        if not self._peeked:
            return []
        return self._jobs(sql.TAKE_DELIVERABLE, {"rows": Integers(self._peeked), "now": At(now)})

    def on_their_way(self, jobs: Sequence[Job]) -> OnTheirWay:
        keys = sorted({job.capacity_key for job in jobs if job.capacity_key is not None})
        lines = sorted({job.uid for job in jobs if job.line == "own"})
        sent = dict(self._rows(sql.SENT_KEYS, (Texts(keys),))) if keys else {}
        return OnTheirWay(sent, {uid for (uid,) in self._rows(sql.SENT_LINES, (Texts(lines),))})

    def deliveries(self, job_ids: Sequence[str]) -> dict[str, int]:
        return dict(self._rows(sql.SENT_NUMBERS, (Texts(sorted(set(job_ids))),)))

    def overdue_deliveries(self, now: int, *, limit: int) -> list[Delivery]:
        return [Delivery(*row) for row in self._rows(sql.OVERDUE_DELIVERIES, (At(now), limit))]

    def needless_deliveries(self, *, limit: int) -> list[Delivery]:
        return [Delivery(*row) for row in self._rows(sql.NEEDLESS_DELIVERIES, (limit,))]

    def delivery_of(self, job_id: str) -> Delivery | None:
        return next((Delivery(*row) for row in self._rows(sql.DELIVERY_OF, (storable(job_id),))), None)

    def next_delivery_at(self, now: int) -> int | None:
        self._look_for_ready(now)  # others may have written below the mark
        return self._one(sql.NEXT_DELIVERY, {"mark": At(self._marks.ready.at)})

    def finished(self, job_ids: Sequence[str]) -> list[Finished]:
        return [Finished._make(row) for row in self._rows(sql.FINISHED, (Texts(sorted(set(job_ids))),))]

    def filled_slots(self, uid: str, slots: Sequence[int]) -> set[int]:
        return {row[0] for row in self._rows(sql.FILLED_SLOTS, {"uid": uid, "slots": Instants(slots)})}

    def outstanding(self, uids: Collection[str]) -> dict[str, list[Job]]:
        # No lock of their own: a transaction that changes them has locked the row of their schedule.
        jobs = self._jobs(sql.OUTSTANDING, (Texts(sorted(uids)),))
        return {uid: list(group) for uid, group in groupby(jobs, key=lambda job: job.uid)}

    def all_outstanding(self) -> list[Job]:
        return self._jobs(sql.ALL_OUTSTANDING, ())

    def unreleased_jobs(self) -> list[Job]:
        return self._jobs(sql.UNRELEASED_JOBS, ())

    def last_instant(self) -> int:
        return self._one(sql.LAST_INSTANT) or 0

    def plugin_states(self, plugins: Collection[str]) -> dict[str, str]:
        return dict(self._rows(sql.PLUGIN_STATES + self._LOCK, (Texts(sorted(plugins)),)))

    def subscription(self, subscriber: str) -> Subscription | None:
        query = f"{sql.SUBSCRIPTIONS} WHERE subscriber = %s{self._LOCK}"
        rows = self._rows(query, (storable(subscriber),))
        return Subscription._make(rows[0]) if rows else None

    def subscriptions(self) -> list[Subscription]:
        return [Subscription._make(row) for row in self._rows(f"{sql.SUBSCRIPTIONS} ORDER BY subscriber")]

    def messages_after(self, message_id: int, *, limit: int) -> list[Message]:
        # Where retention has deleted the message of the cursor, those with a larger id follow it.
        query = sql.MESSAGES_AFTER if self._rows(sql.IS_MESSAGE, (message_id,)) else sql.MESSAGES_ABOVE
        return [Message._make(row) for row in self._rows(query, {"id": message_id, "limit": limit})]

    def last_message_id(self) -> int:
        return next((row[0] for row in self._rows(sql.LAST_MESSAGE)), 0)

    def list_messages(self, wanted: MessageFilter, *, limit: int, before: int | None) -> list[Message]:
        rows = self._rows(sql.LIST_MESSAGES, {**_wanted(wanted), "before": before, "limit": limit})
        return [Message._make(row) for row in rows]

    def count_messages(self, wanted: MessageFilter, *, most: int) -> int:
        (found,) = self._rows(sql.COUNT_MESSAGES, {**_wanted(wanted), "before": None, "limit": most})
        return int(found[0])

    def queued_catch_up(self, breaker_keys: Collection[str]) -> list[Job]:
        return self._jobs(sql.QUEUED_CATCH_UP, (Texts(sorted(breaker_keys)),))

    def jobs_external_over(self, now: int) -> list[Job]:
        return self._jobs(sql.JOBS_EXTERNAL_OVER, (At(now),))

    def outcome_token(self, job_id: str) -> str | None:
        rows = list(self._rows(sql.OUTCOME_TOKEN, (job_id,)))
        return rows[0][0] if rows else None

    def jobs_of_dead_nodes(self, *, node: str, oldest: int, newest: int) -> list[Job]:
        return self._jobs(sql.JOBS_OF_DEAD_NODES, (node, At(oldest), At(newest)))

    def jobs_of_node(self, node: str) -> list[Job]:
        return self._jobs(sql.JOBS_OF_NODE, (node,))

    def lost_nodes(self, *, node: str, oldest: int, newest: int) -> list[Node]:
        return [Node._make(row) for row in self._rows(sql.LOST_NODES, (node, At(oldest), At(newest)))]

    # -- reads that never lock --

    def settings(self) -> Mapping[str, str]:
        if self._settings is None:
            self._settings = dict(self._rows("SELECT key, value FROM settings"))
        return self._settings

    def policies(self, source: str | None = None) -> list[tuple[str, str]]:
        return self._rows(sql.POLICIES, (source, source))

    def hold_policies(self, policy_ids: Collection[str]) -> dict[str, str]:
        return dict(self._rows(sql.HOLD_POLICIES, (Texts([storable(one) for one in policy_ids]),)))

    def config_revision(self, source: str) -> tuple[int, str]:
        rows = self._rows(sql.CONFIG_REVISION, (source,))
        return (rows[0][0], rows[0][1]) if rows else (0, "")

    def config_places(self) -> str | None:
        rows = self._rows(sql.CONFIG_PLACES)
        return rows[0][0] if rows else None

    def config_sections(self) -> str | None:
        rows = self._rows(sql.CONFIG_SECTIONS)
        return rows[0][0] if rows else None

    def revisions(self, keys: Sequence[tuple[str, int]]) -> Iterable[tuple[str, int, str, str]]:
        uids, numbers = zip(*keys, strict=True)
        return self._rows(sql.REVISIONS, (Texts(uids), Integers(numbers)))

    def heartbeats(self, since: int) -> list[tuple[int, int]]:
        return self._rows(sql.COVERAGE, (At(since),))

    def clock_steps(self, since: int) -> list[tuple[int, int]]:
        return self._rows(sql.CLOCK_STEPS, (At(since),))

    def last_heartbeat_at(self) -> int | None:
        return self._one(sql.LAST_HEARTBEAT)

    def _one(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> int | None:
        found: int | None = self._rows(query, values)[0][0]
        return found

    def next_due_at(self) -> int | None:
        with self._marks.due.search() as mark:
            mark.found = self._one(sql.NEXT_DUE, (At(mark.at),))
        return mark.found

    def next_resume_at(self) -> int | None:
        return self._one(sql.NEXT_RESUME)

    def next_ready_at(self, queues: Sequence[str] | None, now: int | None = None) -> int | None:
        if now is not None:
            self._look_for_ready(now)
        wanted = None if queues is None else Texts(list(queues))
        return self._one(sql.NEXT_READY, {"mark": At(self._marks.ready.at), "queues": wanted})

    def _look_for_ready(self, now: int) -> None:
        """Find the first ready job from the very front, every few seconds, whether it can start or not."""
        with self._marks.ready.search() as look:
            if not look.is_whole:
                return
            look.found = self._one(sql.FIRST_READY)
        self._marks.ready.raise_to(now if look.found is None else min(look.found, now))

    def nodes(self) -> list[Node]:
        return [Node._make(row) for row in self._rows(sql.NODES)]

    def cancel_requests(self, node: str) -> list[str]:
        return [row[0] for row in self._rows(sql.CANCEL_REQUESTS, (node,))]

    def due_to_resume(self, now: int) -> list[str]:
        return [row[0] for row in self._rows(sql.DUE_TO_RESUME, (At(now),))]

    def entries(
        self, wanted: Mapping[str, str], *, text: str | None, limit: int, before: int | None, offset: int
    ) -> list[tuple[State, Row]]:
        where, values = _filtered(wanted, text)
        if before is not None:
            where, values = f"{where} AND row_id < %(before)s", {**values, "before": before}
        query = f"""SELECT {sql.ENTRY} FROM schedules WHERE {where} ORDER BY row_id DESC
            LIMIT %(limit)s OFFSET %(offset)s"""
        return [_entry(row) for row in self._rows(query, {**values, "limit": limit, "offset": offset})]

    def entry(self, schedule_id: str) -> tuple[State, Row] | None:
        query = sql.STATE_BY_ID.replace(sql.STATE, sql.ENTRY)
        rows = self._rows(query, {"id": storable(schedule_id)})
        return _entry(rows[0]) if rows else None

    def id_of_key(self, key: str) -> str | None:
        rows = self._rows("SELECT schedule_id FROM schedules WHERE key = %s", (storable(key),))
        return rows[0][0] if rows else None

    def count_schedules(self, wanted: Mapping[str, str], *, text: str | None, most: int) -> int:
        where, values = _filtered(wanted, text)
        query = f"SELECT count(*) FROM (SELECT 1 FROM schedules WHERE {where} LIMIT %(most)s) AS found"
        return self._one(query, {**values, "most": most}) or 0

    def count_of_token(self, token_id: str) -> int:
        return self._one(sql.COUNT_OF_TOKEN, (token_id,)) or 0

    def token_by_hash(self, hash: str) -> Token | None:
        rows = self._rows(f"{sql.TOKENS} WHERE hash = %s", (hash,))
        return token_of(rows[0]) if rows else None

    def tokens(self) -> list[Token]:
        return [token_of(row) for row in self._rows(f"{sql.TOKENS} ORDER BY created_at DESC, token_id")]

    def token_of_session(self, hash: str, now: int) -> Token | None:
        rows = self._rows(sql.TOKEN_OF_SESSION, (hash, At(now)))
        return token_of(rows[0]) if rows else None

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        rows = self._rows(sql.ANSWER, (token_id, key, At(since)))
        return Answer(*rows[0]) if rows else None

    def requester(self, job: Job) -> str | None:
        rows = self._rows(sql.REQUESTER, (job.uid, At(job.slot_at), job.job_id))
        return rows[0][0] if rows else None

    def users_of_policy(self, policy_id: str) -> list[str]:
        # A pass over schedules: used only when a policy is deleted.
        query = "SELECT schedule_id FROM schedules WHERE quiet_hours_policy_id = %s ORDER BY schedule_id"
        return [row[0] for row in self._rows(query, (storable(policy_id),))]


def _padded(row: Row) -> Row:
    return row + (None,) * (len(LockHint._fields) - len(row))


def _filtered(wanted: Mapping[str, str], text: str | None) -> tuple[str, dict[str, object]]:
    conditions = [f'"{name}" = %({name})s' for name in wanted]
    values: dict[str, object] = {name: storable(value) for name, value in wanted.items()}
    if text is not None:
        conditions.append("(strpos(lower(name), %(text)s) > 0 OR strpos(lower(schedule_id), %(text)s) > 0)")
        values["text"] = storable(text.lower())
    return " AND ".join(conditions) or "TRUE", values


def _entry(row: Row) -> tuple[State, Row]:
    size = len(State._fields)
    return State._make(row[:size]), row[size:]


def _wanted(wanted: MessageFilter) -> dict[str, object]:
    return {
        "owner": _text(wanted.owner),
        "schedule_id": _text(wanted.schedule_id),
        "since": None if wanted.since is None else At(wanted.since),
        "until": None if wanted.until is None else At(wanted.until),
    }


def _text(text: str | None) -> str | None:
    return None if text is None else storable(text)
