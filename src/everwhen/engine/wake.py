"""A sleep that can be cut short: by a change, by a stop, by the time that was given."""

from __future__ import annotations

import threading


class Wake:
    """Set by anybody, waited for by one loop. A wake-up that comes before the wait is not lost."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        # What is set already costs nothing: whoever waits clears it before it looks at what there is to do.
        if not self._event.is_set():
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Sleep, at most so long; True when woken."""
        woken = self._event.wait(max(seconds, 0.0))
        self._event.clear()
        return woken
