"""Low priority for long work in the background: it releases the interpreter to waiting threads fifty times sooner.

A thread that works without a pause keeps the interpreter for 5 ms at a time. A tick queries the database a dozen
times, and would wait that long after each answer. And ten thousand new schedules are a million objects without a
cycle among them: a garbage collection over all of them would stop every thread for a quarter of a second, so it is
disabled.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.0001  # seconds

_guard = threading.Lock()
_at_work = 0
_usual = 0.0


@contextmanager
def low_priority() -> Iterator[None]:
    """Lower the priority for the duration of the block; the last of several blocks to end restores the settings."""
    global _at_work, _usual  # noqa: PLW0603 - the interpreter has one such interval for all threads
    with _guard:
        if not _at_work:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual, SHARE))
            gc.disable()
        _at_work += 1
    try:
        yield
    finally:
        with _guard:
            _at_work -= 1
            if not _at_work:
                gc.enable()
                sys.setswitchinterval(_usual)
