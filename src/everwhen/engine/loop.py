"""A thread that does one unit of work after another, and never ends because of an error.

A step that fails is logged and retried, after a growing pause. The step itself decides what it does, and how long it
sleeps when there is nothing to do.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import TypeVar

from everwhen.errors import QueueError, StoreError
from everwhen.runtime import Changes

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # short enough to continue promptly when the database is back
# Seconds between two looks at the change counter: where no notifications come, and else.
LOOK_AGAIN, LOOK_SELDOM = 0.05, 1.0
LONGEST_IDLE = 10.0  # the same of a loop for which that is soon enough

log = logging.getLogger("everwhen")

T = TypeVar("T")


class Loop:
    """Runs steps until `ended` is set."""

    def __init__(self, name: str, what: str, step: Callable[[], None], ended: threading.Event) -> None:
        self._what = what
        self._step = step
        self._ended = ended
        self.error: Exception | None = None  # of the last step, while steps fail
        self.stepped = time.monotonic()  # when the last step ended, with an error or without
        self._thread = threading.Thread(target=self._run, name=f"everwhen-{name}", daemon=True)

    def start(self) -> None:
        self.stepped = time.monotonic()
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
                with suppress(Exception):  # a handler of the program that fails must not end the loop either
                    log.error("Error during %s: %s", self._what, error, exc_info=not is_away)
                if isinstance(error, StoreError) and error.fault == "locked":
                    pause = FIRST_PAUSE  # the step has waited for seconds: retry as soon as it is free
                self._ended.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            self.stepped = time.monotonic()


def patiently(work: Callable[[], T], trouble: str, *, patience: float = inf) -> T:
    """Retry work until the database is back, or until `patience` seconds are over; log `trouble` before each retry."""
    deadline, pause = time.monotonic() + patience, FIRST_PAUSE
    while True:
        try:
            return work()
        except StoreError as error:
            if time.monotonic() > deadline:
                raise
            log.error("%s: %s", trouble, error)
        threading.Event().wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


class WakeableSleep:
    """The sleep between steps.

    Another process on the same SQLite database cannot set our wake-up, but we are notified of its commits. A
    notification may be missing, so the sleep looks at the change counter now and then: often where none come at all. A
    database that notifies by itself (PostgreSQL) needs neither.
    """

    def __init__(self, wake: Wake, changes: Changes | None) -> None:
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
        # Followed before the look: of a commit behind it we are notified.
        pause = LOOK_SELDOM if self._changes.follow(self._note) else LOOK_AGAIN
        while self._changes() == self._seen and left > 0:
            if self._wake.wait(min(left, pause)):
                return
            left -= pause

    def _note(self, counter: int) -> None:
        if counter != self._seen:
            self._wake.set()


class CommitSleep:
    """The sleep of a loop that follows what is committed, and for which a second is soon enough.

    A busy database does not wake it more often than that, and one to which nobody commits hardly ever.
    """

    def __init__(self, wake: Wake, changes: Changes | None) -> None:
        self._wake = wake
        self._changes = changes
        self._seen = 0
        self._is_waiting = False

    def begin(self) -> None:
        """Note the change counter before a step reads."""
        if self._changes is not None:
            self._seen = self._look()

    def sleep(self, seconds: float, *, is_idle: bool) -> None:
        """Sleep; `is_idle`: then go on until somebody has committed since `begin`."""
        if self._wake.wait(seconds) or self._changes is None or not is_idle:
            return
        self._is_waiting = True  # before the look: of a commit behind it we are notified
        try:
            if self._changes.follow(self._note) and self._look() == self._seen:
                self._wake.wait(LONGEST_IDLE)
        finally:
            self._is_waiting = False

    def _look(self) -> int:
        assert self._changes is not None
        try:
            return self._changes()
        except StoreError:  # which the next step meets, and reports
            return -1

    def _note(self, counter: int) -> None:
        if self._is_waiting and counter != self._seen:
            self._wake.set()


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


# Low priority for long work in the background: it releases the interpreter to waiting threads fifty times sooner.
#
# A thread that works without a pause keeps the interpreter for 5 ms at a time. A tick queries the database a dozen
# times, and would wait that long after each answer. And ten thousand new schedules are a million objects without a
# cycle among them: a garbage collection over all of them would stop every thread for a quarter of a second. So only
# the youngest objects are collected. Without any collection, callers who keep such work going, one request after the
# other, would let the garbage of all others grow.


SHARE = 0.0001  # seconds
YOUNG_ONLY = (
    100_000,
    50,
    1_000_000,
)  # a pass over the youngest takes some milliseconds; the oldest are left alone

_guard = threading.Lock()
_at_work = 0
_usual = (0.0, gc.get_threshold())


@contextmanager
def low_priority() -> Iterator[None]:
    """Lower the priority for the duration of the block; the last of several blocks to end restores the settings."""
    global _at_work, _usual  # noqa: PLW0603 - the interpreter has one such interval for all threads
    with _guard:
        if not _at_work:
            _usual = sys.getswitchinterval(), gc.get_threshold()
            sys.setswitchinterval(min(_usual[0], SHARE))
            gc.set_threshold(*YOUNG_ONLY)
        _at_work += 1
    try:
        yield
    finally:
        with _guard:
            _at_work -= 1
            if not _at_work:
                switch_interval, thresholds = _usual
                gc.set_threshold(*thresholds)
                sys.setswitchinterval(switch_interval)
