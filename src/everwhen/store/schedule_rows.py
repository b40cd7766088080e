"""Schedules and their revisions: reads, and writes. A comment names the index that serves each statement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from everwhen.model.claim import ScheduleCounters, Start
from everwhen.model.events import Event
from everwhen.model.row_changes import ENDED_WELL, STARTED
from everwhen.model.schedule import State
from everwhen.store.dialect import EARLIEST, Insert, Queries, Statement, composed
from everwhen.store.records import INSERTED, Due, Finished, LockHint, Offer, Row

STATE = ", ".join(State._fields)
IS_PAUSED = "EXISTS (SELECT 1 FROM settings WHERE key = 'system_paused' AND value <> '')"

# -- single schedules, and those that are named --

# The unique keys on schedule_id and uid.
BY_ID = "FROM schedules WHERE schedule_id = :id::text OR uid = :id::text ORDER BY schedule_id = :id::text DESC LIMIT 1"
_STATE_BY_ID = Statement(f"SELECT {STATE} {BY_ID}")
# The unique key on uid.
_STATES_OF = Statement(f"SELECT {STATE} FROM schedules WHERE uid = ANY(:uids::texts) ORDER BY uid")
_COUNTERS_OF = Statement(f"""
SELECT {", ".join(ScheduleCounters._fields)} FROM schedules WHERE uid = ANY(:uids::texts) ORDER BY uid""")
# The unique key on schedule_id; the primary key of schedule_revisions.
_KNOWN_IDS = Statement("SELECT schedule_id FROM schedules WHERE schedule_id = ANY(:ids::texts)")
_USED_UIDS = Statement("SELECT uid FROM schedule_revisions WHERE uid = ANY(:uids::texts)")

# -- schedules by their time --

# idx_schedules_next_run, idx_schedules_release: one step into each. On PostgreSQL dead entries stay in an index until
# it is vacuumed, and a scan from the very front passes all of them: it starts at the mark to skip them.
NEXT_DUE = Statement(f"""
SELECT min(at) FROM (
    SELECT min(next_run_at) AS at FROM schedules WHERE enabled AND next_run_at >= :mark::instant
    UNION ALL SELECT min(release_at) FROM schedules WHERE release_at IS NOT NULL) AS ends WHERE NOT {IS_PAUSED}""")


class ScheduleReads(Queries):
    """Reads of schedules; inside a writing transaction they lock the rows that it may change."""

    own_revisions: Collection[tuple[str, int]] = ()
    """The revisions (uid and number) that this transaction has written and that no other can see."""

    def peek_due(self, due: Due) -> Sequence[LockHint]:
        return ()

    def peek_schedule(self, schedule_id: str) -> Sequence[LockHint]:
        return ()

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

    def list_states(self, wanted: Mapping[str, str], *, limit: int, after: str) -> list[State]:
        where = " AND ".join(
            [*(f'"{name}" = :{name}::text' for name in wanted), "schedule_id > :after::text"]
        )
        # The unique key on schedule_id, scanned in order.
        query = f"SELECT {STATE} FROM schedules WHERE {where} ORDER BY schedule_id LIMIT :limit"
        return self.many(State._make, composed(query), **wanted, after=after, limit=limit)

    def next_due_at(self) -> int | None:
        """Return the earliest due slot or release; None while the system is paused, or the loop would not sleep."""
        return self.number(NEXT_DUE, mark=EARLIEST)


# -- writes --

_EMPTY = "owner paused_by status_reason group command quiet_hours_policy_id key token_id expect_at"
INSERT_SCHEDULE = Insert("schedules", INSERTED, sparse=tuple(_EMPTY.split()))
INSERT_REVISION = Insert(
    "schedule_revisions", ("uid", "revision", "schedule_id", "in_force_at", "anchor_at", "words", "cause")
)
# The primary key of schedules.
_BEGAN = {"running": ":running", "began_waiting": ":waiting", "began_retries": ":retries_waiting"}
_COUNT_STARTS = Statement(f"""
UPDATE schedules SET {STARTED.to_sql(**_BEGAN, run_at=":run_at::instant")}
WHERE row_id = ANY(:row_ids::integers)""")
_COUNT_SUCCESSES = Statement(f"""
UPDATE schedules AS s SET
    {ENDED_WELL.to_sql(now=":now::instant", job_id="v.job_id", run_at="v.started_at", max="greatest")}
FROM batch AS v(row_id, job_id, started_at) WHERE s.row_id = v.row_id""")
_DELETE = Statement("DELETE FROM schedules WHERE row_id = :row_id")
# The primary keys of schedules and schedule_costs.
_DELETE_COSTS = Statement("""
DELETE FROM schedule_costs WHERE uid = (SELECT uid FROM schedules WHERE row_id = :row_id)""")


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
        known = set(self.column(_KNOWN_IDS, ids=ids))
        used = set(self.column(_USED_UIDS, uids=uids))
        return _first_taken(ids, known) or _first_taken(uids, used) or uids[0]

    def insert_revision(self, revision: Row) -> None:
        self.insert(INSERT_REVISION, [revision])
        uid, number, *_ = revision
        self.own_revisions.add((uid, number))  # type: ignore[arg-type]

    def update_states(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self.update("schedules", columns, rows)

    def count_starts(self, start: Start, row_ids: Sequence[int], now: int) -> None:
        """Add this to each of these rows."""
        waits = {"waiting": start.waiting, "retries_waiting": start.retries_waiting}
        run_at = now if start.is_own else None
        self.run(_COUNT_STARTS, running=start.running_jobs, **waits, run_at=run_at, row_ids=row_ids)

    def count_successes(self, jobs: Sequence[Finished], now: int) -> None:
        """Count one success on the row of each schedule: of own jobs, after which nothing is outstanding."""
        batch = [(job.schedule_row, job.job_id, job.started_at) for job in jobs]
        self.run(_COUNT_SUCCESSES, now=now, batch=batch)

    def delete_schedule(self, row_id: int) -> None:
        self.run(_DELETE_COSTS, row_id=row_id)
        self.run(_DELETE, row_id=row_id)

    @abstractmethod
    def release_held(self, offers: Sequence[Offer], now: int) -> None:
        """Release as many held slots as there are free places; each offer is of another key."""


def _first_taken(names: Sequence[str], known: Collection[str]) -> str | None:
    seen: set[str] = set(known)
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
