"""The share of a process that one caller may have: of the threads, and of the processor's time.

Calls take places, fewer than there are threads. Expensive ones have places of their own, so that cheap ones never wait
for them. Of both, one token and one owner have a part only. A call that finds no place waits; the next place is for the
owner who has the fewest, and then for the token. So another caller waits for one call at most, however many one caller
sends at once. The costs of a token's calls are also taken from a bucket, so that in the long run one token gets a part
of one processor. What is beyond is refused with 429 and Retry-After.

Everything here runs on the event loop of one application.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, TypeVar

from everwhen.api.problems import RefusedError
from everwhen.api.rates import Asker, Rates

EXPENSIVE = 5  # what costs less takes the place of a cheap call
MOST_COST = 1_000  # of one call
MOST_WAITING = 16  # expensive calls of one token
SMALL = 64 << 10  # bytes of a body, or of an answer, that costs nothing by itself
BYTES_OF_BODY, BYTES_OF_ANSWER = 2_000, 8_000  # for a unit of cost
MOST_LONG = 8  # long requests of one token
PATIENCE = 5.0  # seconds
AGAIN = 2  # seconds until a call that found no place may be repeated
_SOON = {"retry-after": str(AGAIN)}

Key = TypeVar("Key")


class Quota(NamedTuple):
    """How many calls are under way at once: of all callers, of one owner, of one token."""

    calls: int
    of_owner: int
    of_token: int


# A process computes one thing at a time, so more places would only make each call slower.
OF_EXPENSIVE, OF_CHEAP = Quota(4, 3, 2), Quota(8, 6, 4)
# Messages of MCP are read, checked and answered on the event loop. Their tools call the API: a place of another kind is
# held meanwhile, so that the calls find theirs.
OF_MESSAGES = Quota(6, 3, 2)


class Anonymous(NamedTuple):
    """All callers without a token, who have one share: no owner has that name."""

    token_id: str = ""
    owner: str | None = ""


ANONYMOUS = Anonymous()


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits for a place."""

    asker: Asker
    number: int
    is_admitted: bool = False
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Places:
    """Who has a place of one kind, and who waits for one."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._taken = self._arrived = 0
        self._of_token: Counter[str] = Counter()
        self._of_owner: Counter[str | None] = Counter()
        self._waiters: dict[str, deque[_Waiter]] = {}  # of each token, the oldest first
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_idle(self) -> bool:
        return not (self._taken or self._waiters or +self._of_token or +self._of_owner)

    def close(self) -> None:
        """Refuse those who wait: the service stops; called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._refuse_waiters)

    def _refuse_waiters(self) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.woken.set()

    def count_waiting(self, token_id: str) -> int:
        return len(self._waiters.get(token_id, ()))

    def count_taken(self, token_id: str) -> int:
        return self._of_token[token_id]

    @asynccontextmanager
    async def hold(self, asker: Asker, patience: float | None = None) -> AsyncIterator[None]:
        """Hold a place, after waiting for it; refuse the call when none came within that many seconds."""
        self._loop = asyncio.get_running_loop()
        if self._has_place(asker):  # nobody waits who might have it: that one would have it
            self._take(asker, 1)
        else:
            await self._wait(asker, patience)
        try:
            yield
        finally:
            self._take(asker, -1)
            self._admit_waiters()

    async def _wait(self, asker: Asker, patience: float | None) -> None:
        self._arrived += 1
        waiter = _Waiter(asker, self._arrived)
        self._waiters.setdefault(asker.token_id, deque()).append(waiter)
        try:
            async with asyncio.timeout(patience):
                await waiter.woken.wait()
        except BaseException as error:
            self._leave(waiter)
            if isinstance(error, TimeoutError):
                raise _refused("Too many expensive calls are under way; try again.", AGAIN) from None
            raise
        if not waiter.is_admitted:
            self._leave(waiter)
            raise RefusedError(503, "The service is stopping; try again.", headers=_SOON)

    def _leave(self, waiter: _Waiter) -> None:
        """Wait no longer; a place that came at the same moment is for the next."""
        if waiter.is_admitted:
            self._take(waiter.asker, -1)
            self._admit_waiters()
        else:
            self._remove(waiter)

    def _remove(self, waiter: _Waiter) -> None:
        waiters = self._waiters[waiter.asker.token_id]
        waiters.remove(waiter)
        if not waiters:
            del self._waiters[waiter.asker.token_id]

    def _admit_waiters(self) -> None:
        """Admit those who wait, as long as there are places for them."""
        while self._taken < self._quota.calls:
            first = [waiters[0] for waiters in self._waiters.values() if self._has_place(waiters[0].asker)]
            if not first:
                return
            chosen = min(first, key=self._rank)
            self._remove(chosen)
            self._take(chosen.asker, 1)
            chosen.is_admitted = True
            chosen.woken.set()

    def _rank(self, waiter: _Waiter) -> tuple[int, int, int]:
        asker = waiter.asker
        return self._of_owner[asker.owner], self._of_token[asker.token_id], waiter.number

    def _has_place(self, asker: Asker) -> bool:
        return (
            self._taken < self._quota.calls
            and self._of_owner[asker.owner] < self._quota.of_owner
            and self._of_token[asker.token_id] < self._quota.of_token
        )

    def _take(self, asker: Asker, change: int) -> None:
        self._taken += change
        count(self._of_owner, asker.owner, change)
        count(self._of_token, asker.token_id, change)


