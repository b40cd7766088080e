"""A queue that carries messages to workers which are not ours (RQ, Celery)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from everwhen.model.delivery import Delivery, Found


class Queue(Protocol):
    """Every verb raises QueueError while the queue is away, and may be repeated."""

    @property
    def name(self) -> str:
        """What people call it: RQ, Celery."""
        ...

    def ping(self) -> None:
        """Whether it can be reached."""
        ...

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Send messages; one that is there already is left alone where the queue can tell."""
        ...

    def find(self, deliveries: Sequence[Delivery]) -> list[Found]:
        """What became of each of these messages."""
        ...

    def withdraw(self, deliveries: Sequence[Delivery]) -> None:
        """Take messages back as far as that is possible."""
        ...

    def close(self) -> None: ...
