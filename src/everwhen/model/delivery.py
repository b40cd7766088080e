"""A job that is sent to a worker of an external queue: the message, and what the queue reports about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol


class Delivery(NamedTuple):
    """The message "this job is ready". `number` counts the messages about one job: only the last one is valid.

    `seconds` is the job's own timeout; None means no timeout.
    """

    job_id: str
    number: int
    queue: str
    handed_over_at: int
    seconds: float | None = None

    @property
    def message_id(self) -> str:
        """Return an id that no other message has, not even an earlier one about the job that the queue still keeps.

        >>> Delivery("sched-a-n1-rc0", 1, "default", 0).message_id
        'sched-a-n1-rc0'
        >>> Delivery("sched-a-n1-rc0", 2, "default", 0).message_id
        'sched-a-n1-rc0-d2'
        """
        return self.job_id if self.number == 1 else f"{self.job_id}-d{self.number}"


Whereabouts = Literal["waiting", "gone", "failed", "unknown"]


class Found(NamedTuple):
    """The state of a message: it still waits, is gone, or the queue's worker failed with it before the job began.

    `unknown`: the queue cannot be queried for a single message.
    """

    whereabouts: Whereabouts
    error: str | None = None


WAITING, GONE, UNKNOWN = Found("waiting"), Found("gone"), Found("unknown")


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
