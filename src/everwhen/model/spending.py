"""What budgets have spent: cost per day and month, what is reserved, and what catch-up took of it.

Windows are hours, days and months of UTC. A cost counts in the window in which its run ends; until then its estimate
is reserved, in whatever window. Firings are counted on the `limits` row of the same key (`model.limits`), whose lock
guards this row, too.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from everwhen.model.cost import MOST_COUNTED
from everwhen.model.instants import DAY, HOUR, instant_of, to_datetime

LimitName = Literal["fires_per_hour", "fires_per_day", "cost_per_day", "cost_per_month"]
Level = Literal["warning", "reached"]
BudgetLevel = Literal["ok", "warning", "reached"]
BudgetKind = Literal["group", "owner", "token"]
WARNING = 80  # per cent


def hour_of(now: int) -> int:
    return now - now % HOUR


def day_of(now: int) -> int:
    return now - now % DAY


def month_of(now: int) -> int:
    """Return the first instant of the month, in UTC."""
    return instant_of(to_datetime(day_of(now)).replace(day=1))


def month_after(month: int) -> int:
    """Return the first instant of the month that follows the one that begins then."""
    return instant_of((to_datetime(month) + timedelta(days=32)).replace(day=1))


def current(stored: int, window: int, following: int) -> int:
    """Return the window in which to count: the stored one, where it is the next and another node has begun it.

    Two transactions at the edge of a window may commit in either order; the earlier must not clear the later's count.
    """
    return stored if stored == following else window


class Usage(NamedTuple):
    """How much of one limit is used in its current window: spent and reserved; `caught_up` of it by catch-up.

    `estimated` of it are estimates: of runs that did not report their cost, and of those that have not ended.
    """

    limit: LimitName
    used: int
    most: int
    caught_up: int
    window: int
    ends_at: int
    estimated: int = 0

    @property
    def is_cost(self) -> bool:
        return self.limit.startswith("cost")

    @property
    def level(self) -> Level | None:
        if self.used >= self.most:
            return "reached"
        return "warning" if self.used * 100 >= self.most * WARNING else None


class Announcement(NamedTuple):
    """An event that was recorded about a limit in a window, with the slots skipped since it was reached."""

    limit: LimitName
    window: int
    ends_at: int
    level: Level
    skipped: int = 0


class Spending(NamedTuple):
    """The sums of one budget, in millionths of its unit; `caught_up_…` are firings and costs of catch-up jobs,
    `estimated_…` the costs of runs that did not report any."""

    key: str
    unit: str | None = None
    reserved: int = 0
    day: int = 0
    day_cost: int = 0
    month: int = 0
    month_cost: int = 0
    hour: int = 0
    caught_up_hour: int = 0
    caught_up_day: int = 0
    caught_up_reserved: int = 0
    caught_up_day_cost: int = 0
    caught_up_month_cost: int = 0
    total_cost: int = 0  # ever, in this unit
    announced: str = ""  # JSON, the fields of each `Announcement`
    refill_at: int | None = None  # the end of the first window that was announced
    estimated_day_cost: int = 0
    estimated_month_cost: int = 0
    estimated_total_cost: int = 0

    def at(self, now: int) -> Spending:
        """Return the sums of the windows at an instant: those of windows that are over are zero."""
        hour, day, month = self._windows(now)
        if (hour, day, month) == (self.hour, self.day, self.month):
            return self
        changes: dict[str, int] = {"hour": hour, "day": day, "month": month}
        if hour != self.hour:
            changes["caught_up_hour"] = 0
        if day != self.day:
            changes |= {"day_cost": 0, "caught_up_day": 0, "caught_up_day_cost": 0, "estimated_day_cost": 0}
        if month != self.month:
            changes |= {"month_cost": 0, "caught_up_month_cost": 0, "estimated_month_cost": 0}
        return self._replace(**changes)  # type: ignore[arg-type]

    def _windows(self, now: int) -> tuple[int, int, int]:
        hour, day, month = hour_of(now), day_of(now), month_of(now)
        return (
            current(self.hour, hour, hour + HOUR),
            current(self.day, day, day + DAY),
            current(self.month, month, month_after(month)),
        )

    def in_unit(self, unit: str | None) -> Spending:
        """Return the sums in a unit; those of another unit are not comparable, and count as zero."""
        if unit is None or self.unit == unit:
            return self
        if self.unit is None:
            return self._replace(unit=unit)
        return self._replace(
            unit=unit,
            reserved=0,
            day_cost=0,
            month_cost=0,
            caught_up_reserved=0,
            caught_up_day_cost=0,
            caught_up_month_cost=0,
            total_cost=0,
            estimated_day_cost=0,
            estimated_month_cost=0,
            estimated_total_cost=0,
        )

    def caught_up(self, count: int = 1) -> Spending:
        """Count firings of catch-up; the caller has moved the windows to now."""
        return self._replace(
            caught_up_hour=self.caught_up_hour + count, caught_up_day=self.caught_up_day + count
        )

    def reserve(self, amount: int, *, is_catch_up: bool) -> Spending:
        caught_up = amount if is_catch_up else 0
        return self._replace(
            reserved=_sum(self.reserved, amount), caught_up_reserved=_sum(self.caught_up_reserved, caught_up)
        )

    def release(self, amount: int, *, is_catch_up: bool) -> Spending:
        caught_up = amount if is_catch_up else 0
        return self._replace(
            reserved=max(self.reserved - amount, 0),
            caught_up_reserved=max(self.caught_up_reserved - caught_up, 0),
        )

    def spend(
        self, amount: int, *, is_catch_up: bool, is_estimate: bool = False, ended_at: int | None = None
    ) -> Spending:
        """Count a cost; the caller has moved the windows to now.

        `is_estimate`: the run did not report it. `ended_at`: when the run ended, where that is not now; a window that
        is over is not counted any more.
        """
        day = amount if ended_at is None or day_of(ended_at) == self.day else 0
        month = amount if ended_at is None or month_of(ended_at) == self.month else 0
        return self._replace(
            day_cost=_sum(self.day_cost, day),
            month_cost=_sum(self.month_cost, month),
            total_cost=_sum(self.total_cost, amount),
            caught_up_day_cost=_sum(self.caught_up_day_cost, day if is_catch_up else 0),
            caught_up_month_cost=_sum(self.caught_up_month_cost, month if is_catch_up else 0),
            estimated_day_cost=_sum(self.estimated_day_cost, day if is_estimate else 0),
            estimated_month_cost=_sum(self.estimated_month_cost, month if is_estimate else 0),
            estimated_total_cost=_sum(self.estimated_total_cost, amount if is_estimate else 0),
        )

    # -- what was announced --

    def announcements(self) -> tuple[Announcement, ...]:
        return tuple(Announcement(*one) for one in json.loads(self.announced)) if self.announced else ()

    def with_announcements(self, announced: tuple[Announcement, ...]) -> Spending:
        refill_at = min((one.ends_at for one in announced), default=None)
        return self._replace(
            announced=json.dumps(announced, separators=(",", ":")) if announced else "", refill_at=refill_at
        )


def _sum(first: int, second: int) -> int:
    return min(first + second, MOST_COUNTED)


def spending_of(row: Any) -> Spending:
    return Spending._make(row)
