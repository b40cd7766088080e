"""The firings port: jobs up to the horizon, so that none appears before what was read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from everwhen.model.events import FIRING_COLUMNS, PROGRESS_COLUMNS, Firing, Hold, Progress
from everwhen.model.vitals import Holder
from everwhen.store.dialect import Statement
from everwhen.store.transaction import Store, StorePart

T = TypeVar("T")

_OF_JOB = ", ".join(f"j.{name}" for name in FIRING_COLUMNS)
# The primary key of jobs; the unique key on schedules' uid.
_AFTER = Statement(f"""
SELECT {_OF_JOB}, s.owner FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid
WHERE j.row_id > :after AND j.row_id <= :horizon ORDER BY j.row_id LIMIT :limit""")
_OF_PROGRESS = ", ".join(f"j.{name}" for name in PROGRESS_COLUMNS)
_PROGRESS = f"SELECT {_OF_PROGRESS}, s.owner FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid"
_PROGRESS_AFTER = Statement(
    f"{_PROGRESS} WHERE j.row_id > :after AND j.row_id <= :horizon ORDER BY j.row_id LIMIT :limit"
)
_PROGRESS_OF = Statement(f"{_PROGRESS} WHERE j.row_id = ANY(:row_ids::integers)")
# idx_jobs_outstanding
_OUTSTANDING = Statement(f"{_PROGRESS} WHERE j.status IN ('queued', 'running') LIMIT :limit")
# idx_jobs_outstanding
_HOLDERS = Statement("""
SELECT job_id, schedule_id, status, node, started_at, guard_key, capacity_key FROM jobs
WHERE status IN ('queued', 'running')
    AND (guard_key = ANY(:keys::texts) OR capacity_key = ANY(:keys::texts)) LIMIT :limit""")
_OWNERS = Statement("SELECT uid, owner FROM schedules WHERE uid = ANY(:uids::texts)")
# idx_schedules_held and idx_schedules_release: a held slot waits for a key or for an instant, or for both.
_HELD = """
SELECT row_id, uid, schedule_id, owner, held_slot_at, held_due_at, held_reason, held_since, held_key
FROM schedules INDEXED BY {index} WHERE {waits} AND held_slot_at IS NOT NULL AND held_since IS NOT NULL
    AND (:uid::text IS NULL OR uid = :uid::text) AND (:owner::text IS NULL OR owner = :owner::text)"""
_HELD_FOR_KEY = _HELD.format(index="idx_schedules_held", waits="held_key IS NOT NULL")
_HELD_UNTIL = _HELD.format(index="idx_schedules_release", waits="release_at IS NOT NULL AND held_key IS NULL")
_HOLDS = Statement(f"{_HELD_FOR_KEY} UNION ALL {_HELD_UNTIL} LIMIT :limit")
# The primary key of jobs, one step from its end.
_LAST = Statement("SELECT coalesce(max(row_id), 0) FROM jobs")


class RowHorizon(Protocol):
    """The job before which no other can appear any more."""

    def row(self) -> int: ...
    def start(self, patience: float = 0.0) -> int:
        """Return where a new reader begins; so many seconds may pass to find where it misses nothing."""
        ...


class SqliteHorizon:
    """The newest job: there is one writer, so row ids follow the order of commits."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def row(self) -> int:
        with self._store.look() as tx:
            return int(tx.value(_LAST))

    def start(self, patience: float = 0.0) -> int:
        return self.row()


class Firings(StorePart):
    """Jobs in the order in which they were enqueued, on one database."""

    def __init__(self, store: Store, horizon: RowHorizon) -> None:
        super().__init__(store)
        self._horizon = horizon

    def after(self, row_id: int, *, limit: int) -> list[Firing]:
        """Return jobs behind a row, by row_id; never one that another may still precede."""
        return self._behind(Firing._make, _AFTER, row_id, limit)

    def last(self, patience: float = 0.0) -> int:
        """Return the row behind which a stream that starts now begins; 0 when there is none.

        On PostgreSQL a job whose transaction is open may later appear before that row. A reader that must not miss it
        has `patience`, in seconds.
        """
        return self._horizon.start(patience)

    def progress_after(self, row_id: int, *, limit: int) -> list[Progress]:
        """Return the progress of the jobs behind a row, by row_id; the same jobs as `after`."""
        return self._behind(Progress._make, _PROGRESS_AFTER, row_id, limit)

    def _behind(self, make: Callable[[Any], T], statement: Statement, row_id: int, limit: int) -> list[T]:
        horizon = self._horizon.row()
        if horizon <= row_id:
            return []
        return self._many(make, statement, after=row_id, horizon=horizon, limit=limit)

    def progress_of(self, row_ids: Collection[int]) -> list[Progress]:
        """Return the progress of these jobs, without those that no longer exist."""
        return self._many(Progress._make, _PROGRESS_OF, row_ids=row_ids) if row_ids else []

    def outstanding(self, *, limit: int) -> list[Progress]:
        """Return jobs that are queued or running, in no order; at most `limit` of them."""
        return self._many(Progress._make, _OUTSTANDING, limit=limit)

    def owners(self, uids: Collection[str]) -> dict[str, str | None]:
        """Return the owners of these schedules, without those that no longer exist."""
        return dict(self._many(tuple, _OWNERS, uids=uids))

    def holders(self, keys: Collection[str], *, limit: int) -> list[Holder]:
        """Return outstanding jobs that have the places of these limits, in no order."""
        return self._many(Holder._make, _HOLDERS, keys=keys, limit=limit)

    def holds(self, *, uid: str | None = None, owner: str | None = None, limit: int) -> list[Hold]:
        """Return held slots, in no order; at most `limit` of them."""
        return self._many(Hold._make, _HOLDS, uid=uid, owner=owner, limit=limit)
