"""The dispatcher: hands ready jobs over to a queue, and checks on those that no worker takes.

The outbox decides which jobs may be handed over, and what happens to lost ones (`store.outbox` has the essay).
This module owns the order of the steps. No job is marked before the queue has answered a ping, so that an unreachable
broker leaves the jobs ready, and not handed over to nowhere. Jobs that were marked and could not be sent are sent
again, under the same names, as soon as the queue is back. When this process dies before that, the check of any
dispatcher finds them.

Any number of dispatchers may run. None of them leads, and the others do the work of one that dies.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from everwhen.clock import Clock
from everwhen.model.instants import HOUR, MINUTE
from everwhen.model.queue import Delivery, Queue
from everwhen.store.outbox import Outbox

BATCH = 500
PORTION = 100
LONGEST_LOOK = 10 * MINUTE  # between two checks of a waiting message
UNKNOWN_FOR = HOUR  # if the queue does not know, a message that is not delivered by then counts as gone

log = logging.getLogger("everwhen")


class Dispatcher:
    """Withdraws, checks and hands over, once per step. `patience`: seconds after which an untaken job is checked."""

    def __init__(self, outbox: Outbox, queue: Queue, clock: Clock, *, patience: float) -> None:
        self._outbox = outbox
        self._queue = queue
        self._clock = clock
        self._patience = int(patience * 1_000_000)
        self._unsent: Sequence[Delivery] = ()  # marked, but perhaps not in the queue

    @property
    def name(self) -> str:
        return self._queue.name

    def ping(self) -> None:
        """Raise QueueError when the queue cannot be reached."""
        self._queue.ping()

    def step(self) -> bool:
        """Do one step; return True when it did something, so that there may be more."""
        now = self._clock.now()
        next_at = self._outbox.next_at(now)
        is_due = next_at is not None and next_at <= now
        needless = self._outbox.to_withdraw(limit=PORTION)
        if not is_due and not needless and not self._unsent:
            return False
        self._queue.ping()
        self._send(self._unsent)
        if needless:
            self._queue.withdraw(needless)
            self._outbox.withdrawn(needless)
        if not is_due:
            return bool(needless)
        looked, now = self._look_after(), self._clock.now()
        given = self._outbox.hand_over(now, limit=BATCH, until=now + self._patience)
        self._send(given)
        return bool(needless or looked or given)

    def seconds_to_next(self, at_most: float) -> float:
        now = self._clock.now()
        next_at = self._outbox.next_at(now)
        if next_at is None:
            return at_most
        return min(max((next_at - now) / 1_000_000, 0.01), at_most)

    def close(self) -> None:
        self._queue.close()

    def _send(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._unsent = deliveries
            self._queue.put(deliveries)
            self._unsent = ()

    def _look_after(self) -> int:
        """Ask the queue for the messages about jobs that no worker took in time.

        Each time they are asked for later: even in a long queue each message is checked only a few times.
        """
        now = self._clock.now()
        late = self._outbox.overdue(now, limit=PORTION)
        if not late:
            return 0
        gone, failed, left = [], [], []
        for delivery, found in zip(late, self._queue.find(late), strict=True):
            age = now - delivery.handed_over_at
            if found.whereabouts == "failed":
                failed.append((delivery, found.error or ""))
            elif found.whereabouts == "gone" or (found.whereabouts == "unknown" and age > UNKNOWN_FOR):
                gone.append(delivery)
            else:
                left.append((delivery, now + max(self._patience, min(age, LONGEST_LOOK))))
        self._outbox.leave(left)
        if back := self._outbox.put_back(now, gone):
            log.warning("%d job(s) are missing in %s; they are handed over again", back, self.name)
        if lost := self._outbox.count_failed(now, failed):
            log.warning("%s failed with %d job(s) before they began: %s", self.name, lost, failed[0][1])
        return len(late)
