"""Limits that several schedules share, one row per key: places taken, and firings of the hour and the day."""

from __future__ import annotations

from typing import NamedTuple

from everwhen.model.instants import DAY, HOUR
from everwhen.model.policy import Budget


class Limit(NamedTuple):
    """The counts of one key. `hour` and `day` are the starts of the windows in which the firings were counted.

    `widest` is the highest limit that ever held a slot: with that many places taken, no held slot can be released.
    """

    key: str
    outstanding: int = 0
    running: int = 0
    hour: int = 0
    hour_fires: int = 0
    day: int = 0
    day_fires: int = 0
    widest: int = 0

    @property
    def room(self) -> int:
        """Return how many places are free under the highest limit."""
        return max(self.widest - self.outstanding, 0)

    def moved(self, outstanding: int = 0, running: int = 0) -> Limit:
        key, places, runs, *rest = self
        return Limit(key, places + outstanding, runs + running, *rest)

    def fired(self, now: int, count: int = 1) -> Limit:
        """Return the counts after `count` more firings; windows are whole hours and days of UTC."""
        hour, day = now - now % HOUR, now - now % DAY
        return self._replace(
            hour=hour,
            hour_fires=(self.hour_fires if hour == self.hour else 0) + count,
            day=day,
            day_fires=(self.day_fires if day == self.day else 0) + count,
        )

    def refill_at(self, budget: Budget, now: int, count: int = 1) -> int | None:
        """Return when the next window begins that may allow `count` more firings, or None when the current one does."""
        hour, day = now - now % HOUR, now - now % DAY
        day_fires = self.day_fires if day == self.day else 0
        hour_fires = self.hour_fires if hour == self.hour else 0
        if budget.per_day is not None and day_fires + count > budget.per_day:
            return day + DAY
        if budget.per_hour is not None and hour_fires + count > budget.per_hour:
            return hour + HOUR
        return None

    def is_spent(self, budget: Budget, now: int) -> bool:
        return self.refill_at(budget, now) is not None
