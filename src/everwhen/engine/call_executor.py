"""Execution of user Python code: threads for blocking calls, and a separate event loop for coroutines."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

from everwhen.engine.loop_thread import LoopThread

T = TypeVar("T")
Work = tuple[Future[Any], Callable[[], Any]]

CLOSING = 10.0


class CallableLoop(Protocol):
    """An event loop that takes calls from any thread."""

    def call(self, work: Callable[..., object], *arguments: Any) -> None: ...

    def close(self) -> None: ...


class CallExecutor:
    """Runs calls concurrently on at most `most` threads, which are kept: a job costs a hand-over, not a new thread.

    `close` ends the threads; a thread that is still busy ends after its call. Coroutines run on the executor's own
    event loop, unless the host provides one.
    """

    def __init__(self, most: int, loop: CallableLoop | None = None) -> None:
        self._most = most
        self._threads: list[_JobThread] = []
        self._guard = threading.Lock()
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._loop = loop or LoopThread("everwhen-python")

    def hand_over(self, work: Callable[[], T], /) -> Future[T]:
        """Run the call on a thread; start another thread when none is idle."""
        future: Future[T] = Future()
        with self._guard:
            self._work.put((future, work))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                number = len(self._threads) + 1
                self._threads.append(_JobThread(f"everwhen-job-{number}", self._work, self._idle))
                self._threads[-1].start()
        return future

    def submit(self, work: Coroutine[Any, Any, T], /) -> tuple[Future[T], Callable[[], None]]:
        """Run the coroutine on the loop; the future ends when the coroutine ends, also after a cancel."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(asyncio.get_running_loop().create_task(work))
            tasks[0].add_done_callback(lambda task: _copy(task, future))

        def cancel() -> None:
            tasks[0].cancel()

        self._loop.call(begin)
        return future, partial(self._loop.call, cancel)

    def close(self) -> None:
        """End the threads and the loop; a call that is handed over later starts new ones."""
        with self._guard:
            threads, self._threads = self._threads, []
            for _ in threads:
                self._work.put(None)
            self._work, self._idle = queue.SimpleQueue(), threading.Semaphore(0)
        for thread in threads:
            if not thread.is_busy:
                thread.join(CLOSING)
        self._loop.close()


class _JobThread(threading.Thread):
    """Runs one call after another, until it receives None."""

    def __init__(self, name: str, work: queue.SimpleQueue[Work | None], idle: threading.Semaphore) -> None:
        super().__init__(name=name, daemon=True)
        self.is_busy = False
        self._work = work
        self._idle = idle

    def run(self) -> None:
        while (work := self._work.get()) is not None:
            self._do(*work)
            self._idle.release()

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        self.is_busy = True
        try:
            result = work()
        except BaseException as error:  # sys.exit ends the call, never the thread
            self.is_busy = False
            future.set_exception(error)
        else:
            self.is_busy = False  # first: the caller may close the executor as soon as it has the result
            future.set_result(result)


def _copy(task: asyncio.Task[T], future: Future[T]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())
