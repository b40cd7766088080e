"""Waiting for running jobs before a stop, for as long as they are given and no longer (G1)."""

from __future__ import annotations

import threading

from everwhen.engine.loop import Loop
from everwhen.engine.wake import Wake
from everwhen.engine.worker import Worker

LOOK_AGAIN = 0.05
FIRST_LOOK = 1.0


def drain(worker: Worker, wake: Wake, seconds: float) -> int:
    """Settle what ends within that time; how many were still running after it.

    On a thread of its own: a database that refuses, or does not answer at all, must not hold up the stop, behind
    which processes wait to be ended.
    """
    if not worker.running_count:
        return 0
    looked, over = threading.Event(), threading.Event()

    def settle_once() -> None:
        try:
            worker.settle()
        finally:
            looked.set()
        if not worker.running_count:
            over.set()
        elif not over.is_set():
            wake.wait(LOOK_AGAIN)

    Loop("drain", "settlement", settle_once, over).start()
    looked.wait(FIRST_LOOK)  # what has ended by now counts, also where nobody is waited for
    over.wait(seconds)
    over.set()
    return worker.running_count
