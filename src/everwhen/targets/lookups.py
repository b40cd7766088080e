"""Name look-ups on threads of their own, so many at once: those of one owner keep no other owner waiting.

The system's look-up cannot be cancelled, and takes as long as a name server likes. On the threads of the event loop, a
few names of one owner whose servers never answer would hold the requests, the plugins and the ends of processes of all
others.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import aiohttp

from everwhen.targets.registry import aside

MOST_LOOKUPS = 8  # at once
MOST_WAITING = 100
T = TypeVar("T")


def threaded_resolver() -> aiohttp.ThreadedResolver:
    """Return a resolver whose look-ups wait for each other alone."""
    return aiohttp.ThreadedResolver(cast("asyncio.AbstractEventLoop", Lookups()))


class Lookups:
    """What `aiohttp` asks an event loop for: look-ups, each on a thread that ends with it."""

    def __init__(self, most: int = MOST_LOOKUPS) -> None:
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(most)
        self._waiting = 0

    async def getaddrinfo(self, host: str, port: int, **options: int) -> list[Any]:
        return await self._look_up(partial(socket.getaddrinfo, host, port, **options))

    async def getnameinfo(self, address: tuple[Any, ...], flags: int = 0) -> tuple[str, str]:
        return await self._look_up(partial(socket.getnameinfo, address, flags))

    async def _look_up(self, call: Callable[[], T]) -> T:
        if self._waiting >= MOST_WAITING:
            raise socket.gaierror(socket.EAI_AGAIN, "too many look-ups of this owner wait for an answer")
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            answer = aside(call)
        except BaseException:
            self._places.release()
            raise
        answer.add_done_callback(self._free_place)
        return await asyncio.wrap_future(answer)

    def _free_place(self, _answer: Future[Any]) -> None:
        """Give the place to the next, when the look-up has ended; nobody may wait for its answer any more."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._places.release)
