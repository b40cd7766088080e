"""Upkeep: retention in portions, detection of lost nodes, and backups.

Every portion examines the next few hundred rows of a table in the order in which they were written, concurrently with
the writers, and writes only when some of them may be deleted. A row that may be deleted stays so: jobs that have
ended stay ended, and a schedule's last slot only moves forward. So the query needs no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from everwhen.clock import Clock
from everwhen.decide.retention import may_go, retained_from
from everwhen.model.events import Event
from everwhen.model.node import Node
from everwhen.model.retention import Cutoffs, Kept, Portion, RetentionPosition, place_after
from everwhen.model.vitals import Crowd, Mark, Signs, Tally, signs_of
from everwhen.runtime import Progress
from everwhen.store.dialect import Statement, composed
from everwhen.store.firings import RowHorizon
from everwhen.store.lanes import Lane
from everwhen.store.ledger import event_columns, recorded
from everwhen.store.system_rows import NODE
from everwhen.store.transaction import Snapshot, Store, StorePart, Transaction

_MOST_HISTORIES = 50  # whole histories in one portion: each is a handful of rows

# The primary key of jobs, from a row on; the unique key on schedules' uid. The job of a schedule's last slot is kept
# as long as the schedule.
_JOBS = Statement("""
SELECT j.row_id, j.job_id, j.created_at < :before::instant,
    j.ended_at < :before::instant AND j.slot_at < :before::instant AND j.released_at IS NOT NULL
        AND (s.last_slot_at IS NULL OR j.slot_at < s.last_slot_at)
FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid WHERE j.row_id > :after ORDER BY j.row_id LIMIT :limit""")
# The primary key of jobs, from a row on; the primary key of job_output.
_JOBS_WITH_OUTPUT = Statement("""
SELECT j.row_id, j.job_id, j.created_at < :before::instant,
    j.ended_at < :before::instant AND EXISTS (SELECT 1 FROM job_output o WHERE o.job_id = j.job_id)
FROM jobs j WHERE j.row_id > :after ORDER BY j.row_id LIMIT :limit""")
# The primary key of audit_events, from a row on; the unique key on schedules' uid.
_EVENTS = Statement(f"""
SELECT e.id, s.last_slot_at, e.at < :before::instant, {event_columns("e.")}
FROM audit_events e LEFT JOIN schedules s ON s.uid = e.uid WHERE e.id > :after ORDER BY e.id LIMIT :limit""")
# The unique key on uid; a prefix of the unique key on job_id; idx_audit_schedule. One recent event, or a job that
# still exists, keeps a whole history.
_IS_WANTED = Statement("""
SELECT EXISTS (SELECT 1 FROM schedules WHERE uid = :uid::text)
    OR EXISTS (SELECT 1 FROM jobs
        WHERE job_id >= 'sched-' || :uid::text || '-n' AND job_id < 'sched-' || :uid::text || '-o')
    OR EXISTS (SELECT 1 FROM audit_events
        WHERE uid = :uid::text AND (at >= :before::instant OR slot_at >= :before::instant))""")
# The primary key of circuit_breaker_transitions.
_TRANSITIONS = Statement("""
SELECT id, key, at < :before::instant FROM circuit_breaker_transitions WHERE id > :after ORDER BY id LIMIT :limit""")
# The primary key of messages.
_MESSAGES = Statement("""
SELECT id, event_id, at < :before::instant FROM messages WHERE id > :after ORDER BY id LIMIT :limit""")
# The primary key of requests.
_REQUESTS = Statement("""
SELECT id, request_id, created_at < :before::instant, ended_at IS NOT NULL AND ended_at < :before::instant
FROM requests WHERE id > :after ORDER BY id LIMIT :limit""")
# event_cursors, whole. A node that holds one writes it every 20 seconds; one that is taken up again at this very moment
# begins anew.
_CURSORS = Statement(
    "SELECT name FROM event_cursors WHERE updated_at < :before::instant ORDER BY name LIMIT :limit"
)
# The primary key of alerts; what is open stays.
_ALERTS = Statement("""
SELECT id, key, since < :before::instant, state <> 'open' AND resolved_at < :before::instant
FROM alerts WHERE id > :after ORDER BY id LIMIT :limit""")
# The primary key of alert_deliveries; what is yet to be sent stays.
_DELIVERIES = Statement("""
SELECT id, delivery_id, created_at < :before::instant, next_at IS NULL
FROM alert_deliveries WHERE id > :after ORDER BY id LIMIT :limit""")
_HAS_OUTPUT = Statement("SELECT 1 FROM job_output LIMIT 1")
# nodes has one row per start of a process; idx_jobs_unreleased. The row of the last scheduler is never deleted: it
# shows since when none was alive.
_NODES = Statement("""
SELECT node FROM nodes WHERE (stopped_at IS NOT NULL OR lost_at IS NOT NULL) AND heartbeat_at < :before::instant
    AND heartbeat_at < (SELECT max(heartbeat_at) FROM nodes WHERE is_scheduler)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.node = nodes.node AND jobs.node IS NOT NULL AND released_at IS NULL)
