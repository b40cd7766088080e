"""The watch over slots that stay undecided, or are held for too long; it records each of them once.

Of several schedulers only the one with the smallest id checks, so that no two record the same slot.
"""

from __future__ import annotations

from collections.abc import Iterator

from everwhen.decide.overdue import held_too_long_since, overdue_event, overdue_since
from everwhen.model.events import Event
from everwhen.model.instants import MINUTE
from everwhen.model.node import SILENT
from everwhen.model.schedule import Schedule
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

LOOK_EVERY = 30.0
MOST = 1_000  # schedules per check
_WAITING = ("outstanding_limit", "at_capacity")  # for capacity; holding until a window opens is intended


class OverdueWatch:
    """Checks twice a minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = store_of(runtime)
        self._looked = float("-inf")

    def step(self, node: str) -> None:
        clock = self._runtime.clock
        if clock.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = clock.monotonic()
        if self._runtime.catalogue.system_paused_at() is None and self._is_first(node):
            events = list(self._found(clock.now()))
            if events:
                self._runtime.slots.record(events)

    def _is_first(self, node: str) -> bool:
        now = self._runtime.clock.now()
        others = [one for one in self._runtime.upkeep.nodes() if one.is_scheduler and one.is_alive]
        return all(one.node >= node for one in others if now - one.heartbeat_at < SILENT)

    def _found(self, now: int) -> Iterator[Event]:
        wake_at = self._runtime.slots.next_wake_at()
        is_behind = wake_at is not None and wake_at <= now - MINUTE
        for schedule in self._runtime.catalogue.soonest(MOST) if is_behind else ():
            state = schedule.state
            if state.next_run_at is None or state.next_run_at > now - MINUTE:
                break
            yield from self._new(schedule, state.next_slot_at, overdue_since(schedule), now)
        for hold in self._runtime.firings.holds(limit=MOST):
            is_long = hold.reason in _WAITING and hold.since <= now - MINUTE
            held = self._runtime.catalogue.get(hold.schedule_id) if is_long else None
            if held is not None:
                yield from self._new(held, held.state.held_slot_at, held_too_long_since(held), now)

    def _new(self, schedule: Schedule, slot_at: int | None, since: int | None, now: int) -> Iterator[Event]:
        if slot_at is None or since is None or since > now:
            return
        on_record = self._runtime.ledger.events_of_slot(schedule.state.uid, slot_at)
        if not any(one.event.type == "schedule.overdue" for one in on_record):
            yield overdue_event(schedule, slot_at, since, now)
