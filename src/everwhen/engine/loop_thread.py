"""An event loop on its own thread: the targets of a node run on it concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

CLOSING = 10.0

log = logging.getLogger("everwhen")


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
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), name=self._name, daemon=True
            )
            self._thread.start()
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
