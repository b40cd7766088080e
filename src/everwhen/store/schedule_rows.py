"""Schedules and their revisions: reads, and writes. A comment names the index that serves each statement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from everwhen.model.claim import ScheduleCounters, Start
from everwhen.model.events import Event
from everwhen.model.row_changes import ENDED_WELL, STARTED
from everwhen.model.schedule import State
from everwhen.store.dialect import Insert, Queries, Statement, composed
from everwhen.store.postgres.watermark import EARLIEST
from everwhen.store.records import INSERTED, Declined, Due, Finished, LockHint, Row

STATE = ", ".join(State._fields)
IS_PAUSED = "EXISTS (SELECT 1 FROM settings WHERE key = 'system_paused' AND value <> '')"

# -- single schedules, and those that are named --

# The unique keys on schedule_id and uid.
_BY_ID = "FROM schedules WHERE schedule_id = :id::text OR uid = :id::text ORDER BY schedule_id = :id::text DESC LIMIT 1"
_STATE_BY_ID = Statement(f"SELECT {STATE} {_BY_ID}")
# The unique key on uid.
_STATES_OF = Statement(f"SELECT {STATE} FROM schedules WHERE uid = ANY(:uids::texts) ORDER BY uid")
_COUNTERS_OF = Statement(f"""
SELECT {", ".join(ScheduleCounters._fields)} FROM schedules WHERE uid = ANY(:uids::texts) ORDER BY uid""")
# The primary key of schedule_revisions, once for each.
_REVISIONS = Statement("""
SELECT r.uid, r.revision, r.schedule_id, r.words FROM batch AS v(uid, revision) CROSS JOIN schedule_revisions r
WHERE r.uid = v.uid AND r.revision = v.revision""")
# The unique key on key.
_ID_OF_KEY = Statement("SELECT schedule_id FROM schedules WHERE key = :key::text")
# The unique key on schedule_id; the primary key of schedule_revisions.
_KNOWN_IDS = Statement("SELECT schedule_id FROM schedules WHERE schedule_id = ANY(:ids::texts)")
_USED_UIDS = Statement("SELECT uid FROM schedule_revisions WHERE uid = ANY(:uids::texts)")

# -- schedules by their time --

# idx_schedules_next_run, from its front.
_SOONEST = Statement(f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at IS NOT NULL
    AND (:owner::text IS NULL OR owner = :owner::text) ORDER BY next_run_at LIMIT :limit""")
# A pass over schedules: rare, and by slot_at, which no index has (it differs from next_run_at by jitter).
_REACHED = Statement(
    f"SELECT {STATE} FROM schedules WHERE enabled AND next_slot_at <= :now::instant ORDER BY uid"
)
# idx_schedules_next_run and idx_schedules_release, each from its front.
_UNTIL = Statement(f"""
SELECT {STATE} FROM schedules WHERE row_id IN (
    SELECT row_id FROM (SELECT row_id FROM schedules WHERE enabled AND next_run_at <= :until::instant
        ORDER BY next_run_at LIMIT :limit) AS due
    UNION SELECT row_id FROM (SELECT row_id FROM schedules WHERE release_at IS NOT NULL
        AND release_at <= :until::instant AND enabled ORDER BY release_at LIMIT :limit) AS released)""")
# idx_schedules_next_run, idx_schedules_release: one step into each. On PostgreSQL dead entries stay in an index until
# it is vacuumed, and a scan from the very front passes all of them: it starts at the mark to skip them.
NEXT_DUE = Statement(f"""
SELECT min(at) FROM (
    SELECT min(next_run_at) AS at FROM schedules WHERE enabled AND next_run_at >= :mark::instant
    UNION ALL SELECT min(release_at) FROM schedules WHERE release_at IS NOT NULL) AS ends WHERE NOT {IS_PAUSED}""")
# idx_schedules_resume, from its front.
_NEXT_RESUME = Statement("""
SELECT min(resume_at) FROM schedules WHERE resume_at IS NOT NULL AND status = 'paused'""")
_DUE_TO_RESUME = Statement("""
SELECT schedule_id FROM schedules
WHERE resume_at IS NOT NULL AND resume_at <= :now::instant AND status = 'paused'""")
# idx_schedules_release: a deferred slot has its opening there, and no key.
_DEFERRED = Statement(f"""
SELECT {STATE} FROM schedules INDEXED BY idx_schedules_release
WHERE release_at IS NOT NULL AND held_key IS NULL AND quiet_hours_policy_id = :policy_id::text ORDER BY uid""")

# -- lists --

