"""Counts about a whole PostgreSQL database.

Here numbers are drawn before their transactions commit. Events have the number of their transaction, so a tally takes
those of the transactions that have ended since the last one. Jobs have none: a tally notes the largest row that it
sees and the first transaction that has yet to begin; when every transaction before that one has ended, all rows up to
there are in, and are counted. Where nothing is open that is at once, otherwise one tally later.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from everwhen.ports.vitals import Mark, Signs, Tally, counted_by
from everwhen.stores.postgres_adapters import At
from everwhen.stores.postgres_database import PostgresDatabase

_SCHEDULES = "SELECT status, held_reason, count(*) FROM schedules GROUP BY status, held_reason"
# idx_jobs_outstanding
_JOBS = "SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status"
_BREAKERS = "SELECT state, count(*) FROM circuit_breakers GROUP BY state"
# idx_schedules_next_run, from its front
_OVERDUE = (
    "SELECT count(*) FROM (SELECT 1 FROM schedules WHERE enabled AND next_run_at < %s LIMIT %s) AS found"
)
_IS_PAUSED = "SELECT count(*) FROM settings WHERE key = 'system_paused' AND value != ''"
_NOW = """
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    (SELECT coalesce(max(row_id), 0) FROM jobs)"""
# idx_audit_commit
_SLOTS = """
SELECT type, coalesce(reason, ''), sum(slot_count)::bigint FROM audit_events
WHERE xid >= %s::text::xid8 AND xid < %s::text::xid8
    AND type IN ('schedule.skipped', 'schedule.missed', 'schedule.caught_up') GROUP BY 1, 2"""
# The primary key, from the mark on
_FIRED = "SELECT origin, count(*) FROM jobs WHERE row_id > %s AND row_id <= %s AND retry = 0 GROUP BY origin"


class PostgresVitals:
    """Counts, on one PostgreSQL database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        with self._database.snapshot() as connection:
            schedules = _fetch(connection, _SCHEDULES)
            jobs = dict(_fetch(connection, _JOBS))
            breakers = dict(_fetch(connection, _BREAKERS))
            ((overdue,),) = _fetch(connection, _OVERDUE, At(overdue_since), most_overdue)
            ((paused,),) = _fetch(connection, _IS_PAUSED)
        return Signs(
            counted_by(schedules, 0), counted_by(schedules, 1), jobs, breakers, overdue, bool(paused)
        )

    def mark(self) -> Mark:
        with self._database.snapshot() as connection:
            oldest, _, last_row = _now(connection)
        return Mark(oldest, last_row)

    def tally(self, since: Mark) -> Tally:
        with self._database.snapshot() as connection:
            oldest, next_one, last_row = _now(connection)
            slots = _fetch(connection, _SLOTS, str(since.events), str(oldest))
            settled = (
                last_row if oldest == next_one else since.jobs_seen if oldest >= since.seen_by else since.jobs
            )
            settled = max(settled, since.jobs)
            fired = dict(_fetch(connection, _FIRED, since.jobs, settled))
        is_waiting = since.jobs_seen > settled and oldest < since.seen_by
        seen = (since.jobs_seen, since.seen_by) if is_waiting else (last_row, next_one)
        return Tally({(kind, reason): n for kind, reason, n in slots}, fired, Mark(oldest, settled, *seen))


def _now(connection: Connection[Any]) -> tuple[int, int, int]:
    """The oldest transaction that is open, the first that has yet to begin, and the last row of jobs."""
    ((oldest, next_one, last_row),) = _fetch(connection, _NOW)
    return oldest, next_one, last_row


def _fetch(connection: Connection[Any], query: str, *values: object) -> list[Any]:
    return connection.execute(query.encode(), values or None).fetchall()
