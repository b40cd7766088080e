"""Signal handling on a dedicated thread: the only module that installs signal handlers.

Python runs a handler in the main thread between any two bytecodes, also inside another run of the same handler and
inside `Event.wait`. A handler that takes a lock (`Event.set` does) may therefore wait for ever for the thread that it
interrupted: under many signals a process would stop reacting to any of them. So a handler here only puts the signal's
number into a queue whose `put` is reentrant, and a dedicated thread runs the action.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import Any, Self

LEFT_BY_SIGNAL = 130
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK, LOOK_SELDOM = 0.2, 5.0  # seconds


class ProcessSignals:
    """Signal handlers for the duration of a `with` block, which then restores the previous ones. Main thread only."""

    def __init__(self) -> None:
        self._received: SimpleQueue[int | None] = SimpleQueue()
        self._actions: dict[int, Callable[[], object]] = {}
        self._previous: dict[int, Any] = {}
        self._is_leaving = self._has_left = False
        self._thread = threading.Thread(target=self._act, name="everwhen-signals", daemon=True)
        self._thread.start()

    def on(self, number: int, action: Callable[[], object]) -> None:
        """Call the action on the signal thread whenever the signal arrives."""
        self._actions[number] = action
        previous = signal.signal(number, self._receive)
        self._previous.setdefault(number, previous)

    def on_stop(
        self, kill: Callable[[], object], prepare: Callable[[], object] = lambda: None
    ) -> StopRequest:
        """Return an event that the first SIGINT or SIGTERM sets, after it has called `prepare`.

        The second one calls `kill` and ends the program.
        """
        stopped = StopRequest()

        def stop() -> None:
            if stopped.is_set():
                kill()
                self.leave()
            prepare()
            stopped.set()

        for number in STOP_SIGNALS:
            self.on(number, stop)
        return stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        self._received.put(None)
        self._thread.join()

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._is_leaving:
            self._has_left = True
            raise SystemExit(LEFT_BY_SIGNAL)
        self._received.put(number)

    def leave(self) -> None:
        """End the main thread at any point of its execution: only a signal handler can raise there.

        For an action; it raises SystemExit there, so that the program can clean up.
        """
        self._is_leaving = True
        main = threading.main_thread().ident
        assert main is not None
        while not self._has_left:  # a signal just before the thread blocks does not wake it
            signal.pthread_kill(main, signal.SIGTERM)
            time.sleep(0.02)

    def _act(self) -> None:
        while (number := self._received.get()) is not None:
            self._actions[number]()


class StopRequest(threading.Event):
    """An event for which the main thread waits without waking up in between, and which signals interrupt.

    The kernel may deliver a signal to any thread, and Python runs handlers when the main thread wakes. So it waits for
    a pipe, to which Python's own part of a handler writes in whichever thread it runs. Blocking the signals in the
    other threads is not an alternative: their child processes would inherit the signal mask.
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._bell = -1  # the end of the pipe that is written to, while the main thread waits

    def set(self) -> None:
        """Set it; not in a signal handler."""
        super().set()
        with self._guard, suppress(BlockingIOError):
            if self._bell >= 0:
                os.write(self._bell, b"\0")

    def wait_on_main_thread(self, is_running: Callable[[], bool]) -> None:
        """Wait until it is set; `is_running` is asked after signals, and every few seconds."""
        rung, bell = os.pipe()
        for end in (rung, bell):
            os.set_blocking(end, False)
        poll = select.poll()
        poll.register(rung, select.POLLIN)
        before = signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        with self._guard:
            self._bell = bell
        try:
            while not self.is_set() and is_running():
                if poll.poll(LOOK_SELDOM * 1_000):
                    os.read(rung, 65_536)
        finally:
            signal.set_wakeup_fd(before)
            with self._guard:
                self._bell = -1
            os.close(rung)
            os.close(bell)


def wait_until(stopped: threading.Event, is_running: Callable[[], bool] = lambda: True) -> None:
    """Wait until the event is set or `is_running` returns False."""
    if isinstance(stopped, StopRequest):
        with suppress(OSError):  # no descriptor is left
            stopped.wait_on_main_thread(is_running)
    while not stopped.wait(LOOK) and is_running():
        pass
