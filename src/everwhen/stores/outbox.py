"""Jobs that are dispatched to a queue: which to send, which are sent, and what happens to lost ones."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.model.claim import ClaimedJob
from everwhen.model.delivery import Delivery
from everwhen.stores.flows.outbox import count_failed, put_back, send_jobs, take_delivered
from everwhen.stores.lanes import Lane
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Store


class Outbox:
    """The database side of a hand-over, each method in one transaction; `flows.outbox` describes the protocol."""

    def __init__(self, store: Store, plans: PlanCache) -> None:
        self._store = store
        self._plans = plans

    def hand_over(self, now: int, *, limit: int, until: int) -> list[Delivery]:
        """Mark up to `limit` ready jobs as sent, to be checked at `until`; return the messages to send."""
        next_at = self.next_at(now)
        if next_at is None or next_at > now:  # a read costs a hundredth of a write
            return []
        return self._store.write(
            Lane.CLAIM, lambda tx: send_jobs(tx, self._plans, now, limit=limit, until=until)
        )

    def next_at(self, now: int) -> int | None:
        """Return the earliest instant at which a job is to be handed over or checked."""
        with self._store.look() as tx:
            return tx.next_delivery_at(now)

    def take(self, now: int, *, node: str, job_id: str, number: int) -> ClaimedJob | None:
        """Claim the job of a message; None when the message is out of date or the job must wait."""
        return self._store.write(
            Lane.CLAIM,
            lambda tx: take_delivered(tx, self._plans, now, node=node, job_id=job_id, number=number),
        )

    def overdue(self, now: int, *, limit: int) -> list[Delivery]:
        """Return jobs that should have been claimed by now, the longest overdue first."""
        with self._store.look() as tx:
            return tx.overdue_deliveries(now, limit=limit)

    def leave(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        """Record that these messages still wait in the queue: check each again at that instant."""
        if deliveries:
            self._store.write(Lane.CLAIM, lambda tx: tx.leave_deliveries(deliveries))

    def put_back(self, now: int, deliveries: Sequence[Delivery]) -> int:
        """Make the jobs of lost messages ready again; return how many."""
        if not deliveries:
            return 0
        return self._store.write(Lane.CLAIM, lambda tx: put_back(tx, self._plans, now, deliveries))

    def count_failed(self, now: int, failed: Sequence[tuple[Delivery, str]]) -> int:
        """Count failures of the queue's worker before a job began: rescues, then (the fourth) lost; return how many."""
        if not failed:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: count_failed(tx, self._plans, now, failed))

    def to_withdraw(self, *, limit: int) -> list[Delivery]:
        """Return messages that are no longer needed: their jobs are cancelled, or another worker ran them."""
        with self._store.look() as tx:
            return tx.needless_deliveries(limit=limit)

    def withdrawn(self, deliveries: Sequence[Delivery]) -> None:
        """Record that these messages are removed from the queue."""
        if deliveries:
            self._store.write(Lane.CLAIM, lambda tx: tx.withdraw_deliveries(deliveries))

    def on_its_way(self, job_id: str) -> Delivery | None:
        """Return the message that a queued job waits for."""
        with self._store.look() as tx:
            return tx.delivery_of(job_id)