class Shares:
    """Who does expensive work now, who does cheap work, and who waits for either."""

    def __init__(self, costs: Rates) -> None:
        self.costs = costs
        self.patience = PATIENCE
        self.expensive = Places(OF_EXPENSIVE)
        self.cheap = Places(OF_CHEAP)
        self.messages = Places(OF_MESSAGES)
        self._long_requests: Counter[str] = Counter()

    def close(self) -> None:
        """Refuse those who wait: the service stops; called from any thread."""
        for places in (self.expensive, self.cheap, self.messages):
            places.close()

    @asynccontextmanager
    async def admit(self, asker: Asker, cost: float) -> AsyncIterator[None]:
        """Hold a place for a call of this cost; refuse it where the token has used up its share."""
        self._take_costs(asker, cost)
        if cost < EXPENSIVE:
            async with self.cheap.hold(asker):
                yield
            return
        if self.expensive.count_waiting(asker.token_id) >= MOST_WAITING:
            raise _refused("Too many expensive calls of this token wait for each other.", AGAIN)
        async with self.expensive.hold(asker, self.patience):
            yield

    @asynccontextmanager
    async def message(self, asker: Asker, cost: float) -> AsyncIterator[None]:
        """Hold a place for a message whose tool makes calls of its own."""
        self._take_costs(asker, cost)
        async with self.messages.hold(asker):
            yield

    def take_body(self, asker: Asker, length: int) -> None:
        """Count a body that is large: reading, checking, storing and showing it cost by its length."""
        self._take_costs(asker, length / BYTES_OF_BODY if length > SMALL else 0)

    def charge_answer(self, asker: Asker, length: int) -> None:
        """Count an answer that turned out large; what is owed is taken from the calls to come."""
        if length > SMALL:
            self.costs.charge(asker.token_id, length / BYTES_OF_ANSWER)

    def _take_costs(self, asker: Asker, cost: float) -> None:
        if cost and (wait := self.costs.take_of(asker, min(cost, MOST_COST))):
            raise _refused("The calls of this token, or of its owner, cost more than their share.", wait)

    @contextmanager
    def long_request(self, asker: Asker) -> Iterator[None]:
        """Admit a request that is answered while it is read, and takes places for a moment only."""
        if self._long_requests[asker.token_id] >= MOST_LONG:
            raise _refused(f"This token sends {MOST_LONG} long requests already; try again later.", AGAIN)
        count(self._long_requests, asker.token_id, 1)
        try:
            yield
        finally:
            count(self._long_requests, asker.token_id, -1)

    def count_long_requests(self, token_id: str) -> int:
        """Return how many long requests of a token are read."""
        return self._long_requests[token_id]

    @asynccontextmanager
    async def portion(self, asker: Asker) -> AsyncIterator[None]:
        """Hold a place for a part of a long request: it waits for as long as it must."""
        async with self.expensive.hold(asker):
            yield


def count(counter: Counter[Key], key: Key, change: int) -> None:
    """Change a number, and keep none that is zero."""
    counter[key] += change
    if not counter[key]:
        del counter[key]


def _refused(detail: str, wait: float) -> RefusedError:
    return RefusedError(429, detail, headers={"retry-after": str(ceil(wait))})
