"""Counts over a whole SQLite file. Writers exclude each other here, so numbers are in commit order."""

from __future__ import annotations

from everwhen.model.vitals import Crowd, Mark, Signs, Tally, signs_of
from everwhen.stores.sqlite_database import SqliteDatabase

# One pass over schedules: it runs rarely.
_SCHEDULES = """
SELECT status, held_reason, skip_reason, count(*), sum(skip_count) FROM schedules GROUP BY 1, 2, 3"""
# idx_jobs_outstanding
_JOBS = "SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status"
_BREAKERS = "SELECT state, count(*) FROM circuit_breakers GROUP BY state"
# idx_schedules_next_run, from its front
_OVERDUE = "SELECT count(*) FROM (SELECT 1 FROM schedules WHERE enabled AND next_run_at < ? LIMIT ?)"
_IS_PAUSED = "SELECT count(*) FROM settings WHERE key = 'system_paused' AND value != ''"
# The ends of the primary keys
_MARK = "SELECT (SELECT coalesce(max(id), 0) FROM audit_events), (SELECT coalesce(max(row_id), 0) FROM jobs)"
# The primary keys, from the mark on
_SLOTS = """
SELECT type, coalesce(reason, ''), sum(slot_count) FROM audit_events
WHERE id > ? AND type IN ('schedule.skipped', 'schedule.missed', 'schedule.caught_up') GROUP BY 1, 2"""
_FIRED = "SELECT origin, count(*) FROM jobs WHERE row_id > ? AND retry = 0 GROUP BY origin"


class SqliteVitals:
    """Counts, on one SQLite file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        with self._database.read() as connection:
            crowds = [Crowd._make(row) for row in connection.execute(_SCHEDULES)]
            jobs = dict(connection.execute(_JOBS).fetchall())
            breakers = dict(connection.execute(_BREAKERS).fetchall())
            (overdue,) = connection.execute(_OVERDUE, (overdue_since, most_overdue)).fetchone()
            (paused,) = connection.execute(_IS_PAUSED).fetchone()
        return signs_of(crowds, jobs, breakers, overdue, is_paused=bool(paused))

    def mark(self) -> Mark:
        with self._database.read() as connection:
            return Mark(*connection.execute(_MARK).fetchone())

    def tally(self, since: Mark) -> Tally:
        with self._database.read() as connection:
            slots = {(kind, reason): n for kind, reason, n in connection.execute(_SLOTS, (since.events,))}
            fired = dict(connection.execute(_FIRED, (since.jobs,)).fetchall())
            events, jobs = connection.execute(_MARK).fetchone()
        # Retention may have deleted the last of them.
        return Tally(slots, fired, Mark(max(events, since.events), max(jobs, since.jobs)))
