"""A sleep that ends early on a change or a stop, and otherwise after the given time."""

from __future__ import annotations

import threading


class Wake:
    """Set by any thread, waited for by one loop. A wake-up that comes before the wait is not lost."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        # Setting a set event costs nothing: the waiting loop clears it before it looks for work.
        if not self._event.is_set():
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Sleep for at most `seconds`; return True when woken."""
        woken = self._event.wait(max(seconds, 0.0))
        self._event.clear()
        return woken
