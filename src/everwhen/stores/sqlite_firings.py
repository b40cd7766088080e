"""The feed of jobs on SQLite. There is one writer, so row ids follow the order of commits."""

from __future__ import annotations

import json
from collections.abc import Collection

from everwhen.model.derived import FIRING_COLUMNS, PROGRESS_COLUMNS, Firing, Hold, Progress
from everwhen.stores.sqlite_database import SqliteDatabase

_OF_JOB = ", ".join(f"j.{name}" for name in FIRING_COLUMNS)
# The primary key of jobs; the unique key on schedules' uid.
_AFTER = f"""
SELECT {_OF_JOB}, s.owner FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid
WHERE j.row_id > ? ORDER BY j.row_id LIMIT ?"""
_OF_PROGRESS = ", ".join(f"j.{name}" for name in PROGRESS_COLUMNS)
_PROGRESS = f"SELECT {_OF_PROGRESS}, s.owner FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid"
_PROGRESS_AFTER = f"{_PROGRESS} WHERE j.row_id > ? ORDER BY j.row_id LIMIT ?"
_PROGRESS_OF = f"{_PROGRESS} WHERE j.row_id IN (SELECT value FROM json_each(?))"
# idx_jobs_outstanding
_OUTSTANDING = f"{_PROGRESS} WHERE j.status IN ('queued', 'running') LIMIT ?"
_LAST = "SELECT coalesce(max(row_id), 0) FROM jobs"
_OWNERS = "SELECT uid, owner FROM schedules WHERE uid IN (SELECT value FROM json_each(?))"
# idx_schedules_held and idx_schedules_release: a held slot waits for a key or for an instant, or for both.
_HELD = """
SELECT row_id, uid, schedule_id, owner, held_slot_at, held_due_at, held_reason, held_since
FROM schedules INDEXED BY {index} WHERE {waits} AND held_slot_at IS NOT NULL AND held_since IS NOT NULL
    AND (:uid IS NULL OR uid = :uid) AND (:owner IS NULL OR owner = :owner)"""
_HOLDS = " UNION ALL ".join(
    (
        _HELD.format(index="idx_schedules_held", waits="held_key IS NOT NULL"),
        _HELD.format(index="idx_schedules_release", waits="release_at IS NOT NULL AND held_key IS NULL"),
    )
)


class SqliteFirings:
    """Jobs in the order in which they were enqueued, on one SQLite file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def after(self, row_id: int, *, limit: int) -> list[Firing]:
        with self._database.read() as connection:
            return [Firing._make(row) for row in connection.execute(_AFTER, (row_id, limit))]

    def last(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute(_LAST).fetchone()[0])

    def progress_after(self, row_id: int, *, limit: int) -> list[Progress]:
        return self._progress(_PROGRESS_AFTER, row_id, limit)

    def progress_of(self, row_ids: Collection[int]) -> list[Progress]:
        return self._progress(_PROGRESS_OF, json.dumps(list(row_ids))) if row_ids else []

    def outstanding(self, *, limit: int) -> list[Progress]:
        return self._progress(_OUTSTANDING, limit)

    def _progress(self, query: str, *values: object) -> list[Progress]:
        with self._database.read() as connection:
            return [Progress._make(row) for row in connection.execute(query, values)]

    def owners(self, uids: Collection[str]) -> dict[str, str | None]:
        with self._database.read() as connection:
            return dict(connection.execute(_OWNERS, (json.dumps(list(uids)),)).fetchall())

    def holds(self, *, uid: str | None = None, owner: str | None = None, limit: int) -> list[Hold]:
        values = {"uid": uid, "owner": owner, "limit": limit}
        with self._database.read() as connection:
            return [Hold._make(row) for row in connection.execute(f"{_HOLDS} LIMIT :limit", values)]
