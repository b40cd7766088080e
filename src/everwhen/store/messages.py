"""Messages in the order in which they were written, and the position of each subscriber in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everwhen.model.message import Message, Subscription
from everwhen.model.queries import MessageFilter
from everwhen.store.dialect import storable
from everwhen.store.lanes import Lane
from everwhen.store.transaction import Snapshot, Store, Transaction


class Messages:
    """Messages and their subscriptions. Each method is one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def subscribe(self, now: int, subscriber: str) -> Subscription:
        """Return the position of the subscriber; a new one begins behind the existing messages."""

        def work(tx: Transaction) -> Subscription:
            found = tx.subscription(subscriber)
            if found is None:
                found = Subscription(subscriber, tx.last_message_id())
                tx.put_subscription(found, now)
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
                held = tx.subscription(subscriber)
                assert held is not None
                tx.put_subscription(held._replace(node=node, held_until=held_until), now)
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
            held = tx.subscription(subscriber)
            if held is None or held.node != node:
                return False
            tx.put_subscription(move(held), now)
            return True

        return self._store.write(Lane.API, work)

    def after(self, message_id: int, *, limit: int) -> Sequence[Message]:
        """Return messages in commit order, for streams and lists."""
        with self._store.read() as tx:
            return tx.messages_after(message_id, limit=limit)

    def last_id(self) -> int:
        """Return the last message in commit order, behind which a stream starts without a gap; 0 if there is none."""
        with self._store.look() as tx:
            return tx.last_message_id()

    def list(self, wanted: MessageFilter, *, limit: int, before: int | None = None) -> Sequence[Message]:
        """Return messages, newest first; `before` is an id."""
        with self._store.look() as tx:
            return tx.list_messages(wanted, limit=limit, before=before)

    def count(self, wanted: MessageFilter, *, most: int) -> int:
        """Return how many messages match; counting stops at `most`."""
        with self._store.look() as tx:
            return tx.count_messages(wanted, most=most)

    def subscriptions(self) -> Sequence[Subscription]:
        """Return the position of every subscriber."""
        with self._store.read() as tx:
            return tx.subscriptions()


def _next(tx: Snapshot, now: int, subscriber: str, node: str, *, limit: int) -> Sequence[Message]:
    held = tx.subscription(subscriber)
    if held is None or not held.is_free(now, node):
        return []
    return tx.messages_after(held.cursor, limit=limit)
