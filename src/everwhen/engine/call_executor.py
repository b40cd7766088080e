"""Execution of targets: an event loop on its own thread, threads for blocking calls, a loop for coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Work = tuple[Future[Any], Callable[[], Any]]

CLOSING = 10.0
log = logging.getLogger("everwhen")


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
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                thread = _JobThread(f"everwhen-job-{len(self._threads) + 1}", self._work, self._idle)
                thread.start()  # first: a call for which there is no thread must not be left in the queue
                self._threads.append(thread)
            self._work.put((future, work))
        return future

    def is_on_own_thread(self) -> bool:
        """Return whether the caller is a call that this executor runs."""
        with self._guard:
            return threading.current_thread() in self._threads

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


class LoopThread:
    """Starts with the first call; `close` ends it, and the next call starts another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, work: Callable[..., object], *arguments: Any) -> None:
        """Have the loop call `work` soon; from any thread."""
        with self._guard:
            self._running_loop().call_soon_threadsafe(work, *arguments)

    def finish(self, last: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Have the loop run these to their end, each even if others fail; then close it."""
        with self._guard:
            loop = self._loop
        if loop is not None:
            for work in last:
                try:
                    asyncio.run_coroutine_threadsafe(work(), loop).result(CLOSING)
                except Exception:
                    log.warning("closing a target failed", exc_info=True)
        self.close()

    def close(self) -> None:
        """Cancel the remaining tasks, end the loop and its thread."""
        with self._guard:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSING)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
            self._loop = loop  # the thread ends when it is not the current one
            try:
                self._thread.start()
            except BaseException:
                self._loop = self._thread = None
                loop.close()
                raise
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_over(loop):
            try:
                loop.run_forever()
            except BaseException:  # a task that calls sys.exit stops the loop; the other tasks must continue
                log.exception("a task of %s tried to end the loop", self._name)
        with contextlib.suppress(BaseException):
            loop.run_until_complete(_wind_up(loop))
        loop.close()

    def _is_over(self, loop: asyncio.AbstractEventLoop) -> bool:
        with self._guard:
            return self._loop is not loop


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
