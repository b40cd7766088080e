"""A queue that delivers messages to external workers (RQ, Celery)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from everwhen.model.delivery import Delivery, Found


class Queue(Protocol):
    """An external queue. Every method raises QueueError while it is unreachable, and may be repeated."""

    @property
    def name(self) -> str:
        """Return its display name: RQ, Celery."""
        ...

    def ping(self) -> None:
        """Raise QueueError when the queue cannot be reached."""
        ...

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Send messages; skip those that are in the queue already, where the queue can detect that."""
        ...

    def find(self, deliveries: Sequence[Delivery]) -> list[Found]:
        """Return what happened to each of these messages."""
        ...

    def withdraw(self, deliveries: Sequence[Delivery]) -> None:
        """Remove messages from the queue, as far as that is possible."""
        ...

    def close(self) -> None: ...
