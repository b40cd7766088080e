"""Waiting for the signals that end a program: SIGINT and SIGTERM; the second one means it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def told_to_stop(kill: Callable[[], None]) -> Iterator[threading.Event]:
    """Set by the first signal; the second kills what runs. Afterwards the signals mean what they meant before.

    Python tells signals to the main thread only: elsewhere nothing is changed, and the event is never set.
    """
    told = threading.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        if told.is_set():
            kill()
            raise SystemExit(130)
        told.set()

    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    before = {number: signal.signal(number, tell) for number in _SIGNALS}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(told: threading.Event, is_running: Callable[[], bool]) -> None:
    """Until a signal came, or somebody else has stopped it."""
    # In short pieces: the kernel may hand a signal to any thread, and Python's handler runs when this one wakes.
    while not told.wait(0.2) and is_running():
        pass
