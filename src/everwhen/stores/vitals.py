"""Counts over a whole database.

Numbers follow the order of commits on SQLite, where writers exclude each other. On PostgreSQL they are assigned before
their transactions commit. Events contain the number of their transaction, so a tally counts those of the transactions
that have ended since the last one. Jobs contain none: a tally counts them up to the horizon.
"""

from __future__ import annotations

from everwhen.model.vitals import Crowd, Mark, Signs, Tally, signs_of
from everwhen.stores.dialect import Statement
from everwhen.stores.firings import RowHorizon
from everwhen.stores.transaction import Store

# One pass over schedules: it runs rarely.
_SCHEDULES = Statement("""
SELECT status, held_reason, skip_reason, count(*), CAST(sum(skip_count) AS bigint) FROM schedules GROUP BY 1, 2, 3""")
# idx_jobs_outstanding
_JOBS = Statement("SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status")
_BREAKERS = Statement("SELECT state, count(*) FROM circuit_breakers GROUP BY state")
# idx_schedules_next_run, from its front
_OVERDUE = Statement("""
SELECT count(*) FROM (
    SELECT 1 FROM schedules WHERE enabled AND next_run_at < :since::instant LIMIT :most) AS found""")
_IS_PAUSED = Statement("SELECT count(*) FROM settings WHERE key = 'system_paused' AND value != ''")
# The last event; on PostgreSQL the oldest transaction that is still open.
_EVENTS_MARK = Statement(
    sqlite="SELECT coalesce(max(id), 0) FROM audit_events",
    postgres="SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
)
# The primary key, from the mark on; on PostgreSQL idx_audit_commit.
_SLOTS = """
SELECT type, coalesce(reason, ''), CAST(sum(slot_count) AS bigint) FROM audit_events
WHERE {since_mark} AND type IN ('schedule.skipped', 'schedule.missed', 'schedule.caught_up') GROUP BY 1, 2"""
_SLOTS_SINCE = Statement(
    sqlite=_SLOTS.format(since_mark="id > :since AND id <= :until"),
    postgres=_SLOTS.format(
        since_mark="xid >= :since::bigint::text::xid8 AND xid < :until::bigint::text::xid8"
    ),
)
# The primary key, from the mark on
_FIRED = Statement("""
SELECT origin, count(*) FROM jobs WHERE row_id > :since AND row_id <= :until AND retry = 0 GROUP BY origin""")


class Vitals:
    """Counts, on one database."""

    def __init__(self, store: Store, horizon: RowHorizon) -> None:
        self._store = store
        self._horizon = horizon

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        """Return the current condition; overdue are slots that should have fired before that instant."""
        with self._store.read() as tx:
            crowds = [Crowd._make(row) for row in tx.rows(_SCHEDULES)]
            jobs = dict(tx.rows(_JOBS))
            breakers = dict(tx.rows(_BREAKERS))
            overdue = tx.value(_OVERDUE, since=overdue_since, most=most_overdue)
            paused = tx.value(_IS_PAUSED)
        return signs_of(crowds, jobs, breakers, overdue, is_paused=bool(paused))

    def mark(self) -> Mark:
        """Return the current position, at which counting may begin."""
        with self._store.look() as tx:
            events = tx.value(_EVENTS_MARK)
        return Mark(events, self._horizon.start())

    def tally(self, since: Mark) -> Tally:
        """Count what was committed since; consecutive tallies count each event and each firing once."""
        settled = max(self._horizon.row(), since.jobs)
        with self._store.read() as tx:
            # Retention may have deleted the last of them.
            events = max(tx.value(_EVENTS_MARK), since.events)
            slots = tx.rows(_SLOTS_SINCE, since=since.events, until=events)
            fired = dict(tx.rows(_FIRED, since=since.jobs, until=settled))
        return Tally({(kind, reason): n for kind, reason, n in slots}, fired, Mark(events, settled))
