"""One evaluation: first the slots that became due recently, then a bounded portion of the backlog.

So a long catch-up never delays a live slot. The clock is read once per transaction. A clock that was set back is
noted, and nothing fires twice for it, because the rows have moved on.

A starting node sends its first heartbeat, then declares its schedules, opens its API and only then decides slots.
Slots are whole seconds, and an every-second schedule that is declared at 08:00:00.9 has one at 08:00:00. If that slot
were first decided at 08:00:01.1, it would count as missed, although the service was running. So if a new second has
begun since the first heartbeat, the slots due before that second are decided first, as of the last instant before it.
Then all due slots are decided as of one instant, because the next second may begin between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from everwhen.clock import Clock
from everwhen.decide.status import end_pause
from everwhen.errors import UnknownScheduleError
from everwhen.model.changes import Decision
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import SECOND
from everwhen.model.share import FreeWorkers
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.store.slots import Slots
from everwhen.store.tick import TickReport

BATCH = 500


class WorkersOffer(Protocol):
    """The workers of the same node: what an evaluation fires may begin on those that are free."""

    def offer(self) -> AbstractContextManager[FreeWorkers | None]: ...

    def take(self, claimed: Sequence[ClaimedJob], /) -> None: ...


@dataclass(slots=True)
class TickCounts:
    """What the ticker has done since it was created."""

    checks: int = 0
    fired: int = 0
    last_check_at: int | None = None
    checked: float = 0.0  # monotonic: the last completed evaluation
    advanced: float = 0.0  # monotonic: the last one that decided something


class Ticker:
    """Claims, decides and commits due slots, a batch at a time."""

    def __init__(
        self,
        slots: Slots,
        clock: Clock,
        *,
        batch: int = BATCH,
        on_decided: Callable[[Sequence[Decision]], None] | None = None,
        workers: WorkersOffer | None = None,
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._batch = batch
        self._on_decided = on_decided  # called after the commit; it must not raise
        self._workers = workers
        self.counts = TickCounts()
        self.alive_since: int | None = None  # when the node of this ticker was first recorded
        self._decided = self._fired = self._begun = 0
        self.left_to_workers = False  # whether the last step decided more than was begun in it
        self._began_for: int | None = None  # `alive_since` of the node whose first evaluation is complete

    def step(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Decide all slots that became due recently and one portion of the backlog; return True when more are due.

        `is_over` returns whether firing has to end: a stopping node does not process its backlog first.
        """
        before, fired, begun = self._decided, self._fired, self._begun
        report = self._first_second(is_over)
        if report is None or not is_over():
            report = self._tick(behind=False)
        while report.more and not is_over():
            report = self._tick(behind=False)
        if not report.more and not report.none_due:
            report = self._tick(behind=True)
        self.note_check()
        self.counts.fired += self._fired - fired
        self.left_to_workers = self._decided - before > self._begun - begun
        if self._decided != before:
            self.counts.advanced = self.counts.checked
        return report.more

    def _first_second(self, is_over: Callable[[], bool]) -> TickReport | None:
        """Decide, once per start, what was due before this second if it began during the start, then what is due now.

        All transactions of each part use the same instant.
        """
        if self._began_for == self.alive_since or self.alive_since is None:
            return None
        now = self._clock.now()
        second = now // SECOND * SECOND
        for as_of in (second - 1, now) if self.alive_since < second else (now,):
            report = self._tick(behind=False, now=as_of)
            while report.more and not is_over():
                report = self._tick(behind=False, now=as_of)
        self._began_for = self.alive_since
        return report

    def _tick(self, *, behind: bool, now: int | None = None) -> TickReport:
        now = self._clock.now() if now is None else now
        due: dict[str, Any] = {"limit": self._batch, "behind": behind, "alive_since": self.alive_since}
        if self._workers is None:
            report = self._slots.tick(now, **due)
        else:
            with self._workers.offer() as workers:
                report = self._slots.tick(now, **due, workers=workers)
                self._workers.take(report.claimed)
        self._decided += report.schedules
        self._fired += report.fired
        self._begun += len(report.claimed)
        if self._on_decided is not None and report.decisions:
            self._on_decided(report.decisions)
        return report

    def note_check(self) -> None:
        """Count one pass of the loop, also when links decide the slots."""
        self.counts.checks += 1
        self.counts.last_check_at = self._clock.now()
        self.counts.checked = self._clock.monotonic()

    def seconds_to_next(self, check_interval: float) -> float:
        """Return how long to sleep: until the earliest slot, at most `check_interval`."""
        wake_at = self._slots.next_wake_at()
        if wake_at is None:
            return check_interval
        return min(max((wake_at - self._clock.now()) / 1_000_000, 0.0), check_interval)


def ticker_of(runtime: Runtime) -> Ticker:
    """Return a ticker on the store of a runtime."""
    return Ticker(store_of(runtime).slots, runtime.clock)


def end_pauses(runtime: Runtime) -> int:
    """Resume every schedule whose pause has ended, and record refilled budgets; return how many pauses there were."""
    store = store_of(runtime)
    due, refilled = store.catalogue.due_to_end(runtime.clock.now())
    for key in refilled:
        store.catalogue.refill_budget(runtime.clock.now(), key)
    for schedule_id in due:
        try:
            store.catalogue.change(runtime.clock.now(), schedule_id, end_pause)
        except UnknownScheduleError:
            continue  # deleted a moment ago
    return len(due)
