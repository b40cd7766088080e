"""The heartbeat to the outside: a URL is called while the node is ready.

A dead process cannot alert. The receiver, a dead man's switch on another machine, notices that the calls stop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from everwhen.engine.loop import Loop
from everwhen.model.alerts import Sent

LAST = 1.0  # seconds that the end of a call is waited for

log = logging.getLogger("everwhen")


class OutsideHeartbeat:
    """Calls a URL every so many seconds; `unreadiness` says why the node is not ready."""

    def __init__(self, call: Callable[[], Sent], every: float, unreadiness: Callable[[], str | None]) -> None:
        self._call, self._every, self._unreadiness = call, every, unreadiness
        self._is_refused = False
        self._ended = threading.Event()
        self._loop = Loop("heartbeat", "heartbeat", self._step, self._ended)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._ended.set()
        self._loop.join(LAST)

    def beat(self) -> bool:
        """Call the URL if the node is ready; return whether it was called and answered."""
        if self._unreadiness() is not None:
            return False
        sent = self._call()
        if not sent.is_delivered and not self._is_refused:
            log.warning("the heartbeat cannot be delivered: %s", sent.answer)
        elif sent.is_delivered and self._is_refused:
            log.info("the heartbeat is delivered again")
        self._is_refused = not sent.is_delivered
        return sent.is_delivered

    def _step(self) -> None:
        self.beat()
        self._ended.wait(self._every)
