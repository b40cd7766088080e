"""The cursors of named listeners, and the queues of schedules, by which a process knows its own."""

from __future__ import annotations

from collections.abc import Collection

from everwhen.errors import SchedulerError
from everwhen.model.event_cursor import EventCursor
from everwhen.model.serialize import definition_in
from everwhen.store.dialect import Queries, Statement, storable
from everwhen.store.holds import is_held_by_another
from everwhen.store.lanes import Lane
from everwhen.store.transaction import Store, Transaction

_FIELDS = ", ".join(EventCursor._fields)
# The primary key of event_cursors.
_OF_NAME = Statement(f"SELECT {_FIELDS} FROM event_cursors WHERE name = :name::text")
_CREATE = Statement("""
INSERT INTO event_cursors (name, event_row, job_row, open_jobs, created_at, updated_at)
VALUES (:name::text, :event_row, :job_row, :open_jobs::text, :now::instant, :now::instant)
ON CONFLICT (name) DO NOTHING""")
_PUT = Statement("""
UPDATE event_cursors SET event_row = :event_row, job_row = :job_row, open_jobs = :open_jobs::text,
    failing = :failing::text, failures = :failures, next_attempt_at = :next_attempt_at::instant,
    last_error = :last_error::text, node = :node::text, held_until = :held_until::instant, fence = :fence + 1,
    updated_at = :now::instant
WHERE name = :name::text AND fence = :fence""")
_NAMES = Statement("SELECT name FROM event_cursors ORDER BY name")
_DELETE = Statement("DELETE FROM event_cursors WHERE name = :name::text")
# The primary key of schedule_revisions: the newest of each.
_NEWEST_DEFINITIONS = Statement("""
SELECT r.uid, r.words FROM schedule_revisions r WHERE r.uid = ANY(:uids::texts)
    AND r.revision = (SELECT max(n.revision) FROM schedule_revisions n WHERE n.uid = r.uid)""")


class EventCursors:
    """The cursors of one database. Each method is one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, name: str) -> EventCursor | None:
        with self._store.look() as tx:
            return _cursor(tx, name)

    def create(self, now: int, cursor: EventCursor) -> None:
        """Write a new cursor; where the name has one, that one stays."""
        values = {key: getattr(cursor, key) for key in ("name", "event_row", "job_row", "open_jobs")}
        self._store.write(Lane.API, lambda tx: tx.run(_CREATE, **values, now=now))

    def take(self, now: int, name: str, *, node: str, held_until: int) -> EventCursor | None:
        """Return the cursor, held for this node; None while another node that is alive holds it."""
        with self._store.read() as tx:  # most calls find it held, and a read costs little
            if _free_cursor(tx, name, now, node) is None:
                return None

        def work(tx: Transaction) -> EventCursor | None:
            found = _free_cursor(tx, name, now, node)
            return (
                None
                if found is None
                else put_cursor(tx, now, found._replace(node=node, held_until=held_until))
            )

        return self._store.write(Lane.API, work)

    def save(self, now: int, cursor: EventCursor) -> EventCursor | None:
        """Write a cursor that this node holds, and return it; None when another node has taken it."""
        kept = cursor._replace(last_error=None if cursor.last_error is None else storable(cursor.last_error))
        return self._store.write(Lane.API, lambda tx: put_cursor(tx, now, kept))

    def names(self) -> list[str]:
        with self._store.look() as tx:
            return [str(name) for name in tx.column(_NAMES)]

    def forget(self, now: int, name: str) -> str | None:
        """Delete a cursor; return the node that holds it where one that is alive does: then the cursor stays."""

        def work(tx: Transaction) -> str | None:
            found = _cursor(tx, name)
            if found is not None and is_held_by_another(tx, found, now, ""):
                return found.node
            tx.run(_DELETE, name=name)
            return None

        return self._store.write(Lane.API, work)

    def queues_of(self, uids: Collection[str]) -> dict[str, str]:
        """Return the queues of schedules, deleted ones included, by their newest revisions."""
        with self._store.look() as tx:
            rows = tx.rows(_NEWEST_DEFINITIONS, uids=list(uids))
        return {uid: queue for uid, written in rows if (queue := _queue_in(written)) is not None}


def _cursor(tx: Queries, name: str) -> EventCursor | None:
    rows = tx.rows_to_change(_OF_NAME, name=name)
    return EventCursor._make(rows[0]) if rows else None


def _free_cursor(tx: Queries, name: str, now: int, node: str) -> EventCursor | None:
    cursor = _cursor(tx, name)
    return None if cursor is None or is_held_by_another(tx, cursor, now, node) else cursor


def put_cursor(tx: Transaction, now: int, cursor: EventCursor) -> EventCursor | None:
    """Write a cursor and return it; None when another node has taken it."""
    changed = tx.run(_PUT, **cursor._asdict(), now=now)
    return cursor._replace(fence=cursor.fence + 1) if changed else None


def _queue_in(written: str) -> str | None:
    try:
        return definition_in(written).queue
    except (SchedulerError, LookupError, TypeError, ValueError):  # of another release
        return None
