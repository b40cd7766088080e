"""The slots of a schedule: a trigger in a zone, from its anchor, within its bounds, with its jitter.

`next_after`, `previous_before` and `between` end for every input: each series stops searching after fifty years, and
`between` takes a limit. `count` is arithmetic: its time does not depend on how many slots there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import EARLIEST, FIXED, LATEST, WILD, DstRule, Fold, Gap, Zone
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.interval import IntervalSeries, whole_second_after
from everwhen.timetable.jitter import jitter_offset_ms
from everwhen.timetable.monthly import MonthlySeries
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger

FirstRun = Literal["immediately", "after_interval"]


class Series(Protocol):
    """Instants in order; start_at and end_at of the schedule are not applied yet."""

    def next_after(self, instant: int) -> int | None: ...

    def previous_before(self, instant: int) -> int | None: ...

    def between(self, start: int, end: int, limit: int) -> list[int]: ...

    def count_between(self, start: int, end: int) -> int: ...


class FewSeries(NamedTuple):
    """A single instant, or none for a webhook or a chat schedule."""

    instants: tuple[int, ...] = ()

    def next_after(self, instant: int) -> int | None:
        return next((one for one in self.instants if instant < one), None)

    def previous_before(self, instant: int) -> int | None:
        return next((one for one in self.instants if one < instant), None)

    def between(self, start: int, end: int, limit: int) -> list[int]:
        return [one for one in self.instants if start <= one < end][:limit]

    def count_between(self, start: int, end: int) -> int:
        return sum(start <= one < end for one in self.instants)


def dst_rule(trigger: Trigger, *, gap: Gap | None = None, fold: Fold | None = None) -> DstRule:
    """Return the rule for gaps and folds: the trigger's default, overridden by the schedule's settings."""
    is_wild = isinstance(trigger, Cron) and trigger.expression.is_wild
    return (WILD if is_wild else FIXED).overridden(gap=gap, fold=fold)


def series_of(trigger: Trigger, *, zone: Zone, anchor_at: int = 0, dst: DstRule | None = None) -> Series:
    """Return the instants of a trigger. Only intervals and months depend on the anchor."""
    match trigger:
        case Every():
            return IntervalSeries(anchor_at, trigger.seconds)
        case EveryMonth():
            return MonthlySeries(anchor_at, zone, dst or FIXED)
        case Cron():
            return CronSeries(trigger.expression, zone, dst)
        case Once():
            return FewSeries((trigger.instant,))
        case OnRequest():  # pragma: no branch
            return FewSeries()


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The slots of one schedule: start_at ≤ slot_at < end_at, each due within its jitter window."""

    series: Series
    start_at: int = EARLIEST
    end_at: int = LATEST
    jitter_ms: int = 0
    jitter_key: str = ""

    def next_after(self, instant: int) -> int | None:
        if instant >= self.end_at:
            return None
        slot_at = self.series.next_after(max(instant, self.start_at - 1))
        return slot_at if slot_at is not None and slot_at < self.end_at else None

    def previous_before(self, instant: int) -> int | None:
        if instant <= self.start_at:
            return None
        slot_at = self.series.previous_before(min(instant, self.end_at))
        return slot_at if slot_at is not None and slot_at >= self.start_at else None

    def between(self, start: int, end: int, limit: int) -> list[int]:
        """Return the first `limit` slots with start ≤ slot < end."""
        start, end = max(start, self.start_at), min(end, self.end_at)
        return self.series.between(start, end, limit) if start < end and limit > 0 else []

    def count_between(self, start: int, end: int) -> int:
        """Return how many slots have start ≤ slot < end, without looking at each."""
        start, end = max(start, self.start_at), min(end, self.end_at)
        return self.series.count_between(start, end) if start < end else 0

    def due_ms(self, slot_at: int) -> int:
        """Return when a slot is due, in milliseconds since 1970: slot_at + jitter, always before the following slot."""
        if not self.jitter_ms:
            return slot_at * 1_000
        window = self.jitter_ms
        following = self.next_after(slot_at)
        if following is not None:
            window = min(window, (following - slot_at) * 1_000)
        return slot_at * 1_000 + jitter_offset_ms(self.jitter_key, slot_at, window)


def is_first_slot_at_anchor(trigger: Trigger, first_run: FirstRun) -> bool:
    """Return whether the first slot is the anchor. For `monthly` with `after_interval` it is a month later."""
    return not (isinstance(trigger, EveryMonth) and first_run == "after_interval")


def anchor_of(
    trigger: Trigger,
    *,
    created_at: float,
    first_run: FirstRun | None = None,
    start_at: int | None = None,
    default_first_run: FirstRun = "immediately",
) -> int:
    """Return where the grid of an interval begins: start_at, else the first slot.

    `immediately` is rounded down to the second, so that the first slot is not in the future; everything else is
    rounded up. For `monthly` with `after_interval` the grid begins now and the first slot is its second point: that
    point may be clipped to the end of a short month, and later slots must return to the 31st.
    """
    if start_at is not None:
        if first_run is not None:
            raise TimetableError(
                "first_run beside start_at: start_at says when the first run is; leave one of them out",
                key="first_run",
                value=first_run,
            )
        return start_at
    if (first_run or default_first_run) == "immediately":
        return int(created_at // 1)
    match trigger:
        case Every():
            return whole_second_after(created_at + trigger.seconds)
        case _:
            return whole_second_after(created_at)
