"""Delivery of messages to subscribers: in order, at least once, and independently of other subscribers.

Every subscriber has a thread and a cursor. The delivering node holds the subscription in the database while it
delivers. When that node dies, its hold expires, and another node delivers from the cursor on, repeating some
messages. A message that a subscriber refuses is delivered again after a pause that doubles, until it is accepted; the
messages behind it wait.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence

from everwhen.clock import Clock
from everwhen.engine.loop import Loop, Wake
from everwhen.model.instants import SECOND
from everwhen.model.message import Message, Subscriber
from everwhen.model.node import HOLD, LAST_DELIVERIES
from everwhen.store.messages import Messages

PORTION = 100
KEEP_EVERY = 5.0  # seconds after which the cursor is recorded and the hold extended
FIRST_PAUSE, LONGEST_PAUSE = 1 * SECOND, 300 * SECOND
LOOK_AGAIN = 1.0
LAST_LINES = LAST_DELIVERIES / SECOND
LONGEST_ERROR = 1_000

log = logging.getLogger("everwhen")


def pause_after(failures: int) -> int:
    """Return how long to wait after so many failures in a row.

    >>> [pause_after(n) // SECOND for n in (1, 2, 3, 9, 10, 99)]
    [1, 2, 4, 256, 300, 300]
    """
    return min(FIRST_PAUSE << min(failures - 1, 20), LONGEST_PAUSE)


class SubscriberDelivery:
    """Delivers to one subscriber, one portion per step."""

    def __init__(self, messages: Messages, clock: Clock, subscriber: Subscriber, *, node: str) -> None:
        self._messages, self._clock, self._node = messages, clock, node
        self._subscriber, self._name = subscriber, subscriber.subscriber_id

    def subscribe(self) -> None:
        """Create the cursor: from now on the subscriber misses no message."""
        self._messages.subscribe(self._clock.now(), self._name)

    def step(self, is_over: threading.Event | None = None) -> bool:
        """Deliver the pending messages, at most one portion; return True when there may be more."""
        now = self._clock.now()
        taken = self._messages.take(now, self._name, node=self._node, limit=PORTION, held_until=now + HOLD)
        if not taken:
            return False
        return self._deliver(taken, is_over or threading.Event()) and len(taken) == PORTION

    def _deliver(self, taken: Sequence[Message], is_over: threading.Event) -> bool:
        done: int | None = None
        kept_at = self._clock.monotonic()
        for message in taken:
            if is_over.is_set():
                break
            try:
                self._subscriber.deliver(json.loads(message.body))
            except Exception as error:  # user code
                self._postpone(done, error)
                return False
            done = message.id
            if self._clock.monotonic() - kept_at >= KEEP_EVERY:
                kept_at = self._clock.monotonic()
                if not self._advance(done, is_held=True):
                    return False  # another node delivers by now
        # Also when nothing was delivered: this gives up the hold.
        return self._advance(done, is_held=False)

    def _advance(self, cursor: int | None, *, is_held: bool) -> bool:
        now = self._clock.now()
        held_until = now + HOLD if is_held else None
        return self._messages.advance(now, self._name, node=self._node, cursor=cursor, held_until=held_until)

    def _postpone(self, done: int | None, error: Exception) -> None:
        now = self._clock.now()
        text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
        own = [s.failures for s in self._messages.subscriptions() if s.subscriber == self._name]
        until = now + pause_after(own[0] + 1 if own and done is None else 1)
        log.warning("subscriber %s refused a message: %s", self._name, text)
        self._messages.postpone(now, self._name, node=self._node, cursor=done, until=until, error=text)


class Deliveries:
    """The delivery threads of all subscribers of one node."""

    def __init__(self, messages: Messages, clock: Clock, subscribers: Sequence[Subscriber]) -> None:
        self._messages = messages
        self._clock = clock
        self._subscribers = list(subscribers)
        self._wakes: list[Wake] = []
        self._loops: list[Loop] = []
        self._over = threading.Event()
        self._node: str | None = None

    def subscribe(self) -> None:
        """Create the cursor of every subscriber: from now on none misses a message."""
        for subscriber in self._subscribers:
            self._messages.subscribe(self._clock.now(), subscriber.subscriber_id)

    def start(self, node: str) -> None:
        """Create the cursor of every subscriber, then start the threads."""
        self._over.clear()
        self._node = node
        self._wakes, self._loops = [], []
        deliveries = [self._subscribed(subscriber, node) for subscriber in self._subscribers]
        for delivery in deliveries:
            self._begin(delivery)

    def add(self, subscriber: Subscriber) -> None:
        """Add a subscriber, also while messages are being delivered to others."""
        if self._node is not None:
            self._begin(self._subscribed(subscriber, self._node))
        self._subscribers.append(subscriber)

    def _subscribed(self, subscriber: Subscriber, node: str) -> SubscriberDelivery:
        delivery = SubscriberDelivery(self._messages, self._clock, subscriber, node=node)
        delivery.subscribe()
        return delivery

    def _begin(self, delivery: SubscriberDelivery) -> None:
        wake = Wake()

        def deliver_once() -> None:
            if not delivery.step(self._over):
                wake.wait(LOOK_AGAIN)

        self._wakes.append(wake)
        self._loops.append(Loop("delivery", "message delivery", deliver_once, self._over))
        self._loops[-1].start()

    def wake(self) -> None:
        """Wake all threads: there may be messages to deliver."""
        for wake in self._wakes:
            wake.set()

    def stop(self, timeout: float = LAST_LINES) -> None:
        """Stop after the message that is being delivered; a delivery that hangs is left until its hold expires."""
        self._node = None
        self._over.set()
        self.wake()
        deadline = self._clock.monotonic() + timeout
        for loop in self._loops:
            loop.join(max(deadline - self._clock.monotonic(), 0.0))
