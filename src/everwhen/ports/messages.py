"""Messages in the order in which they were written, and how far each subscriber has got with them.

Delivery is at least once: whoever takes messages holds the subscription for a while, delivers them in order, and
moves the cursor; when it dies first, the next one to hold it delivers them again.
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
    """Which messages: all that are given must hold. Written from `since` on and before `until`."""

    owner: str | None = None
    schedule_id: str | None = None
    since: int | None = None
    until: int | None = None


class Subscription(NamedTuple):
    """Where a subscriber stands. `cursor` is the id of the last message that it has had."""

    subscriber: str
    cursor: int
    failures: int = 0
    next_attempt_at: int | None = None
    last_error: str | None = None
    node: str | None = None
    held_until: int | None = None

    def is_free(self, now: int, node: str) -> bool:
        """Whether this node may deliver: nobody else holds it, and it is not waiting after a failure."""
        is_held = self.node not in (None, node) and self.held_until is not None and self.held_until > now
        return not is_held and (self.next_attempt_at is None or self.next_attempt_at <= now)


class Messages(Protocol):
    """What was said, and to whom. Each verb is one transaction."""

    def subscribe(self, now: int, subscriber: str) -> Subscription:
        """Where the subscriber stands; a new one begins behind the messages that there are."""
        ...

    def take(self, now: int, subscriber: str, *, node: str, limit: int, held_until: int) -> Sequence[Message]:
        """The next messages for a subscriber, held for this node; none when somebody else delivers."""
        ...

    def advance(
        self, now: int, subscriber: str, *, node: str, cursor: int | None, held_until: int | None
    ) -> bool:
        """Everything up to the cursor is delivered; False when this node does not hold the subscription any more.

        A cursor is a place in the order of commits and says nothing by its size. None: nothing was delivered.
        """
        ...

    def postpone(
        self, now: int, subscriber: str, *, node: str, cursor: int | None, until: int, error: str
    ) -> None:
        """The message after the cursor could not be delivered; it is tried again then."""
        ...

    def after(self, message_id: int, *, limit: int) -> Sequence[Message]:
        """Messages in commit order, for streams and lists."""
        ...

    def last_id(self) -> int:
        """The last message in commit order, after which a stream begins that has missed nothing; 0 when none was."""
        ...

    def list(self, wanted: MessageFilter, *, limit: int, before: int | None = None) -> Sequence[Message]:
        """Messages, newest first; `before` is an id."""
        ...

    def count(self, wanted: MessageFilter, *, most: int) -> int:
        """How many there are; counting ends at `most`."""
        ...

    def subscriptions(self) -> Sequence[Subscription]:
        """Where every subscriber stands."""
        ...
