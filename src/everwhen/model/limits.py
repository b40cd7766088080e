"""Limits and breakers that several schedules share, and what a batch of decisions reads and changes of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from everwhen.model.cost import ScheduleCosts
from everwhen.model.events import Event
from everwhen.model.instants import DAY, HOUR
from everwhen.model.schedule import Definition
from everwhen.model.spending import Spending, current, day_of, hour_of


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
    def free(self) -> int:
        """Return how many places are free under the highest limit."""
        return max(self.widest - self.outstanding, 0)

    def moved(self, outstanding: int = 0, running: int = 0) -> Limit:
        key, places, runs, *rest = self
        return Limit(key, places + outstanding, runs + running, *rest)

    def fired(self, now: int, count: int = 1) -> Limit:
        """Return the counts after `count` more firings; windows are whole hours and days of UTC."""
        hour, day = self._windows(now)
        hour_fires, day_fires = self.fires(now)
        return self._replace(hour=hour, hour_fires=hour_fires + count, day=day, day_fires=day_fires + count)

    def fires(self, now: int) -> tuple[int, int]:
        """Return the firings in the current hour and day."""
        hour, day = self._windows(now)
        return self.hour_fires if hour == self.hour else 0, self.day_fires if day == self.day else 0

    def _windows(self, now: int) -> tuple[int, int]:
        hour, day = hour_of(now), day_of(now)
        return current(self.hour, hour, hour + HOUR), current(self.day, day, day + DAY)


class LastFiring(NamedTuple):
    """Until when a token may not fire a schedule again (`min_interval`).

    `grid` names the slots of which the last one fired on time: their distance was checked when they were defined. The
    record outlives its schedule. What replaces that takes `free_at` over, once (`is_replaced`).
    """

    key: str
    uid: str
    free_at: int = 0
    grid: str | None = None
    is_replaced: bool = False


# Circuit breakers: their state, and their recorded transitions.


BreakerState = Literal["closed", "open", "half_open"]
TransitionReason = Literal[
    "failure_threshold", "cooldown_elapsed", "success", "probe_failed", "probe_cancelled", "manual_reset"
]


class Breaker(NamedTuple):
    """One breaker; `failure_count` counts consecutive failures of own jobs while it is closed."""

    key: str
    state: BreakerState = "closed"
    failure_count: int = 0
    opened_at: int | None = None
    probe_job_id: str | None = None


class Transition(NamedTuple):
    """One change of state of a breaker, appended to its history."""

    key: str
    from_state: BreakerState
    to_state: BreakerState
    reason: TransitionReason
    failure_count: int
    job_id: str | None
    at: int


# The data that schedules share while a batch is decided: limits, breakers, and when schedulers were alive.
#
# A batch is decided as a fold: each decision must see the results of those before it, so this is a working
# copy that every decision updates. It is not visible outside before the commit.


FOR_EVER = 1 << 62


class Declined(NamedTuple):
    """A held slot that was offered a place of its key and is not going to take it."""

    key: str
    due_at: int
    row_id: int


class Coverage(NamedTuple):
    """The stretches of time in which recorded heartbeats show that a scheduler was alive, in order."""

    stretches: tuple[tuple[int, int], ...] = ()

    @classmethod
    def merge(cls, stretches: Iterable[tuple[int, int]]) -> Coverage:
        """Return the coverage by stretches in any order, which may overlap.

        >>> Coverage.merge([(7, 9), (1, 3), (2, 4)]).gaps()
        [(4, 7)]
        """
        merged: list[tuple[int, int]] = []
        for start, end in sorted(stretches):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        return cls(tuple(merged))

    def gaps(self) -> list[tuple[int, int]]:
        """Return the times between the stretches, in order."""
        return [(before[1], after[0]) for before, after in pairwise(self.stretches)]

    def covers(self, instant: int) -> bool:
        position = bisect_right(self.stretches, (instant, FOR_EVER)) - 1
        return position >= 0 and instant <= self.stretches[position][1]

    def without(self, spans: Iterable[tuple[int, int]]) -> Coverage:
        """Return the coverage without the spans that a clock step skipped: no scheduler was alive in them."""
        stretches = list(self.stretches)
        for first, last in spans:
            kept: list[tuple[int, int]] = []
            for start, end in stretches:
                if last < start or first > end:
                    kept.append((start, end))
                else:
                    kept.extend(piece for piece in ((start, first), (last, end)) if piece[0] <= piece[1])
            stretches = kept
        return Coverage(tuple(stretches))

    def steady_until(self, instant: int) -> int:
        """Return until when the result of `covers` cannot change."""
        position = bisect_right(self.stretches, (instant, FOR_EVER)) - 1
        if position >= 0 and instant <= self.stretches[position][1]:
            return self.stretches[position][1] + 1
        return self.stretches[position + 1][0] if position + 1 < len(self.stretches) else FOR_EVER


@dataclass(slots=True)
class Shared:
    """The working copy of one fold, and the changes in it."""

    limits: dict[str, Limit] = field(default_factory=dict)
    breakers: dict[str, Breaker] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    stagger: int = 0
    stagger_offset: int = 0  # how long after the opening the next catch-up job may begin
    is_system_paused: bool = False
    busy: set[str] = field(default_factory=set)  # keys that another transaction holds locked
    touched_limits: set[str] = field(default_factory=set)
    touched_breakers: set[str] = field(default_factory=set)
    transitions: list[Transition] = field(default_factory=list)
    spendings: dict[str, Spending] = field(default_factory=dict)
    costs: dict[str, ScheduleCosts] = field(default_factory=dict)  # by uid, where a budget counts cost
    touched_spendings: set[str] = field(default_factory=set)
    touched_costs: set[str] = field(default_factory=set)
    last_firings: dict[tuple[str, str], LastFiring] = field(default_factory=dict)  # by key and uid
    touched_firings: set[tuple[str, str]] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)  # about budgets
    undo: list[Limit | Breaker | Spending | ScheduleCosts | LastFiring] = field(
        default_factory=list
    )  # before each change
    declined: list[Declined] = field(default_factory=list)

    def mark(self) -> tuple[int, int, int, int]:
        """Return the position of the fold, to roll back to when an evaluation fails."""
        return len(self.undo), len(self.transitions), len(self.events), self.stagger_offset

    def back_to(self, mark: tuple[int, int, int, int]) -> None:
        """Undo every change since the mark. The keys stay touched, so their old values are written."""
        undone, transitions, events, self.stagger_offset = mark
        while len(self.undo) > undone:
            match self.undo.pop():
                case Limit() as limit:
                    self.limits[limit.key] = limit
                case Breaker() as breaker:
                    self.breakers[breaker.key] = breaker
                case Spending() as spending:
                    self.spendings[spending.key] = spending
                case ScheduleCosts() as costs:
                    self.costs[costs.uid] = costs
                case LastFiring() as firing:  # pragma: no branch
                    self.last_firings[firing.key, firing.uid] = firing
        del self.transitions[transitions:]
        del self.events[events:]

    def limit(self, key: str) -> Limit:
        return self.limits.get(key) or Limit(key)

    def breaker(self, key: str) -> Breaker:
        return self.breakers.get(key) or Breaker(key)

    def move(self, key: str | None, *, outstanding: int = 0, running: int = 0) -> None:
        if key is not None:
            old = self.limits.get(key) or Limit(key)
            self.undo.append(old)
            self.limits[key] = old.moved(outstanding, running)
            self.touched_limits.add(key)

    def widen(self, key: str, limit: int) -> None:
        """Record that this limit holds a slot."""
        old = self.limit(key)
        if old.widest < limit:
            self.put(old._replace(widest=limit))

    def put(self, limit: Limit) -> None:
        self.undo.append(self.limit(limit.key))
        self.limits[limit.key] = limit
        self.touched_limits.add(limit.key)

    def change(self, breaker: Breaker, transition: Transition | None = None) -> None:
        self.undo.append(self.breaker(breaker.key))
        self.breakers[breaker.key] = breaker
        self.touched_breakers.add(breaker.key)
        if transition is not None:
            self.transitions.append(transition)

    def spending(self, key: str) -> Spending:
        return self.spendings.get(key) or Spending(key)

    def put_spending(self, spending: Spending) -> None:
        self.undo.append(self.spending(spending.key))
        self.spendings[spending.key] = spending
        self.touched_spendings.add(spending.key)

    def costs_of(self, uid: str) -> ScheduleCosts:
        return self.costs.get(uid) or ScheduleCosts(uid)

    def put_costs(self, costs: ScheduleCosts) -> None:
        self.undo.append(self.costs_of(costs.uid))
        self.costs[costs.uid] = costs
        self.touched_costs.add(costs.uid)

    def last_firing(self, key: str, uid: str) -> LastFiring:
        return self.last_firings.get((key, uid)) or LastFiring(key, uid)

    def put_last_firing(self, firing: LastFiring) -> None:
        which = (firing.key, firing.uid)
        self.undo.append(self.last_firing(*which))
        self.last_firings[which] = firing
        self.touched_firings.add(which)

    def next_stagger(self, opening: int) -> int:
        """Return when the next catch-up job of this evaluation may begin; the first one begins at the opening."""
        begins_at = opening + self.stagger_offset
        self.stagger_offset += self.stagger
        return begins_at


def keys_of(definition: Definition) -> tuple[set[str], set[str]]:
    """Return the keys of the limits and the breakers to lock before a schedule is decided."""
    limits = {budget.key for budget in definition.budgets}
    limits |= {rule.key for rule in (definition.guard, definition.capacity) if rule is not None}
    return limits, {definition.breaker.key} if definition.breaker else set()
