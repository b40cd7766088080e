"""Threads that stay: each takes the next piece of work, so that a job costs a hand-over and no new thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], None]


class Crew:
    """Runs work side by side, on at most so many threads. They end with the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._hands = 0
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()

    def hand_over(self, work: Work) -> None:
        """By one thread only; a further hand is taken on when none is idle."""
        self._work.put(work)
        if not self._idle.acquire(blocking=False) and self._hands < self._most:
            self._hands += 1
            threading.Thread(target=self._serve, name=f"everwhen-job-{self._hands}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()
            self._idle.release()