LIMIT :limit""")

# nodes, whole. A heartbeat in the future dates from before the clock was set back.
_LOST_NODES = Statement(f"""
SELECT {NODE} FROM nodes WHERE node <> :node::text AND stopped_at IS NULL AND lost_at IS NULL
    AND heartbeat_at NOT BETWEEN :oldest::instant AND :newest::instant ORDER BY node""")
# The primary key of settings. The instant never moves back.
_RETAIN_FROM = Statement("""
INSERT INTO settings (key, value) VALUES ('retained_from', :instant::text) ON CONFLICT (key)
DO UPDATE SET value = excluded.value WHERE CAST(settings.value AS bigint) < CAST(excluded.value AS bigint)""")

BackUp = Callable[[Path, Progress, Clock], None]


class _Rows(NamedTuple):
    """The rows of a table that have one of these values in a column."""

    table: str
    column: str
    keys: Sequence[object]


_Old = tuple[list[tuple[Any, ...]], int | None]  # rows, and the last of them if others follow


class _Going(NamedTuple):
    """Rows that may be deleted, and the last row examined (None: the table is done)."""

    rows: Sequence[_Rows]
    last: int | None


# Primary keys, one step from their end.
_LAST_ROWS: Mapping[Kept, Statement] = {
    "output": Statement("SELECT coalesce(max(row_id), 0) FROM jobs"),
    "jobs": Statement("SELECT coalesce(max(row_id), 0) FROM jobs"),
    "audit": Statement("SELECT coalesce(max(id), 0) FROM audit_events"),
    "breaker_transitions": Statement("SELECT coalesce(max(id), 0) FROM circuit_breaker_transitions"),
    "messages": Statement("SELECT coalesce(max(id), 0) FROM messages"),
    "requests": Statement("SELECT coalesce(max(id), 0) FROM requests"),
}


class Upkeep(StorePart):
    """Upkeep of one database."""

    def __init__(
        self,
        store: Store,
        back_up: BackUp,
        clock: Clock,
        give_back: Callable[[int], int] = lambda _most: 0,
    ) -> None:
        super().__init__(store)
        self._back_up = back_up
        self._clock = clock
        self._give_back = give_back
        self._output_until = 0  # up to this job all expired output is deleted; a restart begins again

    # -- retention --

    def forget(
        self, before: Cutoffs, place: RetentionPosition, *, limit: int, dry_run: bool = False
    ) -> Portion:
        """Delete one portion of what is older than its cutoff, in one transaction.

        `limit` bounds the rows examined and the rows deleted; only a single job with more output goes beyond it.
        Whatever was deleted, the ledger checker finds no fault in the rest.
        """
        with self._store.read() as tx:
            going = self._look(tx, before, place, limit)
            rows = sum(tx.value(_of("SELECT count(*)", one), keys=one.keys) for one in going.rows if one.keys)
        if rows > limit > 1:
            return self.forget(before, place, limit=limit // 2, dry_run=dry_run)
        seconds = 0.0
        if rows and not dry_run:
            seconds = self._store.write(Lane.RETENTION, self._timed(lambda tx: _delete(tx, going, before)))
        if place.what == "output" and not dry_run:
            self._output_until = going.last or self._output_until
        return Portion(place.what, rows, place_after(place, going.last), limit, seconds)

    def _timed(self, work: Callable[[Transaction], None]) -> Callable[[Transaction], float]:
        """Return the work as one that returns how long it took."""

        def timed(tx: Transaction) -> float:
            began = self._clock.monotonic()
            work(tx)
            return self._clock.monotonic() - began

        return timed

    def give_space_back(self, most: int) -> tuple[int, float]:
        """Give up to `most` free pages back, in one turn; return how many are left to give, and how long it took."""
        began = self._clock.monotonic()
        left = self._give_back(most)
        return left, self._clock.monotonic() - began

    def rows_written(self) -> int:
        """Return how many rows were ever written to the tables that a pass goes through."""
        with self._store.look() as tx:
            return sum(int(tx.value(statement)) for statement in _LAST_ROWS.values())

    def last_row(self, what: Kept) -> int:
        """Return the last row that a pass may reach in the table of this kind, to compute how far it has come."""
        statement = _LAST_ROWS.get(what)
        with self._store.look() as tx:
            return 0 if statement is None else int(tx.value(statement))

    def _look(self, tx: Snapshot, before: Cutoffs, place: RetentionPosition, limit: int) -> _Going:
        def old(statement: Statement, until: int, after: int = place.after) -> _Old:
            return _old_rows(tx, statement, until, after, limit)

        match place.what:
            case "output":
                if not tx.rows(_HAS_OUTPUT):
                    return _Going((), None)
                after = max(place.after, self._output_until)
                rows, last = old(_JOBS_WITH_OUTPUT, before.output, after)
                keys = [job_id for _, job_id, _, is_over in rows if is_over]
                return _Going([_Rows("job_output", "job_id", keys)], last)
            case "jobs":
                rows, last = old(_JOBS, before.jobs)
                going = [(row_id, job_id) for row_id, job_id, _, is_over in rows if is_over]
                output = _Rows("job_output", "job_id", [job_id for _, job_id in going])
                return _Going([output, _Rows("jobs", "row_id", [row_id for row_id, _ in going])], last)
            case "audit":
                return _old_events(tx, before.audit, *old(_EVENTS, before.audit))
            case "breaker_transitions":
                rows, last = old(_TRANSITIONS, before.breaker_transitions)
                return _Going(
                    [_Rows("circuit_breaker_transitions", "id", [number for number, _, _ in rows])], last
                )
            case "nodes":
                nodes = tx.column(_NODES, before=before.audit, limit=limit)
                return _Going([_Rows("nodes", "node", nodes)], None)
            case "requests":
                rows, last = old(_REQUESTS, before.requests)
                return _Going(
                    [_Rows("requests", "id", [number for number, _, _, is_over in rows if is_over])], last
                )
            case "listeners":
                names = tx.column(_CURSORS, before=before.listeners, limit=limit)
                return _Going([_Rows("event_cursors", "name", names)], None)
            case "alerts":
                rows, last = old(_ALERTS, before.alerts)
                over = [number for number, _, _, is_over in rows if is_over]
                return _Going([_Rows("alert_notices", "alert", over), _Rows("alerts", "id", over)], last)
            case "deliveries":
                rows, last = old(_DELIVERIES, before.deliveries)
                over = [number for number, _, _, is_over in rows if is_over]
                return _Going([_Rows("alert_deliveries", "id", over)], last)
            case "messages":
                # A subscriber that has not received them continues with the rest, so none keeps a message.
                rows, last = old(_MESSAGES, before.messages)
                return _Going([_Rows("messages", "id", [number for number, _, _ in rows])], last)

    def last_backup_at(self) -> int | None:
        """Return when the last backup was complete; None when there was none."""
        with self._store.look() as tx:
            found = tx.settings().get("last_backup")
        return None if found is None else int(found)

    def note_backup(self, now: int) -> None:
        """Record that a backup is complete."""
        self._store.write(Lane.API, lambda tx: tx.put_setting("last_backup", str(now)))

    # -- nodes --

    def nodes(self) -> list[Node]:
        """Return every recorded node, the oldest start first."""
        with self._store.look() as tx:
            return tx.nodes()

    def note_lost(self, now: int, *, node: str, lease: int) -> list[Node]:
        """Record, once each, the other nodes whose lease has expired (`node.lost`), and return them.

        A lease has expired when the heartbeat is older than the lease, or equally far in the future: then it dates
        from before the clock was set back.
        """

        def lost_nodes(tx: Snapshot) -> list[Node]:
            return tx.many(Node._make, _LOST_NODES, node=node, oldest=now - lease, newest=now + lease)

        with self._store.look() as tx:
            if not lost_nodes(tx):
                return []

        def note(tx: Transaction) -> list[Node]:
            found = lost_nodes(tx)
            noted = tx.put_lost([one.node for one in found], now)
            lost = [one for one in found if one.node in noted]
            tx.insert_events([_about(one, now) for one in lost])
            return lost

        return self._store.write(Lane.SETTLE, note)

    # -- backups --

    def backup(self, path: Path, progress: Progress) -> None:
        """Write a consistent copy of the whole database while it is in use; `path` appears once it is complete."""
        self._back_up(path, progress, self._clock)


# -- what may be deleted --


def _old_events(tx: Snapshot, before: int, rows: Sequence[Any], last: int | None) -> _Going:
    events = [(number, last, recorded((number, *columns)).event) for number, last, _, *columns in rows]
    ends = [(number, event.uid) for number, _, event in events if event.type == "schedule.deleted"]
    if len(ends) > _MOST_HISTORIES:
        last = ends[_MOST_HISTORIES - 1][0]
        events = [row for row in events if row[0] <= last]
        ends = ends[:_MOST_HISTORIES]
    over = [uid for _, uid in ends if not tx.value(_IS_WANTED, uid=uid, before=before)]
    gone = set(over)
    single = [
        number
        for number, last_slot_at, event in events
        if event.uid not in gone and may_go(event, before, last_slot_at=last_slot_at)
    ]
    histories = [_Rows(table, "uid", over) for table in ("audit_events", "schedule_revisions")]
    return _Going([_Rows("audit_events", "id", single), *histories], last)


def _old_rows(tx: Snapshot, statement: Statement, before: int, after: int, limit: int) -> _Old:
    """Return the next rows, up to the first that is too recent (the third column), and where the next portion begins.

    Rows behind a recent one are more recent still, unless the clock was set back; then they are deleted later.
    """
    rows = tx.rows(statement, before=before, after=after, limit=limit)
    old = list(takewhile(lambda row: row[2], rows))
    return old, old[-1][0] if len(old) == limit else None


def _delete(tx: Transaction, going: _Going, before: Cutoffs) -> None:
    for one in going.rows:
        if one.keys:
            tx.run(_of("DELETE", one), keys=one.keys)
    tx.run(_RETAIN_FROM, instant=str(retained_from(before)))  # the checker needs it


def _of(verb: str, rows: _Rows) -> Statement:
    """Return a statement about the rows with these keys. The primary keys; idx_audit_schedule."""
    kind = "integers" if isinstance(rows.keys[0], int) else "texts"
    return composed(f"{verb} FROM {rows.table} WHERE {rows.column} = ANY(:keys::{kind})")


def _about(node: Node, now: int) -> Event:
    detail = {
        "node": node.node,
        "role": node.role,
        "version": node.version,
        "heartbeat_at": node.heartbeat_at,
    }
    return Event("node.lost", now, detail=detail)


# Counts over a whole database.
#
# Numbers follow the order of commits on SQLite, where writers exclude each other. On PostgreSQL they are
# assigned before their transactions commit. Events contain the number of their transaction, so a tally counts
# those of the transactions that have ended since the last one. Jobs contain none: a tally counts them up to
# the horizon.


# One pass over schedules: it runs rarely.
_SCHEDULES = Statement("""
SELECT status, held_reason, skip_reason, count(*), CAST(sum(skip_count) AS bigint) FROM schedules GROUP BY 1, 2, 3""")
# The same pass, once per start of a process that is scraped.
_GATHERED = Statement("""
SELECT skip_reason, CAST(sum(skip_count) AS bigint) FROM schedules WHERE skip_count > 0 GROUP BY skip_reason""")
# idx_jobs_outstanding
_JOBS_SINCE = Statement(
    "SELECT status, count(*) FROM jobs WHERE status IN ('queued', 'running') GROUP BY status"
)
_BREAKERS = Statement("SELECT state, count(*) FROM circuit_breakers GROUP BY state")
# idx_alerts_open; idx_deliveries_pending
_OPEN_ALERTS = Statement("SELECT severity, count(*) FROM alerts WHERE state = 'open' GROUP BY severity")
_UNDELIVERED = Statement("SELECT count(*) FROM alert_deliveries WHERE next_at IS NOT NULL")
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


class Vitals(StorePart):
    """Counts, on one database."""

    def __init__(self, store: Store, horizon: RowHorizon) -> None:
        super().__init__(store)
        self._horizon = horizon

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        """Return the current condition; overdue are slots that should have fired before that instant."""
        with self._store.read() as tx:
            crowds = [Crowd._make(row) for row in tx.rows(_SCHEDULES)]
            jobs = dict(tx.rows(_JOBS_SINCE))
            breakers = dict(tx.rows(_BREAKERS))
            paused = tx.value(_IS_PAUSED)
            # Nothing is overdue while the system is paused.
            overdue = 0 if paused else tx.value(_OVERDUE, since=overdue_since, most=most_overdue)
            alerts, undelivered = dict(tx.rows(_OPEN_ALERTS)), tx.value(_UNDELIVERED)
        found = signs_of(crowds, jobs, breakers, overdue, is_paused=bool(paused))
        return found._replace(alerts=alerts, undelivered=undelivered)

    def start(self) -> tuple[Mark, Mapping[str, int]]:
        """Return the current position and the skips gathered on rows there, by reason: their events come later."""
        with self._store.read() as tx:  # one snapshot: a run of skips may be written meanwhile
            events = tx.value(_EVENTS_MARK)
            gathered = dict(tx.rows(_GATHERED))
        return Mark(events, self._horizon.start()), gathered

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
