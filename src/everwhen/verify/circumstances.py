"""What was so at an instant, by the record: who ran, which breaker was open, which budget was spent, who was alive.

Each question has two forms, because transactions overlap: whether something may have been so around an instant, and
whether it certainly was so all the time. `tolerance` is how far a recorded instant may lie from the one at which a
transaction saw the rows: a decision takes its instant first and waits for its turn then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from everwhen.model.events import Event
from everwhen.model.history import Circumstances, Recorded
from everwhen.model.instants import DAY
from everwhen.model.job import Job
from everwhen.model.limits import FOR_EVER, Transition
from everwhen.model.policy import BreakerRule, Budget


class Intervals:
    """Stretches of time, both ends included."""

    def __init__(self) -> None:
        self._stretches: list[tuple[int, int]] = []
        self._starts: list[int] | None = None
        self._reaches: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        self._stretches.append((start, end))
        self._starts = None

    def touch(self, first: int, last: int) -> bool:
        """Return whether a stretch has an instant from first to last."""
        position = bisect_right(self._sorted(), last) - 1
        return position >= 0 and self._reaches[position] >= first

    def cover(self, first: int, last: int) -> bool:
        """Return whether one stretch began before first and ended after last."""
        position = bisect_left(self._sorted(), first) - 1
        return position >= 0 and self._reaches[position] > last

    def count(self, first: int, last: int) -> int:
        """Return how many stretches have an instant from first to last."""
        return bisect_right(self._sorted(), last) - bisect_left(self._ends, first)

    def _sorted(self) -> list[int]:
        if self._starts is None:
            self._stretches.sort()
            self._starts = [start for start, _ in self._stretches]
            self._reaches = list(accumulate((end for _, end in self._stretches), max))
            self._ends = sorted(end for _, end in self._stretches)
        return self._starts


@dataclass(slots=True)
class Occupied:
    """When jobs of one schedule were outstanding. Of a job that was claimed again, the first start is not on record.

    `busy`: queued or running; `waiting`: for an instant; `queued`: ready and not running.
    """

    busy: Intervals = field(default_factory=Intervals)
    waiting: Intervals = field(default_factory=Intervals)
    queued: Intervals = field(default_factory=Intervals)
    surely_busy: Intervals = field(default_factory=Intervals)

    def add(self, job: Job) -> None:
        if job.origin == "backfill":
            return
        end = FOR_EVER if job.ended_at is None else job.ended_at
        is_again = job.fence > 1
        began = end if job.started_at is None else job.started_at
        if job.not_before is None:
            self.busy.add(job.created_at, end)
            self.surely_busy.add(job.created_at, end)
            self.queued.add(job.created_at, end if is_again else began)
            return
        self.waiting.add(job.created_at, end if is_again else began)
        if is_again:
            self.busy.add(job.created_at, end)
            self.queued.add(job.created_at, end)
        elif job.started_at is not None:
            self.busy.add(began, end)
            self.surely_busy.add(began, end)


class BreakerState(NamedTuple):
    """The state of a breaker from an instant on; `opened_at` while it is open."""

    since: int
    state: str
    opened_at: int | None


class BreakerStates:
    """The states of all breakers, by their transitions; before the first one on record, the state that this left."""

    def __init__(self, transitions: Iterable[Transition], *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._states: dict[str, list[BreakerState]] = {}
        for change in transitions:
            states = self._states.get(change.key)
            if states is None:
                states = self._states[change.key] = [BreakerState(0, change.from_state, None)]
            opened_at = change.at if change.to_state == "open" else states[-1].opened_at
            if change.reason == "probe_cancelled":
                opened_at = states[-1].opened_at
            states.append(BreakerState(change.at, change.to_state, opened_at))

    def between(self, key: str, first: int, last: int) -> Sequence[BreakerState] | None:
        """Return the states that were in force from first to last; None when retention may have deleted the record."""
        states = self._states.get(key)
        if states is None:
            return (BreakerState(0, "closed", None),) if self._is_whole else None
        begins = [state.since for state in states]
        return states[bisect_right(begins, first) - 1 : bisect_right(begins, last)]

    def may_be_open(self, rule: BreakerRule, first: int, last: int, *, cooled: bool) -> bool | None:
        """Return whether the breaker may have refused a slot from first to last; None when that is not on record.

        `cooled`: one that waits for its probe refuses, too.
        """
        states = self.between(rule.key, first, last)
        if states is None:
            return None
        return any(_refuses(one, rule, first, cooled) for one in states)

    def is_open(self, rule: BreakerRule, first: int, last: int) -> bool:
        """Return whether the breaker refused every slot from first to last."""
        states = self.between(rule.key, first, last)
        return states is not None and all(_refuses(one, rule, last, cooled=False) for one in states)


def _refuses(breaker: BreakerState, rule: BreakerRule, at: int, cooled: bool) -> bool:
    if breaker.state != "open" or cooled or breaker.opened_at is None:
        return breaker.state != "closed"
    return at < breaker.opened_at + rule.reset_after


class BudgetsReached:
    """When limits of budgets were used up, by the announcements on record, each once for its window."""

    def __init__(self, reached: Iterable[Recorded]) -> None:
        self._windows: dict[str, Intervals] = {}
        for _, event in reached:
            key, until = event.detail.get("key"), event.detail.get("refill_at")
            if isinstance(key, str) and isinstance(until, int):
                self._windows.setdefault(key, Intervals()).add(event.at, until)

    def may_be_spent(self, budgets: Iterable[Budget], first: int, last: int) -> bool:
        """Return whether one of them may have refused a slot from first to last."""
        return any(
            budget.key in self._windows and self._windows[budget.key].touch(first, last)
            for budget in budgets
            if budget.on_reached != "alert"
        )


class SchedulersAlive:
    """When schedulers were alive, as far as starts, losses, heartbeats and steps of the clock show it."""

    def __init__(self, circumstances: Circumstances, steps: Sequence[tuple[int, int]]) -> None:
        lost = {event.detail.get("node") for _, event in circumstances.signs if event.type == "node.lost"}
        self._steps = [(start, end) for start, end in steps if start < end]
        self._silent, self._starts = Intervals(), Intervals()
        for _, event in circumstances.signs:
            if event.type == "scheduler.started":
                self._starts.add(event.at, event.at)
                self._add_silence(event)
        # A node that was taken for dead may have been frozen: its heartbeats do not show since when.
        self._known, self._steady = Intervals(), Intervals()
        for node in circumstances.nodes:
            if node.is_scheduler:
                self._known.add(node.started_at, node.heartbeat_at)
                if node.node not in lost:
                    self._steady.add(node.started_at, node.heartbeat_at)

    def _add_silence(self, start: Event) -> None:
        heard_at = start.detail.get("last_heartbeat_at")
        if isinstance(heard_at, int) and heard_at < start.at:
            self._silent.add(heard_at, start.at)

    def was_alive(self, at: int, decided_at: int, tolerance: int) -> bool:
        """Return whether a scheduler was certainly alive: it lived before and after, and none started until then."""
        if any(start - tolerance <= at <= end + tolerance for start, end in self._steps):
            return False
        is_new = self._starts.touch(at - tolerance, decided_at + tolerance)
        return not is_new and self._steady.cover(at - tolerance, at + tolerance)

    def was_down(self, at: int, tolerance: int) -> bool:
        """Return whether certainly none was alive: the next one to start found no sign of any, and no row has one."""
        is_silent = self._silent.cover(at - tolerance, at + tolerance)
        return is_silent and not self._known.touch(at - tolerance, at + tolerance)


@dataclass(slots=True)
class FiringDays:
    """The days on which attempts counted for a budget."""

    days: set[tuple[str, int]] = field(default_factory=set)

    def add(self, keys: Iterable[str], job: Job) -> None:
        for key in keys:
            for at in (job.created_at, job.started_at or job.created_at):
                self.days.add((key, at - at % DAY))

    def has(self, keys: Iterable[str], first: int, last: int) -> bool:
        days = {at - at % DAY for at in (first, last)}
        return any((key, day) in self.days for key in keys for day in days)
