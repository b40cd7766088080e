"""Which schedules of the timeline are listed, and which get a row: among very many, a few are remembered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from sys import maxsize
from typing import NamedTuple

from everwhen.operations.timeline_bars import MOST_BARS

MOST_NAMED = 1_000  # schedules that are read by their uid, where not all are listed
LEAST_KEPT = 500
ORDINARY = 2  # the attention that a schedule needs about which there is nothing to say


class RankedSchedule(NamedTuple):
    """A schedule and how many bars it has. `attention`: 0 for what a person should look at first."""

    attention: int
    bars: int
    schedule_id: str
    uid: str


class Ranking:
    """The schedules of a span, of which only those are kept that may be chosen.

    `rows`: how many rows are asked for. `rare`: what has more bars is not listed; None: the rows are, or without rows
    as many as there is room for. `other_bars`: bars that no schedule brings with it.
    """

    def __init__(
        self, rows: int, rare: int | None, attention: Mapping[str, int], *, other_bars: int = 0
    ) -> None:
        self._rows, self._rare, self._attention = rows, rare, attention
        self._kept: list[RankedSchedule] = []
        self._most_bars = maxsize  # of a schedule that may be chosen, unless it needs attention
        self._bars_to_list = other_bars if rare is None else 0
        self.schedule_count = 0

    @property
    def exceeds(self) -> bool:
        """Return whether there are more bars than are listed, not counting what fires too often to be listed."""
        return self._bars_to_list > MOST_BARS

    @property
    def _most_listed(self) -> int:
        """Return how many schedules are listed at most, besides the rows."""
        if self._rare == 0 or (self._rows and self._rare is None):
            return 0
        return MOST_NAMED if self.exceeds else MOST_BARS

    def add(self, names: Callable[[], Iterable[tuple[str, str]]], numbers: Sequence[int]) -> None:
        """Take schedules into account, each with the number of its bars; `names` returns the uid and the id of each."""
        rare, most, attention = self._rare, self._most_bars, self._attention
        self.schedule_count += len(numbers) - numbers.count(0)
        self._bars_to_list += sum(numbers if rare is None else [bars for bars in numbers if bars <= rare])
        if not attention and not any(0 < bars <= most for bars in set(numbers)):
            return  # nearly always, of very many
        self._kept += [
            RankedSchedule(attention.get(uid, ORDINARY), bars, schedule_id, uid)
            for (uid, schedule_id), bars in zip(names(), numbers, strict=True)
            if bars and (bars <= most or uid in attention)
        ]
        if len(self._kept) > 4 * max(self._most_listed, self._rows, LEAST_KEPT):
            self._drop()

    @property
    def uids(self) -> set[str]:
        """Return the schedules that may be chosen."""
        self._drop()
        return {schedule.uid for schedule in self._kept}

    def add_bars(self, numbers: Mapping[str, int]) -> None:
        """Add bars to schedules that may be chosen."""
        self._kept = [
            schedule._replace(bars=schedule.bars + numbers.get(schedule.uid, 0)) for schedule in self._kept
        ]

    def _drop(self) -> None:
        """Forget those that others have displaced."""
        rarest = nsmallest(self._most_listed, self._kept, key=_by_bars)
        rows = self.choose_rows()
        self._kept = [*{*rarest, *rows}]
        self._most_bars = max(_last(rarest, self._most_listed), _last(rows, self._rows))

    def choose_rows(self) -> list[RankedSchedule]:
        """Return the schedules that get a row: those that need attention, then the rarest."""
        return nsmallest(self._rows, self._kept)

    def choose_listed(self) -> set[str]:
        """Return the uids of the schedules whose bars are listed: the rarest, as many as there is room for."""
        only_rows = bool(self._rows) and self._rare is None
        listed, bars_left = set[str](), MOST_BARS
        for schedule in sorted(self.choose_rows() if only_rows else self._kept, key=_by_bars):
            bars_left -= schedule.bars
            is_rare = self._rare is None or schedule.bars <= self._rare
            if bars_left < 0 or not is_rare or (self.exceeds and len(listed) >= MOST_NAMED):
                break
            listed.add(schedule.uid)
        return listed


def _by_bars(schedule: RankedSchedule) -> tuple[int, str, str]:
    return schedule.bars, schedule.schedule_id, schedule.uid


def _last(schedules: Collection[RankedSchedule], most: int) -> int:
    """Return the most bars that a schedule may have to displace one of these."""
    if not most:
        return 0
    return maxsize if len(schedules) < most else max(schedule.bars for schedule in schedules)
