"""The dispatcher: hands ready jobs over to a queue, and looks after those that nobody takes.

What may go, and what becomes of what gets lost, the outbox decides (`stores.flows.outbox` has the essay). Here is the
order of things. Nothing is marked before the queue has answered a ping, so that a broker that is away leaves the jobs
ready, and not on a way that leads nowhere. What was marked and could not be sent is sent again, by the same names, as
soon as the queue is back; should this process die before that, the look-after of any dispatcher finds it.

Any number of dispatchers may run. None of them leads, and one that dies is not missed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from everwhen.model.delivery import Delivery, Found
from everwhen.model.instants import HOUR, MINUTE
from everwhen.ports.clock import Clock
from everwhen.ports.outbox import Outbox
from everwhen.ports.queue import Queue

BATCH = 500
PORTION = 100
LONGEST_LOOK = 10 * MINUTE  # between two looks at a message that waits
UNKNOWN_FOR = HOUR  # what a queue that cannot be asked has not delivered by then is taken to be gone

log = logging.getLogger("everwhen")


class Dispatcher:
    """One step: withdraw, look after, hand over. `patience`: seconds after which an untaken job is looked after."""

    def __init__(self, outbox: Outbox, queue: Queue, clock: Clock, *, patience: float) -> None:
        self._outbox = outbox
        self._queue = queue
        self._clock = clock
        self._patience = int(patience * 1_000_000)
        self._unsent: Sequence[Delivery] = ()  # marked, and perhaps not in the queue

    @property
    def name(self) -> str:
        return self._queue.name

    def ping(self) -> None:
        """Whether the queue can be reached; QueueError when it cannot."""
        self._queue.ping()

    def step(self) -> bool:
        """True when something was done, so that there may be more."""
        now = self._clock.now()
        next_at = self._outbox.next_at(now)
        is_due = next_at is not None and next_at <= now
        needless = self._outbox.to_withdraw(limit=PORTION)
        if not is_due and not needless and not self._unsent:
            return False
        self._queue.ping()
        self._send(self._unsent)
        self._withdraw(needless)
        looked = self._look_after() if is_due else 0
        sent = self._hand_over() if is_due else 0
        return bool(needless or looked or sent)

    def seconds_to_next(self, at_most: float) -> float:
        now = self._clock.now()
        next_at = self._outbox.next_at(now)
        if next_at is None:
            return at_most
        return min(max((next_at - now) / 1_000_000, 0.01), at_most)

    def close(self) -> None:
        self._queue.close()

    def _hand_over(self) -> int:
        now = self._clock.now()
        given = self._outbox.hand_over(now, limit=BATCH, until=now + self._patience)
        self._send(given)
        return len(given)

    def _send(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._unsent = deliveries
            self._queue.put(deliveries)
            self._unsent = ()

    def _withdraw(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._queue.withdraw(deliveries)
            self._outbox.withdrawn(deliveries)

    def _look_after(self) -> int:
        """Ask what became of the messages about jobs that nobody took in time."""
        now = self._clock.now()
        late = self._outbox.overdue(now, limit=PORTION)
        if not late:
            return 0
        found = list(zip(late, self._queue.find(late), strict=True))
        gone = [delivery for delivery, what in found if self._is_gone(delivery, what, now)]
        failed = [(delivery, what.error or "") for delivery, what in found if what.whereabouts == "failed"]
        done = {delivery.job_id for delivery in gone} | {delivery.job_id for delivery, _ in failed}
        self._outbox.leave([(d, self._look_again_at(d, now)) for d, _ in found if d.job_id not in done])
        if back := self._outbox.put_back(now, gone):
            log.warning("%d job(s) were not to be found in %s: they are handed over again", back, self.name)
        if lost := self._outbox.count_failed(now, failed):
            log.warning("%s failed with %d job(s) before they began: %s", self.name, lost, failed[0][1])
        return len(late)

    def _is_gone(self, delivery: Delivery, found: Found, now: int) -> bool:
        if found.whereabouts == "unknown":
            return now - delivery.handed_over_at > UNKNOWN_FOR
        return found.whereabouts == "gone"

    def _look_again_at(self, delivery: Delivery, now: int) -> int:
        """Later each time: a long queue is asked about each of its messages a few times and no more."""
        return now + max(self._patience, min(now - delivery.handed_over_at, LONGEST_LOOK))
