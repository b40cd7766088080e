"""The event loop that a program's coroutines run on: the program's own while it is lent, else one of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from everwhen.engine.loop_thread import LoopThread


class HostLoop:
    """Inside `async with` a coroutine finds the loop, and so the connections and locks, of its program."""

    def __init__(self) -> None:
        self._own = LoopThread("everwhen-python")
        self._lent: asyncio.AbstractEventLoop | None = None

    def lend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Use this one from now on; None: our own again."""
        self._lent = loop

    def call(self, work: Callable[..., object], *arguments: Any) -> None:
        lent = self._lent
        if lent is None:
            self._own.call(work, *arguments)
        else:
            lent.call_soon_threadsafe(work, *arguments)

    def close(self) -> None:
        """Ours ends; the program's is its own affair."""
        self._own.close()
