"""The outbox port on any database: each method is one flow in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.model.claim import ClaimedJob
from everwhen.model.delivery import Delivery
from everwhen.stores.flows.outbox import count_failed, put_back, send_jobs, take_delivered
from everwhen.stores.lanes import Lane
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Store


class StoredOutbox:
    """Hand-overs to a queue, kept in a store."""

    def __init__(self, store: Store, plans: PlanCache) -> None:
        self._store = store
        self._plans = plans

    def hand_over(self, now: int, *, limit: int, until: int) -> list[Delivery]:
        next_at = self.next_at(now)
        if next_at is None or next_at > now:  # a read costs a hundredth of a write
            return []
        return self._store.write(
            Lane.CLAIM, lambda tx: send_jobs(tx, self._plans, now, limit=limit, until=until)
        )

    def next_at(self, now: int) -> int | None:
        with self._store.look() as tx:
            return tx.next_delivery_at(now)

    def take(self, now: int, *, node: str, job_id: str, number: int) -> ClaimedJob | None:
        return self._store.write(
            Lane.CLAIM,
            lambda tx: take_delivered(tx, self._plans, now, node=node, job_id=job_id, number=number),
        )

    def overdue(self, now: int, *, limit: int) -> list[Delivery]:
        with self._store.look() as tx:
            return tx.overdue_deliveries(now, limit=limit)

    def leave(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        if deliveries:
            self._store.write(Lane.CLAIM, lambda tx: tx.leave_deliveries(deliveries))

    def put_back(self, now: int, deliveries: Sequence[Delivery]) -> int:
        if not deliveries:
            return 0
        return self._store.write(Lane.CLAIM, lambda tx: put_back(tx, self._plans, now, deliveries))

    def count_failed(self, now: int, failed: Sequence[tuple[Delivery, str]]) -> int:
        if not failed:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: count_failed(tx, self._plans, now, failed))

    def to_withdraw(self, *, limit: int) -> list[Delivery]:
        with self._store.look() as tx:
            return tx.needless_deliveries(limit=limit)

    def withdrawn(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._store.write(Lane.CLAIM, lambda tx: tx.withdraw_deliveries(deliveries))

    def on_its_way(self, job_id: str) -> Delivery | None:
        with self._store.look() as tx:
            return tx.delivery_of(job_id)
