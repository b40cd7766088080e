"""How often somebody may ask: token buckets in memory, bounded in number, one per caller."""

from __future__ import annotations

from collections.abc import Callable

MOST_BUCKETS = 10_000


class Rates:
    """At most `burst` at once, and `per_second` in the long run, for each key."""

    def __init__(self, *, burst: int, per_second: float, monotonic: Callable[[], float]) -> None:
        self._burst = float(burst)
        self._per_second = per_second
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was
        self.unlimited = False  # for those who measure

    def take(self, key: str) -> float:
        """Take one; 0 when it was there, else in how many seconds it will be."""
        if self.unlimited:
            return 0.0
        now = self._monotonic()
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        is_there = left >= 1
        self._buckets[key] = (left - 1 if is_there else left, now)
        if len(self._buckets) > MOST_BUCKETS:
            # The one that was used longest ago: by now it is the fullest, so forgetting it forgives the least.
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if is_there else (1 - left) / self._per_second
