"""The upkeep port on any database: retention in portions, detection of lost nodes, and backups.

Every portion examines the next few hundred rows of a table in the order in which they were written, concurrently with
the writers, and writes only when some of them may be deleted. A row that may be deleted stays so: jobs that have
ended stay ended, and a schedule's last slot only moves forward. So the query needs no lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from everwhen.model.events import NOTHING, Event
from everwhen.model.node import Node
from everwhen.ports.clock import Clock
from everwhen.stores.lanes import Lane
from everwhen.stores.transaction import Snapshot, Store, Transaction

if TYPE_CHECKING:
    from everwhen.model.retention import Cutoffs, Place, Portion
    from everwhen.ports.upkeep import Progress

_MOST_HISTORIES = 50  # whole histories in one portion: each is a handful of rows
_EVENT = ", ".join("CAST(e.detail AS TEXT)" if name == "detail" else f"e.{name}" for name in Event._fields)

# The primary key of jobs, from a row on; the unique key on schedules' uid. The job of a schedule's last slot is kept
# as long as the schedule.
_JOBS = """
SELECT j.row_id, j.job_id, j.created_at < :before,
    j.ended_at < :before AND j.slot_at < :before AND j.released_at IS NOT NULL
        AND (s.last_slot_at IS NULL OR j.slot_at < s.last_slot_at)
FROM jobs j LEFT JOIN schedules s ON s.uid = j.uid WHERE j.row_id > :after ORDER BY j.row_id LIMIT :limit"""
# The primary key of jobs, from a row on; the primary key of job_output.
_JOBS_WITH_OUTPUT = """
SELECT j.row_id, j.job_id, j.created_at < :before,
    j.ended_at < :before AND EXISTS (SELECT 1 FROM job_output o WHERE o.job_id = j.job_id)
FROM jobs j WHERE j.row_id > :after ORDER BY j.row_id LIMIT :limit"""
# The primary key of audit_events, from a row on; the unique key on schedules' uid.
_EVENTS = f"""
SELECT e.id, s.last_slot_at, e.at < :before, {_EVENT} FROM audit_events e LEFT JOIN schedules s ON s.uid = e.uid
WHERE e.id > :after ORDER BY e.id LIMIT :limit"""
# The unique key on uid; a prefix of the unique key on job_id; idx_audit_schedule. One recent event, or a job that
# still exists, keeps a whole history.
_IS_WANTED = """
SELECT EXISTS (SELECT 1 FROM schedules WHERE uid = :uid)
    OR EXISTS (SELECT 1 FROM jobs WHERE job_id >= 'sched-' || :uid || '-n' AND job_id < 'sched-' || :uid || '-o')
    OR EXISTS (SELECT 1 FROM audit_events WHERE uid = :uid AND (at >= :before OR slot_at >= :before))"""
# The primary key of circuit_breaker_transitions.
_TRANSITIONS = """
SELECT id, key, at < :before FROM circuit_breaker_transitions WHERE id > :after ORDER BY id LIMIT :limit"""
# The primary key of messages.
_MESSAGES = "SELECT id, event_id, at < :before FROM messages WHERE id > :after ORDER BY id LIMIT :limit"
# nodes has one row per start of a process; idx_jobs_unreleased. The row of the last scheduler is never deleted: it
# shows since when none was alive.
_NODES = """
SELECT node FROM nodes WHERE (stopped_at IS NOT NULL OR lost_at IS NOT NULL) AND heartbeat_at < :before
    AND heartbeat_at < (SELECT max(heartbeat_at) FROM nodes WHERE is_scheduler)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.node = nodes.node AND jobs.node IS NOT NULL AND released_at IS NULL)