_OF_SOURCE = Statement(f"SELECT {STATE} FROM schedules WHERE source = :source::text ORDER BY uid")
# idx_revisions_before, and the unique key on uid.
_FROM_BEFORE = Statement(f"""
SELECT {", ".join(f"s.{name}" for name in State._fields)} FROM schedule_revisions r
JOIN schedules s ON s.uid = r.uid AND s.revision = r.revision
WHERE r.cause IS NULL AND s.source = :source::text AND (s."group" IS NOT NULL OR NOT :only_groups)
ORDER BY s.row_id""")
# Newest first: the primary key backwards; of an owner or a group idx_schedules_owner, idx_schedules_group.
_ENTRY = f"{STATE}, source, key, token_id, created_at, updated_at"
_ENTRY_BY_ID = Statement(f"SELECT {_ENTRY} {_BY_ID}")
# idx_schedules_token
_COUNT_OF_TOKEN = Statement("SELECT count(*) FROM schedules WHERE token_id = :token_id::text")
# A pass over schedules: used only when a policy is deleted.
_USERS_OF_POLICY = Statement("""
SELECT schedule_id FROM schedules WHERE quiet_hours_policy_id = :policy_id::text ORDER BY schedule_id""")


class ScheduleReads(Queries):
    """Reads of schedules; inside a writing transaction they lock the rows that it may change."""

    own_revisions: Collection[tuple[str, int]] = ()
    """The revisions (uid and number) that this transaction has written and that no other can see."""

    def peek_due(self, due: Due) -> Sequence[LockHint]:
        return ()

    def peek_schedule(self, schedule_id: str) -> Sequence[LockHint]:
        return ()

    def _states(self, rows: Sequence[Row]) -> list[State]:
        return [State._make(row) for row in rows]

    @abstractmethod
    def due(self, due: Due) -> list[State]: ...

    def lock_schedules(self, uids: Collection[str]) -> None:
        return None

    def states(self, uids: Collection[str]) -> dict[str, State]:
        return {state.uid: state for state in map(State._make, self.rows_to_change(_STATES_OF, uids=uids))}

    def counters(self, uids: Collection[str]) -> dict[str, ScheduleCounters]:
        if not uids:
            return {}
        found = self.rows_to_change(_COUNTERS_OF, uids=uids)
        return {counts.uid: counts for counts in map(ScheduleCounters._make, found)}

    def state(self, schedule_id: str) -> State | None:
        rows = self.rows_to_change(_STATE_BY_ID, id=schedule_id)
        return State._make(rows[0]) if rows else None

    def states_of_source(self, source: str) -> list[State]:
        return self._states(self.rows(_OF_SOURCE, source=source))

    def states_from_before(self, source: str, *, only_groups: bool) -> list[State]:
        """Return the schedules of a source, or its groups, whose newest revision an earlier release has written."""
        return self._states(self.rows(_FROM_BEFORE, source=source, only_groups=only_groups))

    def states_soonest(self, limit: int, owner: str | None) -> list[State]:
        return self._states(self.rows(_SOONEST, limit=limit, owner=owner))

    def states_reached(self, now: int) -> list[State]:
        return self._states(self.rows_to_change(_REACHED, now=now))

    def states_until(self, until: int, *, limit: int) -> list[State]:
        """Return active schedules with a slot that is due by then, or released."""
        return self._states(self.rows(_UNTIL, until=until, limit=limit))

    def states_deferred(self, policy_id: str) -> list[State]:
        return self._states(self.rows_to_change(_DEFERRED, policy_id=policy_id))

    def list_states(self, wanted: Mapping[str, str], *, limit: int, after: str) -> list[State]:
        where = " AND ".join(
            [*(f'"{name}" = :{name}::text' for name in wanted), "schedule_id > :after::text"]
        )
        # The unique key on schedule_id, scanned in order.
        query = f"SELECT {STATE} FROM schedules WHERE {where} ORDER BY schedule_id LIMIT :limit"
        return self._states(self.rows(composed(query), **wanted, after=after, limit=limit))

    def revisions(self, keys: Sequence[tuple[str, int]]) -> list[tuple[str, int, str, str]]:
        return self.rows(_REVISIONS, batch=keys)

    def next_due_at(self) -> int | None:
        """Return the earliest due slot or release; None while the system is paused, or the loop would not sleep."""
        return self.number(NEXT_DUE, mark=EARLIEST)

    def next_resume_at(self) -> int | None:
        """Return the earliest end of a pause that has one."""
        return self.number(_NEXT_RESUME)

    def due_to_resume(self, now: int) -> list[str]:
        return [row[0] for row in self.rows(_DUE_TO_RESUME, now=now)]

    def entries(
        self, wanted: Mapping[str, str], *, text: str | None, limit: int, before: int | None, offset: int
    ) -> list[tuple[State, Row]]:
        """Return schedules, newest first, each with source, key, token_id, created_at, updated_at."""
        where, values = _filtered(wanted, text)
        if before is not None:
            where, values = f"{where} AND row_id < :before", {**values, "before": before}
        query = f"""
SELECT {_ENTRY} FROM schedules WHERE {where} ORDER BY row_id DESC LIMIT :limit OFFSET :offset"""
        return [_entry(row) for row in self.rows(composed(query), **values, limit=limit, offset=offset)]

    def entry(self, schedule_id: str) -> tuple[State, Row] | None:
        row = self.row(_ENTRY_BY_ID, id=schedule_id)
        return None if row is None else _entry(row)

    def id_of_key(self, key: str) -> str | None:
        return self.text(_ID_OF_KEY, key=key)

    def count_schedules(self, wanted: Mapping[str, str], *, text: str | None, most: int) -> int:
        where, values = _filtered(wanted, text)
        query = f"SELECT count(*) FROM (SELECT 1 FROM schedules WHERE {where} LIMIT :most) AS found"
        return int(self.value(composed(query), **values, most=most))

    def count_of_token(self, token_id: str) -> int:
        return int(self.value(_COUNT_OF_TOKEN, token_id=token_id))

    def users_of_policy(self, policy_id: str) -> list[str]:
        """Return the ids of the schedules that name the policy."""
        return [row[0] for row in self.rows(_USERS_OF_POLICY, policy_id=policy_id)]


