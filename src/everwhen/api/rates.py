"""Token buckets: how much anybody may ask, and how much of it is there again after a while; and a line of those whose
requests cannot be refused before they have cost something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

MOST_BUCKETS = 10_000
OF_OWNER = 3  # as much as so many tokens


class Asker(Protocol):
    """Who asks: a token, or what stands for callers without one."""

    @property
    def token_id(self) -> str: ...

    @property
    def owner(self) -> str | None: ...


class Rates:
    """Token buckets: for each key at most `burst` at once, and `per_second` in the long run; requests or costs."""

    def __init__(self, *, burst: int, per_second: float, monotonic: Callable[[], float]) -> None:
        self._burst = float(burst)
        self._per_second = per_second
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was
        self.unlimited = False

    def take(self, key: str, amount: float = 1) -> float:
        """Take so much; return 0 when it was there, else the seconds until it will be."""
        if self.unlimited:
            return 0.0
        now = self._monotonic()
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        is_there = left >= amount
        self._buckets[key] = (left - amount if is_there else left, now)
        if len(self._buckets) > MOST_BUCKETS:
            # The one that was used longest ago: by now it is the fullest, so forgetting it forgives the least.
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if is_there else (amount - left) / self._per_second

    def take_of(self, asker: Asker, amount: float = 1) -> float:
        """Take so much from the bucket of a token, and from that of its owner, who may have any number of tokens."""
        wait = self.take(asker.token_id, amount)
        return wait or (0.0 if asker.owner is None else self.take(f"owner:{asker.owner}", amount / OF_OWNER))

    def lacks(self, key: str, amount: float) -> bool:
        """Return whether less than that is there, and take nothing."""
        if self.unlimited or key not in self._buckets:
            return False
        left, at = self._buckets[key]
        return left + (self._monotonic() - at) * self._per_second < amount

    def charge(self, key: str, amount: float) -> None:
        """Take more for a request that was answered; at most a whole burst is owed."""
        left, at = self._buckets.pop(key, (self._burst, self._monotonic()))
        self._buckets[key] = (max(left - amount, -self._burst), at)


class Line:
    """Callers who go on one after the other, so many a second; beyond `most` who wait, none is taken in."""

    def __init__(self, *, per_second: float, most: int) -> None:
        self._pause = 1 / per_second
        self._most = most
        self._waiting = 0
        self._lock = asyncio.Lock()

    async def wait(self) -> bool:
        """Wait for one's turn; return False at once where too many wait."""
        if self._waiting >= self._most:
            return False
        self._waiting += 1
        try:
            async with self._lock:
                await asyncio.sleep(self._pause)
        finally:
            self._waiting -= 1
        return True
