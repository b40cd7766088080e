"""Messages in the order in which they were written, and the position of each subscriber in them.

A reader follows messages in the order of commits (`dialect.Stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everwhen.model.message import Message, Subscription
from everwhen.model.outcome import NewMessage
from everwhen.model.queries import MessageFilter
from everwhen.store.dialect import Insert, Queries, Statement, Stream, last_committed, storable
from everwhen.store.holds import is_held_by_another
from everwhen.store.lanes import Lane
from everwhen.store.transaction import Snapshot, StorePart, Transaction

_MESSAGE = ", ".join(Message._fields)
# The primary key of messages; on PostgreSQL idx_messages_commit.
_STREAM = Stream("messages", _MESSAGE)
# An id is never reused, so on SQLite the last one outlives what retention deletes.
_LAST = Statement(
    sqlite="SELECT seq FROM sqlite_sequence WHERE name = 'messages'", postgres=last_committed("messages")
)
# The primary key, backwards, until the page is full; idx_messages_at where an instant is given and few follow it.
_WANTED = """
FROM messages WHERE (:owner::text IS NULL OR owner = :owner::text)
    AND (:schedule_id::text IS NULL OR schedule_id = :schedule_id::text)
    AND (:since::instant IS NULL OR at >= :since::instant) AND (:until::instant IS NULL OR at < :until::instant)"""
_LIST = Statement(f"""
SELECT {_MESSAGE} {_WANTED} AND (:before::integer IS NULL OR id < :before::integer) ORDER BY id DESC LIMIT :limit""")
_COUNT = Statement(f"SELECT count(*) FROM (SELECT 1 {_WANTED} LIMIT :limit) AS found")
# The primary key of subscriptions.
_SUBSCRIPTION = f"SELECT {', '.join(Subscription._fields)} FROM subscriptions"
_SUBSCRIPTION_OF = Statement(f"{_SUBSCRIPTION} WHERE subscriber = :subscriber::text")
SUBSCRIPTIONS = Statement(f"{_SUBSCRIPTION} ORDER BY subscriber")
# The unique key on event_id: an existing message is not written twice.
_INSERT_MESSAGES = Insert(
    "messages", tuple(name for name in Message._fields if name != "id"), unless="event_id"
)
_HELD = tuple(name for name in Subscription._fields if name != "subscriber")
_KINDS = {"next_attempt_at": "::instant", "held_until": "::instant", "last_error": "::text", "node": "::text"}
_VALUES = ", ".join(f":{name}{_KINDS.get(name, '')}" for name in _HELD)
_PUT_SUBSCRIPTION = Statement(f"""
INSERT INTO subscriptions (subscriber, {", ".join(_HELD)}, created_at, updated_at)
VALUES (:subscriber::text, {_VALUES}, :now::instant, :now::instant)
ON CONFLICT (subscriber) DO UPDATE SET {", ".join(f"{n} = excluded.{n}" for n in _HELD)}, updated_at = :now::instant""")


class Messages(StorePart):
    """Messages and their subscriptions. Each method is one transaction."""

    def subscribe(self, now: int, subscriber: str) -> Subscription:
        """Return the position of the subscriber; a new one begins behind the existing messages."""

        def work(tx: Transaction) -> Subscription:
            found = _subscription(tx, subscriber)
            if found is None:
                found = Subscription(subscriber, last_message_id(tx))
                put_subscription(tx, found, now)
            return found

        return self._store.write(Lane.API, work)

    def take(self, now: int, subscriber: str, *, node: str, limit: int, held_until: int) -> Sequence[Message]:
        """Return the next messages for a subscriber, held for this node; none when another node delivers."""
        with self._store.read() as tx:  # most calls find nothing, and a read costs little
            if not _next(tx, now, subscriber, node, limit=1):
                return []

        def work(tx: Transaction) -> Sequence[Message]:
            found = _next(tx, now, subscriber, node, limit=limit)
            if found:
                held = _subscription(tx, subscriber)
                assert held is not None
                put_subscription(tx, held._replace(node=node, held_until=held_until), now)
            return found

        return self._store.write(Lane.API, work)

    def advance(
        self, now: int, subscriber: str, *, node: str, cursor: int | None, held_until: int | None
    ) -> bool:
        """Mark everything up to the cursor as delivered; False when this node no longer holds the subscription.

        A cursor is a position in commit order; its size has no meaning. None: nothing was delivered.
        """

        def move(held: Subscription) -> Subscription:
            at = held.cursor if cursor is None else cursor
            return Subscription(subscriber, at, node=node if held_until else None, held_until=held_until)

        return self._change(now, subscriber, node, move)

    def postpone(
        self, now: int, subscriber: str, *, node: str, cursor: int | None, until: int, error: str
    ) -> None:
        """Record that the message after the cursor could not be delivered; it is retried at `until`."""

        def move(held: Subscription) -> Subscription:
            if cursor is not None and cursor != held.cursor:  # it got further than the last time
                return Subscription(subscriber, cursor, 1, until, storable(error))
            return Subscription(subscriber, held.cursor, held.failures + 1, until, storable(error))

        self._change(now, subscriber, node, move)

    def _change(
        self, now: int, subscriber: str, node: str, move: Callable[[Subscription], Subscription]
    ) -> bool:
        """Change a subscription that this node holds; if it lost it, nothing changes: the new holder delivers again."""

        def work(tx: Transaction) -> bool:
            held = _subscription(tx, subscriber)
            if held is None or held.node != node:
                return False
            put_subscription(tx, move(held), now)
            return True

        return self._store.write(Lane.API, work)

    def after(self, message_id: int, *, limit: int) -> Sequence[Message]:
        """Return messages in commit order, for streams and lists."""
        with self._store.read() as tx:
            return _after(tx, message_id, limit)

    def last_id(self) -> int:
        """Return the last message in commit order, behind which a stream starts without a gap; 0 if there is none."""
        with self._store.look() as tx:
            return last_message_id(tx)

    def list(self, wanted: MessageFilter, *, limit: int, before: int | None = None) -> Sequence[Message]:
        """Return messages, newest first; `before` is an id."""
        return self._many(Message._make, _LIST, **wanted._asdict(), before=before, limit=limit)

    def count(self, wanted: MessageFilter, *, most: int) -> int:
        """Return how many messages match; counting stops at `most`."""
        with self._store.look() as tx:
            return int(tx.value(_COUNT, **wanted._asdict(), limit=most))

    def subscriptions(self) -> Sequence[Subscription]:
        """Return the position of every subscriber."""
        with self._store.read() as tx:
            return tx.many(Subscription._make, SUBSCRIPTIONS)


def _next(tx: Snapshot, now: int, subscriber: str, node: str, *, limit: int) -> Sequence[Message]:
    held = _subscription(tx, subscriber)
    if held is None or held.waits_at(now) or is_held_by_another(tx, held, now, node):
        return []
    return _after(tx, held.cursor, limit)


def _after(tx: Snapshot, message_id: int, limit: int) -> list[Message]:
    return [Message._make(row) for row in _STREAM.after(tx, message_id, limit)]


def _subscription(tx: Snapshot, subscriber: str) -> Subscription | None:
    rows = tx.rows_to_change(_SUBSCRIPTION_OF, subscriber=subscriber)
    return Subscription._make(rows[0]) if rows else None


def last_message_id(tx: Queries) -> int:
    return tx.value(_LAST) or 0


def insert_messages(tx: Queries, messages: Sequence[NewMessage], now: int) -> None:
    rows = [(m.event_id, now, m.schedule_id, m.uid, m.owner, m.job_id, m.body) for m in messages]
    tx.insert(_INSERT_MESSAGES, rows)


def put_subscription(tx: Queries, subscription: Subscription, now: int) -> None:
    tx.run(_PUT_SUBSCRIPTION, **subscription._asdict(), now=now)