LIMIT :limit"""


class Queries(Protocol):
    """Plain queries to one database, with its instants as integers. The parameter `before` is an instant."""

    def rows(self, query: str, values: Mapping[str, object]) -> list[Any]: ...
    def count(self, table: str, column: str, keys: Sequence[object]) -> int: ...
    def delete(self, table: str, column: str, keys: Sequence[object]) -> None: ...
    def retain_from(self, instant: int) -> None:
        """Store from when on the record is complete; it never moves back."""
        ...


class Maintenance(Protocol):
    """The connections that upkeep reads and deletes with."""

    def reading(self) -> AbstractContextManager[Queries]: ...
    def deleting(self, work: Callable[[Queries], None]) -> None:
        """Run the work in one transaction, in the last lane where writes have lanes."""
        ...

    def backup(self, path: Path, progress: Progress, clock: Clock) -> None:
        """Write a copy of one moment that records when it was taken: no earlier than anything in it."""
        ...


class _Going(NamedTuple):
    """Rows that may be deleted, as keys of a column each, and the last row examined (None: the table is done)."""

    keys: Sequence[tuple[str, str, Sequence[object]]]
    last: int | None


class StoredUpkeep:
    """Upkeep of one database."""

    def __init__(self, store: Store, maintenance: Maintenance, clock: Clock) -> None:
        self._store = store
        self._maintenance = maintenance
        self._clock = clock
        self._output_until = 0  # up to this job all expired output is deleted; a restart begins again

    # -- retention --

    def forget(self, before: Cutoffs, place: Place, *, limit: int, dry_run: bool = False) -> Portion:
        from everwhen.model.retention import (  # commands that only read ask for nodes here
            Portion,
            place_after,
        )

        with self._maintenance.reading() as queries:
            going = self._look(queries, before, place, limit)
            rows = sum(queries.count(*column) for column in going.keys if column[2])
        if rows and not dry_run:
            self._maintenance.deleting(lambda q: _delete(q, going, before))
        if place.what == "output" and not dry_run:
            self._output_until = going.last or self._output_until
        return Portion(place.what, rows, place_after(place, going.last))

    def _look(self, queries: Queries, before: Cutoffs, place: Place, limit: int) -> _Going:
        match place.what:
            case "output":
                after = max(place.after, self._output_until)
                return _old_output(queries, before.output, after, limit)
            case "jobs":
                return _old_jobs(queries, before.jobs, place.after, limit)
            case "audit":
                return _old_events(queries, before.audit, place.after, limit)
            case "breaker_transitions":
                return _old_transitions(queries, before.breaker_transitions, place.after, limit)
            case "nodes":
                return _old_nodes(queries, before.audit, limit)
            case "messages":
                return _old_messages(queries, before.messages, place.after, limit)

    # -- nodes --

    def nodes(self) -> list[Node]:
        with self._store.look() as tx:
            return tx.nodes()

    def note_lost(self, now: int, *, node: str, lease: int) -> list[Node]:
        def lost_nodes(tx: Snapshot) -> list[Node]:
            return tx.lost_nodes(node=node, oldest=now - lease, newest=now + lease)

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
        self._maintenance.backup(path, progress, self._clock)


# -- what may be deleted --


def _old_output(queries: Queries, before: int, after: int, limit: int) -> _Going:
    if not queries.rows("SELECT 1 FROM job_output LIMIT 1", {}):
        return _Going((), None)
    rows, last = _old_rows(queries, _JOBS_WITH_OUTPUT, before, after, limit)
    return _Going([("job_output", "job_id", [row[1] for row in rows if row[3]])], last)


def _old_jobs(queries: Queries, before: int, after: int, limit: int) -> _Going:
    rows, last = _old_rows(queries, _JOBS, before, after, limit)
    going = [row for row in rows if row[3]]
    output = ("job_output", "job_id", [row[1] for row in going])
    return _Going([output, ("jobs", "row_id", [row[0] for row in going])], last)


def _old_transitions(queries: Queries, before: int, after: int, limit: int) -> _Going:
    rows, last = _old_rows(queries, _TRANSITIONS, before, after, limit)
    return _Going([("circuit_breaker_transitions", "id", [row[0] for row in rows])], last)


def _old_messages(queries: Queries, before: int, after: int, limit: int) -> _Going:
    """Find old messages; a subscriber that has not received them continues with the rest, so none keeps a message."""
    rows, last = _old_rows(queries, _MESSAGES, before, after, limit)
    return _Going([("messages", "id", [row[0] for row in rows])], last)


def _old_nodes(queries: Queries, before: int, limit: int) -> _Going:
    rows = queries.rows(_NODES, {"before": before, "limit": limit})
    return _Going([("nodes", "node", [node for (node,) in rows])], None)


def _old_events(queries: Queries, before: int, after: int, limit: int) -> _Going:
    from everwhen.decide.retention import may_go

    rows, last = _old_rows(queries, _EVENTS, before, after, limit)
    events = [(number, last_slot_at, _event(columns)) for number, last_slot_at, _, *columns in rows]
    ends = [(number, event.uid) for number, _, event in events if event.type == "schedule.deleted"]
    if len(ends) > _MOST_HISTORIES:
        last = ends[_MOST_HISTORIES - 1][0]
        events = [row for row in events if row[0] <= last]
        ends = ends[:_MOST_HISTORIES]
    over = [uid for _, uid in ends if not queries.rows(_IS_WANTED, {"uid": uid, "before": before})[0][0]]
    gone = set(over)
    single = [
        number
        for number, last_slot_at, event in events
        if event.uid not in gone and may_go(event, before, last_slot_at=last_slot_at)
    ]
    histories = [("audit_events", "uid", over), ("schedule_revisions", "uid", over)]
    return _Going([("audit_events", "id", single), *histories], last)


def _old_rows(
    queries: Queries, statement: str, before: int, after: int, limit: int
) -> tuple[list[tuple[Any, ...]], int | None]:
    """Return the next rows, up to the first that is too recent (the third column), and where the next portion begins.

    Rows behind a recent one are more recent still, unless the clock was set back; then they are deleted later.
    """
    rows = queries.rows(statement, {"before": before, "after": after, "limit": limit})
    old = list(takewhile(lambda row: row[2], rows))
    return old, old[-1][0] if len(old) == limit else None


def _event(columns: Sequence[Any]) -> Event:
    *plain, detail, trace_id = columns
    return Event._make((*plain, NOTHING if detail == "{}" else json.loads(detail), trace_id))


def _delete(queries: Queries, going: _Going, before: Cutoffs) -> None:
    from everwhen.decide.retention import retained_from

    for table, column, keys in going.keys:
        if keys:
            queries.delete(table, column, keys)
    queries.retain_from(retained_from(before))  # the checker needs it


def _about(node: Node, now: int) -> Event:
    detail = {
        "node": node.node,
        "role": node.role,
        "version": node.version,
        "heartbeat_at": node.heartbeat_at,
    }
    return Event("node.lost", now, detail=detail)
