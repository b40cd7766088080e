"""What stands behind the bars of the timeline: times in which nothing could fire, pauses and closed times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from everwhen.model.events import Event, EventType
from everwhen.model.history import STARTS
from everwhen.model.instants import SECOND
from everwhen.model.queries import EventFilter
from everwhen.model.schedule import Schedule, State
from everwhen.operations.system import is_alive
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_SPANS = 200
MOST_SWITCHES = 1_000
MOST_CLOSED = 200  # closed times that are listed for one row: those of two months, three a day

# What begins and ends the times in which nothing fires: of the whole system, and of one schedule.
_SWITCHES: frozenset[EventType] = frozenset(("scheduler.started", "system.paused", "system.resumed"))
_PAUSES: frozenset[EventType] = STARTS | {"schedule.paused"}

SpanKind = Literal["down", "paused"]


class SilentSpan(NamedTuple):
    """A time in which nothing could fire: no scheduler was there (`down`), or the system was paused."""

    kind: SpanKind
    start: int
    end: int | None = None  # None: it lasts


class ClosedSpan(NamedTuple):
    """A time in which a schedule fires nothing."""

    start: int
    end: int
    reason: str


class PausedSpan(NamedTuple):
    """A time in which a schedule was paused; one that began earlier begins with the span of the line."""

    start: int
    end: int | None = None  # None: it lasts


class SpansWithoutFirings:
    """The switches of the system and of its schedules that are on record from the start of a span on."""

    def __init__(self, runtime: Runtime, start: int, end: int, *, with_pauses: bool) -> None:
        self._store, self._now = store_of(runtime), runtime.clock.now()
        self._start, self._end = start, end
        types = _SWITCHES | _PAUSES if with_pauses else _SWITCHES
        events = self._store.ledger.events(EventFilter(types=types, since=start), limit=MOST_SWITCHES)
        self._switches: list[Event] = [recorded.event for recorded in events]  # newest first

    def silent(self, owner: str | None) -> list[SilentSpan]:
        """Return when nothing could fire; a caller of an owner does not see when the service was down."""
        downtimes = self._downtimes() if owner is None else ()
        return sorted([*downtimes, *self._system_pauses()], key=lambda span: span.start)[-MOST_SPANS:]

    def _downtimes(self) -> Iterator[SilentSpan]:
        for event in self._switches:
            heard_of = event.detail.get("last_heartbeat_at")
            if event.type != "scheduler.started" or not isinstance(heard_of, int):
                continue
            if self._start < event.at and heard_of < self._end:
                yield SilentSpan("down", heard_of, event.at)
        schedulers = [node for node in self._store.upkeep.nodes() if node.is_scheduler]
        if schedulers and not any(is_alive(node, self._now) for node in schedulers):
            last = max(node.stopped_at or node.heartbeat_at for node in schedulers)
            if last < min(self._end, self._now):
                yield SilentSpan("down", last)

    def _system_pauses(self) -> Iterator[SilentSpan]:
        """Pair the switches of the system; one that is on now may have been switched before the span."""
        paused_at = self._store.catalogue.system_paused_at()
        if paused_at is not None and paused_at < self._end:
            yield SilentSpan("paused", paused_at)
        ends_at: int | None = None
        for event in self._switches:
            if event.type == "system.resumed":
                ends_at = event.at
            elif event.type == "system.paused" and ends_at is not None and event.at < self._end:
                yield SilentSpan("paused", event.at, ends_at)
                ends_at = None
        if ends_at is not None:
            yield SilentSpan("paused", self._start, ends_at)

    def pauses(self, state: State) -> Iterator[PausedSpan]:
        """Yield when a schedule was paused, newest first."""
        is_paused, ends_at = state.status == "paused", None
        for event in self._switches:
            if event.uid != state.uid or event.type not in _PAUSES:
                continue
            if event.type != "schedule.paused":
                is_paused, ends_at = True, event.at
            elif is_paused:
                if event.at < self._end:
                    yield PausedSpan(event.at, ends_at)
                is_paused = False
        if is_paused:
            yield PausedSpan(self._start, ends_at)

    def closed(self, schedule: Schedule) -> Iterator[ClosedSpan]:
        """Yield the times of the span in which a schedule fires nothing."""
        closed = schedule.plan.calendar(schedule.state.anchor_at).closed_times
        at, end = self._start // SECOND, self._end // SECOND
        for _ in range(MOST_CLOSED):
            if at >= end:
                return
            reason, until = closed.reason_at(at), min(closed.steady_until(at), end)
            if reason is not None:
                yield ClosedSpan(at * SECOND, until * SECOND, reason)
            at = max(until, at + 1)
