"""Messages in the order in which they were written, and the position of each subscriber in them.

Delivery is at least once: a node holds the subscription for a limited time, delivers messages in order, and moves the
cursor. When it dies first, the next node that holds the subscription delivers them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """A message as it is stored. `body` is the MessageEvent as JSON."""

    id: int
    event_id: str
    at: int
    schedule_id: str
    uid: str
    owner: str | None
    job_id: str
    body: str


class MessageFilter(NamedTuple):
    """A filter for messages: all conditions that are set must hold. `since` is inclusive, `until` exclusive."""

    owner: str | None = None
    schedule_id: str | None = None
    since: int | None = None
    until: int | None = None


class Subscription(NamedTuple):
    """The position of a subscriber. `cursor` is the id of the last message that was delivered to it."""

    subscriber: str
    cursor: int
    failures: int = 0
    next_attempt_at: int | None = None
    last_error: str | None = None
    node: str | None = None
    held_until: int | None = None

    def is_free(self, now: int, node: str) -> bool:
        """Check that this node may deliver: no other node holds it, and it is not waiting after a failure."""
        is_held = self.node not in (None, node) and self.held_until is not None and self.held_until > now
        return not is_held and (self.next_attempt_at is None or self.next_attempt_at <= now)


class Messages(Protocol):
    """Messages and their subscriptions. Each method is one transaction."""

    def subscribe(self, now: int, subscriber: str) -> Subscription:
        """Return the position of the subscriber; a new one begins behind the existing messages."""
        ...

    def take(self, now: int, subscriber: str, *, node: str, limit: int, held_until: int) -> Sequence[Message]:
        """Return the next messages for a subscriber, held for this node; none when another node delivers."""
        ...

    def advance(
        self, now: int, subscriber: str, *, node: str, cursor: int | None, held_until: int | None
    ) -> bool:
        """Mark everything up to the cursor as delivered; False when this node no longer holds the subscription.

        A cursor is a position in commit order; its size has no meaning. None: nothing was delivered.
        """
        ...

    def postpone(
        self, now: int, subscriber: str, *, node: str, cursor: int | None, until: int, error: str
    ) -> None:
        """Record that the message after the cursor could not be delivered; it is retried at `until`."""
        ...

    def after(self, message_id: int, *, limit: int) -> Sequence[Message]:
        """Return messages in commit order, for streams and lists."""
        ...

    def last_id(self) -> int:
        """Return the last message in commit order, behind which a stream starts without a gap; 0 if there is none."""
        ...

    def list(self, wanted: MessageFilter, *, limit: int, before: int | None = None) -> Sequence[Message]:
        """Return messages, newest first; `before` is an id."""
        ...

    def count(self, wanted: MessageFilter, *, most: int) -> int:
        """Return how many messages match; counting stops at `most`."""
        ...

    def subscriptions(self) -> Sequence[Subscription]:
        """Return the position of every subscriber."""
        ...
