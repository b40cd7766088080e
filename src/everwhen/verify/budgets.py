"""Budgets, recounted from the jobs: what is reserved, what was spent and fired in the current windows, announcements.

It never calls the code that counts them. A transaction that began just before a window may count in it (two nodes at
midnight), so what ended in the last minute before a window may be in either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from everwhen.model.cost import reserved_in
from everwhen.model.history import Recorded, ScheduleHistory
from everwhen.model.instants import DAY, HOUR, MINUTE, instant_of, to_datetime
from everwhen.model.job import OWN_ORIGINS, Job
from everwhen.model.limits import FOR_EVER, Limit
from everwhen.model.policy import TOKEN_BUDGET
from everwhen.model.spending import Spending
from everwhen.verify.entries import LedgerFault

EDGE = MINUTE
ANNOUNCED = ("budget.warning", "budget.reached")


@dataclass(slots=True)
class WindowSum:
    """The sum in a window, and what may belong to it or to the one before."""

    sure: int = 0
    unsure: int = 0

    def holds(self, number: int) -> bool:
        return self.sure <= number <= self.sure + self.unsure

    def __str__(self) -> str:
        return str(self.sure) if not self.unsure else f"{self.sure} to {self.sure + self.unsure}"


@dataclass(slots=True)
class Sums:
    """Amounts by key and window; each is added with its instant."""

    amounts: dict[tuple[str, int], int] = field(default_factory=dict)
    edges: dict[tuple[str, int], int] = field(default_factory=dict)  # by the window that follows
    doubts: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, key: str, window: int, following: int, at: int, amount: int) -> None:
        self.amounts[key, window] = self.amounts.get((key, window), 0) + amount
        if following - at <= EDGE:
            self.edges[key, following] = self.edges.get((key, following), 0) + amount

    def doubt(self, key: str, window: int, amount: int) -> None:
        self.doubts[key, window] = self.doubts.get((key, window), 0) + amount

    def of(self, key: str, window: int) -> WindowSum:
        which = (key, window)
        unsure = self.edges.get(which, 0) + self.doubts.get(which, 0)
        return WindowSum(self.amounts.get(which, 0), unsure)


@dataclass(slots=True)
class BudgetCounts:
    """The sums over the jobs of all histories."""

    now: int = 0
    first_at: int = FOR_EVER  # when the first job was enqueued
    reserved: Counter[tuple[str, str, bool]] = field(
        default_factory=Counter
    )  # key, unit, whether by catch-up
    units: dict[str, set[str]] = field(default_factory=dict)
    by_day: Sums = field(default_factory=Sums)
    by_month: Sums = field(default_factory=Sums)
    estimated_by_day: Sums = field(default_factory=Sums)
    estimated_by_month: Sums = field(default_factory=Sums)
    fires_by_hour: Sums = field(default_factory=Sums)
    fires_by_day: Sums = field(default_factory=Sums)
    announced: Counter[tuple[object, ...]] = field(default_factory=Counter)
    _rescued: dict[str, list[Recorded]] = field(default_factory=dict)
    _keys: dict[int, tuple[str, ...]] = field(default_factory=dict)  # of one history: by revision

    def begin(self, history: ScheduleHistory) -> None:
        """Read what the events of another history say about its attempts and budgets."""
        self._rescued.clear()
        self._keys = {
            revision.revision: tuple(budget.key for budget in revision.plan.definition.budgets)
            for revision in history.revisions
        }
        if not any(self._keys.values()):
            return
        for recorded in history.events:
            event = recorded.event
            if event.type in ANNOUNCED:
                detail = event.detail
                self.announced[event.type, detail.get("key"), detail.get("limit"), detail.get("window")] += 1
            elif event.type == "job.rescued" and event.job_id is not None:
                self._rescued.setdefault(event.job_id, []).append(recorded)

    def add(self, job: Job) -> None:
        if job.created_at < self.first_at:
            self.first_at = job.created_at
        keys = self.keys_of(job)
        if keys:
            self._add_fires(job, keys)
        if job.cost_reserved is not None:
            self._add_cost(job)

    def keys_of(self, job: Job) -> Sequence[str]:
        """Return the keys of the budgets that a job of this history counts for.

        What somebody requested counts for the token of that request, and not for the one that made the schedule.
        """
        keys = self._keys.get(job.revision, ())
        if job.origin in OWN_ORIGINS:
            return keys
        return tuple(key for key in keys if not key.startswith(TOKEN_BUDGET))

    def _add_fires(self, job: Job, keys: Sequence[str]) -> None:
        """Count the attempts of a job: when it was enqueued, a retry when it began, and again after each rescue."""
        rescues = self._rescued.get(job.job_id, ())
        again = [one.event.at for one in rescues if one.event.detail.get("began") is not False]
        for key in keys:
            for at in again:
                self._fire(key, at)
            if job.origin != "retry":
                self._fire(key, job.created_at)
            elif job.started_at is not None and not rescues:
                self._fire(key, job.started_at)
            elif job.started_at is not None:  # its first start is not on record
                for window in {job.created_at, job.started_at}:
                    self.fires_by_hour.doubt(key, window - window % HOUR, 1)
                    self.fires_by_day.doubt(key, window - window % DAY, 1)

    def _fire(self, key: str, at: int) -> None:
        if at < self.now - 2 * DAY:
            return
        hour, day = at - at % HOUR, at - at % DAY
        self.fires_by_hour.add(key, hour, hour + HOUR, at, 1)
        self.fires_by_day.add(key, day, day + DAY, at, 1)

    def _add_cost(self, job: Job) -> None:
        lost = [one.event for one in self._rescued.get(job.job_id, ()) if "spent" in one.event.detail]
        for key, cost in reserved_in(job.cost_reserved).items():
            self.units.setdefault(key, set()).add(cost.unit)
            earlier = [_amount(event.detail["spent"], key) for event in lost]
            for event, amount in zip(lost, earlier, strict=True):
                self._spend(key, event.at, amount, is_estimate=True)
            if job.is_outstanding:
                self.reserved[key, cost.unit, job.origin == "catch_up"] += cost.amount
            elif job.ended_at is not None and job.node is not None and job.cost_source is not None:
                is_reported = job.cost_source == "reported" and job.cost_unit == cost.unit
                last = (job.cost_amount or 0) - sum(earlier) if is_reported else cost.amount
                self._spend(key, job.ended_at, last, is_estimate=not is_reported)

    def _spend(self, key: str, at: int, amount: int, *, is_estimate: bool) -> None:
        day = at - at % DAY
        month = instant_of(to_datetime(day).replace(day=1))
        following = instant_of(to_datetime(month + 32 * DAY).replace(day=1))
        self.by_day.add(key, day, day + DAY, at, amount)
        self.by_month.add(key, month, following, at, amount)
        if is_estimate:
            self.estimated_by_day.add(key, day, day + DAY, at, amount)
            self.estimated_by_month.add(key, month, following, at, amount)

    # -- the checks --

    def check(
        self,
        spendings: Sequence[Spending],
        limits: Sequence[Limit],
        *,
        known_from: int,
        ruled_from: int,
        is_steady: bool,
    ) -> Iterator[LedgerFault]:
        """Check the rows of budgets. `known_from`: retention may have deleted the record of earlier windows.

        Before `ruled_from`, the previous release may have counted firings by its own rules, if there were any.
        """
        fires_from = known_from if self.first_at >= ruled_from else max(known_from, ruled_from)
        rows = {spending.key: spending for spending in spendings}
        for key in sorted(rows.keys() | {key for key, _, _ in self.reserved}):
            row = rows.get(key) or Spending(key)
            if len(self.units.get(key, ())) <= 1:  # a new unit begins anew
                yield from self._check_reserved(row)
                if is_steady:
                    yield from self._check_spent(row, known_from)
                    yield from self._check_estimated(row, fires_from)
        if is_steady:
            for limit in limits:
                if limit.key in self._known_keys():
                    yield from self._check_fires(limit, fires_from)
        for (kind, about, name, window), times in sorted(self.announced.items(), key=str):
            if times > 1 and window is not None:
                yield _fault(
                    str(about), f"{kind} of {name} is on record {times} times for one window, {window}"
                )

    def _known_keys(self) -> set[str]:
        return {key for key, _ in self.fires_by_day.amounts} | {key for key, _ in self.fires_by_day.doubts}

    def _check_reserved(self, row: Spending) -> Iterator[LedgerFault]:
        caught_up = self.reserved[row.key, row.unit or "", True]
        counted = caught_up + self.reserved[row.key, row.unit or "", False]
        for word, on_row, jobs in (
            ("reserved", row.reserved, counted),
            ("reserved by catch-up", row.caught_up_reserved, caught_up),
        ):
            if on_row != jobs:
                yield _fault(row.key, f"the row says {on_row} {word}, the jobs make {jobs}")

    def _check_spent(self, row: Spending, known_from: int) -> Iterator[LedgerFault]:
        for word, window, on_row, sums in (
            ("day", row.day, row.day_cost, self.by_day),
            ("month", row.month, row.month_cost, self.by_month),
        ):
            counted = sums.of(row.key, window)
            if window >= known_from and not counted.holds(on_row):
                yield _fault(row.key, f"the row says {on_row} spent in the {word}, the jobs make {counted}")

    def _check_estimated(self, row: Spending, known_from: int) -> Iterator[LedgerFault]:
        for word, window, on_row, sums in (
            ("day", row.day, row.estimated_day_cost, self.estimated_by_day),
            ("month", row.month, row.estimated_month_cost, self.estimated_by_month),
        ):
            counted = sums.of(row.key, window)
            if window >= known_from and not counted.holds(on_row):
                yield _fault(
                    row.key, f"the row says {on_row} estimated in the {word}, the jobs make {counted}"
                )

    def _check_fires(self, limit: Limit, known_from: int) -> Iterator[LedgerFault]:
        for word, window, on_row, sums in (
            ("hour", limit.hour, limit.hour_fires, self.fires_by_hour),
            ("day", limit.day, limit.day_fires, self.fires_by_day),
        ):
            if window < known_from or window < self.now - DAY:
                continue
            counted = sums.of(limit.key, window)
            # The calls of a token count for it, whatever they fire.
            is_within = (
                on_row >= counted.sure if limit.key.startswith(TOKEN_BUDGET) else counted.holds(on_row)
            )
            if not is_within:
                yield _fault(
                    limit.key, f"the row says {on_row} firings in the {word}, the jobs make {counted}"
                )


def _amount(spent: object, key: str) -> int:
    found = spent.get(key, 0) if isinstance(spent, dict) else 0
    return found if isinstance(found, int) else 0


def _fault(key: str, sentence: str) -> LedgerFault:
    return LedgerFault("counter", "", key, None, f"budget {key}: {sentence}")
