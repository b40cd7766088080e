"""Stored messages, the position of each subscriber in them, and what a subscriber is.

Delivery is at least once: a node holds the subscription for a limited time, delivers messages in order, and moves the
cursor. When it dies first, the next node that holds the subscription delivers them again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


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


class Subscriber(Protocol):
    """One receiver. `subscriber_id` names its cursor: the same id continues where it was, on every node."""

    @property
    def subscriber_id(self) -> str: ...

    def deliver(self, event: dict[str, Any]) -> None:
        """Receive one MessageEvent. When this raises, the same one is delivered again, before any later one.

        It is called on a thread of its own and may block. An event may arrive twice, with the same `event_id` and
        `correlation.dedupe_key`.
        """
        ...
