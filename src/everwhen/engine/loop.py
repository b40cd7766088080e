"""A thread that does one unit of work after another, and never ends because of an error (E7).

A step that fails is logged and retried, after a growing pause. The step itself decides what it does, and how long it
sleeps when there is nothing to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from everwhen.engine.wake import Wake
from everwhen.errors import QueueError, StoreError

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # short enough to continue promptly when the database is back
LOOK_AGAIN = 0.05

log = logging.getLogger("everwhen")


class Loop:
    """Runs steps until `ended` is set."""

    def __init__(self, name: str, what: str, step: Callable[[], None], ended: threading.Event) -> None:
        self._what = what
        self._step = step
        self._ended = ended
        self.error: Exception | None = None  # of the last step, while steps fail
        self._thread = threading.Thread(target=self._run, name=f"everwhen-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._ended.is_set():
            try:
                self._step()
                self.error = None
                pause = FIRST_PAUSE
            except Exception as error:  # top of the loop: it never ends
                # An unreachable database or queue needs one line; any other error is logged with its traceback.
                self.error = error
                is_away = isinstance(error, StoreError | QueueError)
                log.error("Error during %s: %s", self._what, error, exc_info=not is_away)
                if _has_waited(error):
                    pause = FIRST_PAUSE
                self._ended.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)


def _has_waited(error: Exception) -> bool:
    """Return whether the database was locked: the step has waited for seconds, and must retry as soon as it is free."""
    return isinstance(error, StoreError) and error.fault == "locked"


class WakeableSleep:
    """The sleep between steps.

    Another process on the same file cannot set our wake-up, so the sleep polls its change counter; a database that
    notifies (PostgreSQL) needs no polling.
    """

    def __init__(self, wake: Wake, changes: Callable[[], int] | None) -> None:
        self._wake = wake
        self._changes = changes
        self._seen = 0

    def begin(self) -> None:
        """Note the change counter before a step reads: commits by others from here on cut the next sleep short."""
        if self._changes is not None:
            self._seen = self._changes()

    def sleep(self, seconds: float) -> None:
        if self._changes is None:
            self._wake.wait(seconds)
            return
        left = seconds
        while self._changes() == self._seen and left > 0:
            if self._wake.wait(min(left, LOOK_AGAIN)):
                return
            left -= LOOK_AGAIN
