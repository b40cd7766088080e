"""Where other people's Python runs: threads for what blocks, and a loop of its own for coroutines."""

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


class CallableLoop(Protocol):
    """An event loop that takes calls from any thread."""

    def call(self, work: Callable[..., object], *arguments: Any) -> None: ...

    def close(self) -> None: ...


class Crew:
    """Runs work side by side, on at most so many threads that stay: a job costs a hand-over and no new thread.

    They end with the process. Coroutines run on a loop of the crew's own, unless the host lends one.
    """

    def __init__(self, most: int, loop: CallableLoop | None = None) -> None:
        self._most = most
        self._hands = 0
        self._guard = threading.Lock()
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._loop = loop or LoopThread("everwhen-python")

    def hand_over(self, work: Callable[[], T], /) -> Future[T]:
        """Have a thread do it; a further hand is taken on when none is idle."""
        future: Future[T] = Future()
        self._work.put((future, work))
        with self._guard:
            if not self._idle.acquire(blocking=False) and self._hands < self._most:
                self._hands += 1
                name = f"everwhen-job-{self._hands}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def submit(self, work: Coroutine[Any, Any, T], /) -> tuple[Future[T], Callable[[], None]]:
        """Have the loop run it; the future ends when the coroutine does, also after a cancel."""
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
        self._loop.close()

    def _serve(self) -> None:
        while True:
            self._do(*self._work.get())
            self._idle.release()

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # sys.exit ends what was called, never the thread
            future.set_exception(error)
        else:
            future.set_result(result)


def _copy(task: asyncio.Task[T], future: Future[T]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())
