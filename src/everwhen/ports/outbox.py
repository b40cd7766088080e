"""Jobs that are handed over to a queue: which go, which are on their way, and what becomes of those that get lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from everwhen.model.claim import ClaimedJob
from everwhen.model.delivery import Delivery


class Outbox(Protocol):
    """The database's side of a hand-over; the essay is in `stores.flows.outbox`."""

    def hand_over(self, now: int, *, limit: int, until: int) -> list[Delivery]:
        """Mark up to `limit` ready jobs as on their way, to be looked after at `until`; the messages to be sent."""
        ...

    def next_at(self, now: int) -> int | None:
        """The earliest instant at which there is something to hand over or to look after."""
        ...

    def take(self, now: int, *, node: str, job_id: str, number: int) -> ClaimedJob | None:
        """Claim what a message brought; None when the message is old, or the job has to wait after all."""
        ...

    def overdue(self, now: int, *, limit: int) -> list[Delivery]:
        """Jobs that should have been claimed by now, the longest first."""
        ...

    def leave(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        """Their messages wait still: look after each at that instant."""
        ...

    def put_back(self, now: int, deliveries: Sequence[Delivery]) -> int:
        """Their messages are gone: they are ready again; how many were."""
        ...

    def count_failed(self, now: int, failed: Sequence[tuple[Delivery, str]]) -> int:
        """The queue's worker failed with these before they began: rescued, or lost after the third time; how many."""
        ...

    def to_withdraw(self, *, limit: int) -> list[Delivery]:
        """Messages about jobs that are over: cancelled, or run by somebody else."""
        ...

    def withdrawn(self, deliveries: Sequence[Delivery]) -> None:
        """These messages are gone from the queue."""
        ...

    def on_its_way(self, job_id: str) -> Delivery | None:
        """The message that a queued job waits for."""
        ...