def _filtered(wanted: Mapping[str, str], text: str | None) -> tuple[str, dict[str, object]]:
    conditions = [f'"{name}" = :{name}::text' for name in wanted]
    values: dict[str, object] = {**wanted}
    if text is not None:
        conditions.append(
            "(strpos(lower(name), :text::text) > 0 OR strpos(lower(schedule_id), :text::text) > 0)"
        )
        values["text"] = text.lower()
    return " AND ".join(conditions) or "TRUE", values


def _entry(row: Row) -> tuple[State, Row]:
    size = len(State._fields)
    return State._make(row[:size]), row[size:]


# -- writes --

INSERT_SCHEDULE = Insert(
    "schedules",
    INSERTED,
    sparse=(
        "owner",
        "paused_by",
        "status_reason",
        "group",
        "command",
        "quiet_hours_policy_id",
        "key",
        "token_id",
    ),
)
INSERT_REVISION = Insert(
    "schedule_revisions", ("uid", "revision", "schedule_id", "in_force_at", "anchor_at", "words", "cause")
)
# The primary key of schedule_revisions.
_PUT_CAUSES = Statement("""
UPDATE schedule_revisions AS r SET cause = v.cause FROM batch AS v(cause, uid, revision)
WHERE r.uid = v.uid AND r.revision = v.revision AND r.cause IS NULL""")
# The primary key of schedules.
_BEGAN = {"running": ":running", "began_waiting": ":waiting", "began_retries": ":retries_waiting"}
_COUNT_STARTS = Statement(f"""
UPDATE schedules SET {STARTED.to_sql(**_BEGAN, run_at=":run_at::instant")}
WHERE row_id = ANY(:row_ids::integers)""")
_COUNT_SUCCESSES = Statement(f"""
UPDATE schedules AS s SET {ENDED_WELL.to_sql(now=":now::instant", job_id="v.job_id")}
FROM batch AS v(row_id, job_id) WHERE s.row_id = v.row_id""")
_DELETE = Statement("DELETE FROM schedules WHERE row_id = :row_id")


class ScheduleWrites(ScheduleReads):
    """Writes of schedules."""

    own_revisions: set[tuple[str, int]]

    @abstractmethod
    def insert_schedules(
        self, schedules: Sequence[Row], revisions: Sequence[Row], events: Sequence[Event]
    ) -> str | None:
        """Return None when all were written; else a taken id or uid: then the transaction must be rolled back."""

    def _taken(self, schedules: Sequence[Row]) -> str:
        """Return the first id that exists or occurs twice; if there is none, the first such uid."""
        uids, ids = [str(row[0]) for row in schedules], [str(row[1]) for row in schedules]
        known = {row[0] for row in self.rows(_KNOWN_IDS, ids=ids)}
        used = {row[0] for row in self.rows(_USED_UIDS, uids=uids)}
        return _first_taken(ids, known) or _first_taken(uids, used) or uids[0]

    def insert_revision(self, revision: Row) -> None:
        self.insert(INSERT_REVISION, [revision])
        uid, number, *_ = revision
        self.own_revisions.add((uid, number))  # type: ignore[arg-type]

    def put_causes(self, causes: Sequence[tuple[str, str, int]]) -> None:
        """Write why revisions were written, by uid and number, where that is not recorded."""
        self.run(_PUT_CAUSES, batch=causes)

    def update_states(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self.update("schedules", columns, rows)

    def count_starts(self, start: Start, row_ids: Sequence[int], now: int) -> None:
        """Add this to each of these rows."""
        self.run(
            _COUNT_STARTS,
            running=start.running_jobs,
            waiting=start.waiting,
            retries_waiting=start.retries_waiting,
            run_at=now if start.is_own else None,
            row_ids=row_ids,
        )

    def count_successes(self, jobs: Sequence[Finished], now: int) -> None:
        """Count one success on the row of each schedule: of own jobs, after which nothing is outstanding."""
        self.run(_COUNT_SUCCESSES, now=now, batch=[(job.schedule_row, job.job_id) for job in jobs])

    def delete_schedule(self, row_id: int) -> None:
        self.run(_DELETE, row_id=row_id)

    @abstractmethod
    def release_held(self, places: Sequence[tuple[str, int]], now: int) -> None: ...

    @abstractmethod
    def release_next_held(self, declined: Sequence[Declined], now: int) -> None: ...


def _first_taken(names: Sequence[str], known: Collection[str]) -> str | None:
    seen: set[str] = set(known)
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
