"""The share of a process that one caller may have: of the threads, and of the processor's time.

A few expensive calls run at once, fewer than there are threads, so that cheap calls always find a thread. Of these
places a token has two and an owner three. A call that finds no place waits for a moment; the next place is for the
owner who has the fewest. The costs of a token's calls are also taken from a bucket, so that in the long run one token
gets a part of one processor. What is beyond is refused with 429 and Retry-After.

Everything here runs on the event loop of one application.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import TypeVar

from everwhen.api.problems import RefusedError
from everwhen.api.rates import Rates
from everwhen.model.token import Token

PLACES, OF_OWNER, OF_TOKEN = 4, 3, 2
FREE = 5  # what costs less is done like a cheap call
MOST_COST = 1_000  # of one call
MOST_WAITING = 16  # calls of one token
MOST_LONG = 8  # long requests of one token
PATIENCE = 5.0  # seconds
AGAIN = 2  # seconds until a call that found no place may be repeated
_SOON = {"retry-after": str(AGAIN)}

Key = TypeVar("Key")


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits for a place."""

    token: Token
    is_admitted: bool = False
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Shares:
    """Who does expensive work now, and who waits for it."""

    def __init__(self, costs: Rates) -> None:
        self.costs = costs
        self.patience = PATIENCE
        self._running = 0
        self._of_token: Counter[str] = Counter()
        self._of_owner: Counter[str | None] = Counter()
        self._long_requests: Counter[str] = Counter()
        self._waiters: list[_Waiter] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """Refuse those who wait: the service stops; called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._refuse_waiters)

    def _refuse_waiters(self) -> None:
        for waiter in self._waiters:
            waiter.woken.set()

    @asynccontextmanager
    async def admit(self, token: Token, cost: float) -> AsyncIterator[None]:
        """Hold a place for a call of this cost; refuse it where the token has used up its share."""
        if cost < FREE:
            yield
            return
        if wait := self.costs.take(token.token_id, min(cost, MOST_COST)):
            raise _refused("The calls of this token cost more than its share; try again later.", wait)
        if sum(waiter.token.token_id == token.token_id for waiter in self._waiters) >= MOST_WAITING:
            raise _refused("Too many expensive calls of this token wait for each other.", AGAIN)
        async with self._place(token, self.patience):
            yield

    @contextmanager
    def long_request(self, token: Token) -> Iterator[None]:
        """Admit a request that is answered while it is read, and takes places for a moment only."""
        if self._long_requests[token.token_id] >= MOST_LONG:
            raise _refused(f"This token sends {MOST_LONG} long requests already; try again later.", AGAIN)
        _count(self._long_requests, token.token_id, 1)
        try:
            yield
        finally:
            _count(self._long_requests, token.token_id, -1)

    def count_long_requests(self, token_id: str) -> int:
        """Return how many long requests of a token are read."""
        return self._long_requests[token_id]

    @asynccontextmanager
    async def portion(self, token: Token) -> AsyncIterator[None]:
        """Hold a place for a part of a long request: it waits for as long as it must."""
        async with self._place(token):
            yield

    @asynccontextmanager
    async def _place(self, token: Token, patience: float | None = None) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        waiter = _Waiter(token)
        self._waiters.append(waiter)
        self._wake()
        try:
            try:
                async with asyncio.timeout(patience):
                    await waiter.woken.wait()
            except TimeoutError:
                raise _refused("Too many expensive calls are under way; try again.", AGAIN) from None
            if not waiter.is_admitted:
                raise RefusedError(503, "The service is stopping; try again.", headers=_SOON)
            yield
        finally:
            if waiter.is_admitted:
                self._take(token, -1)
                self._wake()
            else:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        """Admit those who wait, as long as there are places for them."""
        while eligible := [waiter for waiter in self._waiters if self._has_place(waiter.token)]:
            first = min(
                eligible, key=lambda waiter: self._of_owner[waiter.token.owner]
            )  # of equals the oldest
            self._waiters.remove(first)
            self._take(first.token, 1)
            first.is_admitted = True
            first.woken.set()

    def _has_place(self, token: Token) -> bool:
        return (
            self._running < PLACES
            and self._of_owner[token.owner] < OF_OWNER
            and self._of_token[token.token_id] < OF_TOKEN
        )

    def _take(self, token: Token, change: int) -> None:
        self._running += change
        _count(self._of_owner, token.owner, change)
        _count(self._of_token, token.token_id, change)


def _count(counter: Counter[Key], key: Key, change: int) -> None:
    """Change a number, and keep none that is zero."""
    counter[key] += change
    if not counter[key]:
        del counter[key]


def _refused(detail: str, wait: float) -> RefusedError:
    return RefusedError(429, detail, headers={"retry-after": str(ceil(wait))})
