"""A node's greetings to the guardian of its processes, on a thread that waits for nobody (R8).

The guardian ends what runs when the lease is over and nobody has greeted it: a frozen node's jobs are with others then.
So a greeting says how long the lease on record lasts. A node that lives and cannot reach the database is another
matter: the outage may be everybody's, and then nobody takes its jobs. It goes on, unless it is told to put limits
before work (`when_cut_off: stop`): then it ends its jobs itself, and the guardian what is left of them.

Beats wait for the database, for longer than a lease if it hangs; greetings must not, so they are made beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from everwhen.engine.lease import Lease
from everwhen.engine.loop import Loop
from everwhen.engine.worker import Worker
from everwhen.model.node import WhenCutOff

OFTEN = 3  # greetings in a beat
LONGEST_MARGIN = 5.0  # from SIGTERM to SIGKILL
LATE = 1.5  # beats; a lease that is older is not being renewed

Greet = Callable[[float, float], None]  # seconds that the lease lasts, and the margin before its end


class Greeting:
    """Greets as long as the node lives; for one node at a time."""

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
        """Greet until `gone` is set, the first time before anything runs; the loop that does it."""
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
