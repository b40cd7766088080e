"""Long work beside the loop gives way: while it lasts, the interpreter is handed to those who wait fifty times as soon.

A thread that works without a pause keeps the interpreter for 5 ms at a time. A tick asks the database a dozen times,
and would wait that long after each answer. And ten thousand new schedules are a million objects without a cycle among
them: looking through all of those for garbage would stop every thread for a quarter of a second, so nobody looks.
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
    """As long as the block lasts; the last of several that ends puts things back as they were."""
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
