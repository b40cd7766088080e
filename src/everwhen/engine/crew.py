"""Threads that stay: each takes the next piece of work, so that a job costs a hand-over and no new thread."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from everwhen.ports.target import Run

T = TypeVar("T")
Work = tuple[Future[Any], Callable[[], Any]]


class Crew:
    """Runs work that blocks, side by side, on at most so many threads. They end with the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._hands = 0
        self._guard = threading.Lock()
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()

    async def call(self, work: Callable[[], T], run: Run) -> T:
        """What the work returns or raises. Cancelled, it goes on: a thread cannot be stopped (R9)."""
        future = self.hand_over(work)
        try:
            return await asyncio.wrap_future(_shadow(future))
        except asyncio.CancelledError:
            if not future.done():
                run.still_running.append(future)
            raise

    def hand_over(self, work: Callable[[], T]) -> Future[T]:
        """Have a thread do it; a further hand is taken on when none is idle."""
        future: Future[T] = Future()
        self._work.put((future, work))
        with self._guard:
            if not self._idle.acquire(blocking=False) and self._hands < self._most:
                self._hands += 1
                name = f"everwhen-job-{self._hands}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            future, work = self._work.get()
            try:
                result = work()
            except BaseException as error:  # sys.exit ends what was called, never the thread
                future.set_exception(error)
            else:
                future.set_result(result)
            self._idle.release()


def _shadow(future: Future[T]) -> Future[T]:
    """A future that ends with the other one and can be cancelled without it."""
    shadow: Future[T] = Future()

    def copy(ended: Future[T]) -> None:
        if not shadow.set_running_or_notify_cancel():
            return
        error = ended.exception()
        if error is not None:
            shadow.set_exception(error)
        else:
            shadow.set_result(ended.result())

    future.add_done_callback(copy)
    return shadow
