"""A node's greetings to the guardian of its processes, on a thread that never blocks (R8).

The guardian ends the running processes when the lease has expired without a greeting: by then other nodes run a
frozen node's jobs. So a greeting states how long the recorded lease lasts. A live node that cannot reach the database
is a different case: the outage may affect all nodes, and then none of them takes its jobs. Such a node continues,
unless it is configured to prefer limits to work (`when_cut_off: stop`): then it ends its jobs itself, and the
guardian ends what is left of them.

Heartbeats wait for the database, for longer than a lease if it hangs. Greetings must not, so they have their own
thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from everwhen.engine.lease import Lease
from everwhen.engine.loop import Loop
from everwhen.engine.worker import Worker
from everwhen.model.node import WhenCutOff

OFTEN = 3  # greetings per heartbeat
LONGEST_MARGIN = 5.0  # from SIGTERM to SIGKILL
LATE = 1.5  # heartbeats; an older lease is not being renewed

Greet = Callable[[float, float], None]  # seconds until the lease ends, and the margin before its end


class Greeting:
    """Sends greetings while the node is alive; for one node at a time."""

    def __init__(
        self,
        lease: Lease,
        worker: Worker,
        greet: Greet | None,
        *,
        when_cut_off: WhenCutOff = "continue",
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._lease = lease
        self._worker = worker
        self._greet = greet
        self._when_cut_off = when_cut_off
        self._is_alive = is_alive
        self._margin = min(LONGEST_MARGIN, lease.seconds / 3)

    def start(self, gone: threading.Event) -> Loop:
        """Send greetings until `gone` is set, the first before any job runs; return the loop that sends them."""
        self.step()
        loop = Loop("greeting", "greeting", lambda: self._step_after_pause(gone), gone)
        loop.start()
        return loop

    def _step_after_pause(self, gone: threading.Event) -> None:
        if not gone.wait(self._lease.beat_every / OFTEN) and self._is_alive():
            self.step()

    def step(self) -> None:
        left = self._lease.seconds - self._lease.age
        if self._lease.age > LATE * self._lease.beat_every:
            if self._when_cut_off == "continue":
                left = self._lease.seconds
            elif left <= self._margin:
                self._worker.cut_off()
        if self._greet is not None:
            self._greet(left, self._margin)
