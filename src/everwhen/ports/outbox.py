"""Jobs that are dispatched to a queue: which to send, which are sent, and what happens to lost ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from everwhen.model.claim import ClaimedJob
from everwhen.model.delivery import Delivery


class Outbox(Protocol):
    """The database side of a hand-over; the protocol is described in `stores.flows.outbox`."""

    def hand_over(self, now: int, *, limit: int, until: int) -> list[Delivery]:
        """Mark up to `limit` ready jobs as sent, to be checked at `until`; return the messages to send."""
        ...

    def next_at(self, now: int) -> int | None:
        """Return the earliest instant at which a job is to be handed over or checked."""
        ...

    def take(self, now: int, *, node: str, job_id: str, number: int) -> ClaimedJob | None:
        """Claim the job of a message; None when the message is out of date or the job must wait."""
        ...

    def overdue(self, now: int, *, limit: int) -> list[Delivery]:
        """Return jobs that should have been claimed by now, the longest overdue first."""
        ...

    def leave(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        """Record that these messages still wait in the queue: check each again at that instant."""
        ...

    def put_back(self, now: int, deliveries: Sequence[Delivery]) -> int:
        """Make the jobs of lost messages ready again; return how many."""
        ...

    def count_failed(self, now: int, failed: Sequence[tuple[Delivery, str]]) -> int:
        """Count failures of the queue's worker before a job began: rescues, then (the fourth) lost; return how many."""
        ...

    def to_withdraw(self, *, limit: int) -> list[Delivery]:
        """Return messages that are no longer needed: their jobs are cancelled, or another worker ran them."""
        ...

    def withdrawn(self, deliveries: Sequence[Delivery]) -> None:
        """Record that these messages are removed from the queue."""
        ...

    def on_its_way(self, job_id: str) -> Delivery | None:
        """Return the message that a queued job waits for."""
        ...
