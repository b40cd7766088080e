"""The feed of jobs on PostgreSQL: jobs up to the horizon, so that none appears before what was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from everwhen.model.derived import FIRING_COLUMNS, PROGRESS_COLUMNS, Firing, Hold, Progress
from everwhen.stores.postgres_adapters import Integers, Texts
from everwhen.stores.postgres_database import PostgresDatabase
from everwhen.stores.postgres_horizon import Horizon
from everwhen.stores.storable import storable

_OF_JOB = ", ".join(f"j.{name}" for name in FIRING_COLUMNS)
# The primary key of jobs; the unique key on schedules' uid.
_AFTER = f"""
SELECT {_OF_JOB}, s.owner FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid
WHERE j.row_id > %(after)s AND j.row_id <= %(horizon)s ORDER BY j.row_id LIMIT %(limit)s"""
_OF_PROGRESS = ", ".join(f"j.{name}" for name in PROGRESS_COLUMNS)
_PROGRESS = f"SELECT {_OF_PROGRESS}, s.owner FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid"
_PROGRESS_AFTER = (
    f"{_PROGRESS} WHERE j.row_id > %(after)s AND j.row_id <= %(horizon)s ORDER BY j.row_id LIMIT %(limit)s"
)
_PROGRESS_OF = f"{_PROGRESS} WHERE j.row_id = ANY(%(rows)s)"
# idx_jobs_outstanding
_OUTSTANDING = f"{_PROGRESS} WHERE j.status IN ('queued', 'running') LIMIT %(limit)s"
_OWNERS = "SELECT uid, owner FROM schedules WHERE uid = ANY(%(uids)s)"
# idx_schedules_held and idx_schedules_release: a held slot waits for a key or for an instant, or for both.
_HELD = """
SELECT row_id, uid, schedule_id, owner, held_slot_at, held_due_at, held_reason, held_since
FROM schedules WHERE {waits} AND held_slot_at IS NOT NULL AND held_since IS NOT NULL
    AND (%(uid)s::text IS NULL OR uid = %(uid)s) AND (%(owner)s::text IS NULL OR owner = %(owner)s)"""
_HOLDS = " UNION ALL ".join(
    _HELD.format(waits=waits)
    for waits in ("held_key IS NOT NULL", "release_at IS NOT NULL AND held_key IS NULL")
)


class PostgresFirings:
    """Jobs in the order in which they were enqueued, on one PostgreSQL database."""

    def __init__(self, database: PostgresDatabase, horizon: Horizon) -> None:
        self._database = database
        self._horizon = horizon

    def after(self, row_id: int, *, limit: int) -> list[Firing]:
        horizon = self._horizon.row()
        if horizon <= row_id:
            return []
        values = {"after": row_id, "horizon": horizon, "limit": limit}
        return [Firing._make(row) for row in self._rows(_AFTER, values)]

    def last(self) -> int:
        return self._horizon.start()

    def progress_after(self, row_id: int, *, limit: int) -> list[Progress]:
        horizon = self._horizon.row()
        if horizon <= row_id:
            return []
        return self._progress(_PROGRESS_AFTER, {"after": row_id, "horizon": horizon, "limit": limit})

    def progress_of(self, row_ids: Collection[int]) -> list[Progress]:
        return self._progress(_PROGRESS_OF, {"rows": Integers(list(row_ids))}) if row_ids else []

    def outstanding(self, *, limit: int) -> list[Progress]:
        return self._progress(_OUTSTANDING, {"limit": limit})

    def _progress(self, query: str, values: Mapping[str, object]) -> list[Progress]:
        return [Progress._make(row) for row in self._rows(query, values)]

    def owners(self, uids: Collection[str]) -> dict[str, str | None]:
        return dict(self._rows(_OWNERS, {"uids": Texts([storable(uid) for uid in uids])}))

    def holds(self, *, uid: str | None = None, owner: str | None = None, limit: int) -> list[Hold]:
        values = {"uid": _text(uid), "owner": _text(owner), "limit": limit}
        return [Hold._make(row) for row in self._rows(f"{_HOLDS} LIMIT %(limit)s", values)]

    def _rows(self, query: str, values: Mapping[str, object]) -> list[Any]:
        with self._database.connection() as connection:
            return connection.cursor(binary=True).execute(query.encode(), values).fetchall()


def _text(value: str | None) -> str | None:
    return None if value is None else storable(value)
