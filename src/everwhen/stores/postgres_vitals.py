"""Counts over a whole PostgreSQL database.

Numbers are assigned before their transactions commit. Events contain the number of their transaction, so a tally
counts those of the transactions that have ended since the last one. Jobs contain none: a tally counts them up to the
horizon.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from everwhen.model.vitals import Crowd, Mark, Signs, Tally, signs_of
from everwhen.stores.postgres_adapters import At
from everwhen.stores.postgres_database import PostgresDatabase
from everwhen.stores.postgres_horizon import Horizon

_SCHEDULES = """
SELECT status, held_reason, skip_reason, count(*), sum(skip_count)::bigint FROM schedules GROUP BY 1, 2, 3"""
# idx_jobs_outstanding
_JOBS = "SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status"
_BREAKERS = "SELECT state, count(*) FROM circuit_breakers GROUP BY state"
# idx_schedules_next_run, from its front
_OVERDUE = (
    "SELECT count(*) FROM (SELECT 1 FROM schedules WHERE enabled AND next_run_at < %s LIMIT %s) AS found"
)
_IS_PAUSED = "SELECT count(*) FROM settings WHERE key = 'system_paused' AND value != ''"
_OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# idx_audit_commit
_SLOTS = """
SELECT type, coalesce(reason, ''), sum(slot_count)::bigint FROM audit_events
WHERE xid >= %s::text::xid8 AND xid < %s::text::xid8
    AND type IN ('schedule.skipped', 'schedule.missed', 'schedule.caught_up') GROUP BY 1, 2"""
# The primary key, from the mark on
_FIRED = "SELECT origin, count(*) FROM jobs WHERE row_id > %s AND row_id <= %s AND retry = 0 GROUP BY origin"


class PostgresVitals:
    """Counts, on one PostgreSQL database."""

    def __init__(self, database: PostgresDatabase, horizon: Horizon) -> None:
        self._database = database
        self._horizon = horizon

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        with self._database.snapshot() as connection:
            crowds = [Crowd._make(row) for row in _fetch(connection, _SCHEDULES)]
            jobs = dict(_fetch(connection, _JOBS))
            breakers = dict(_fetch(connection, _BREAKERS))
            ((overdue,),) = _fetch(connection, _OVERDUE, At(overdue_since), most_overdue)
            ((paused,),) = _fetch(connection, _IS_PAUSED)
        return signs_of(crowds, jobs, breakers, overdue, is_paused=bool(paused))

    def mark(self) -> Mark:
        return Mark(self._database.ask(_OLDEST_OPEN)[0][0], self._horizon.start())

    def tally(self, since: Mark) -> Tally:
        settled = max(self._horizon.row(), since.jobs)
        with self._database.snapshot() as connection:
            ((oldest,),) = _fetch(connection, _OLDEST_OPEN)
            slots = _fetch(connection, _SLOTS, str(since.events), str(oldest))
            fired = dict(_fetch(connection, _FIRED, since.jobs, settled))
        return Tally({(kind, reason): n for kind, reason, n in slots}, fired, Mark(oldest, settled))


def _fetch(connection: Connection[Any], query: str, *values: object) -> list[Any]:
    return connection.execute(query.encode(), values or None).fetchall()
