"""The wait for running jobs before a stop, limited to the time they are given (G1)."""

from __future__ import annotations

import threading

from everwhen.engine.loop import Loop
from everwhen.engine.wake import Wake
from everwhen.engine.worker import Worker

LOOK_AGAIN = 0.05
FIRST_LOOK = 1.0


def drain(worker: Worker, wake: Wake, seconds: float) -> int:
    """Settle the jobs that end within that time; return how many are still running after it.

    Runs on its own thread: a database that refuses, or does not answer at all, must not delay the stop, which has
    processes to end afterwards.
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
    looked.wait(FIRST_LOOK)  # jobs that have ended by now are settled, also with no time to wait
    over.wait(seconds)
    over.set()
    return worker.running_count
