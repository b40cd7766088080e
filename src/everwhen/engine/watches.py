"""Watches of a node: steps and skew of the clock, stalls of the scheduler, overdue slots, and its downtime.

A step is found by comparing wall time and monotonic time between two looks. When the clock steps back, nothing fires
twice, because the rows have moved on; when it steps forward, the skipped slots are missed. Either way the step is
recorded, and leases of other nodes are not evaluated for one whole lease. Skew is the difference between this host's
clock and the database's. Slots use the database's clock, so a difference fires nothing wrong; but the timestamps in
the host's own logs are off by as much.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everwhen.clock import Clock
from everwhen.decide.outlook import held_too_long_since, overdue_event, overdue_since
from everwhen.model.events import Event, EventType
from everwhen.model.instants import MINUTE, SECOND, format_instant
from everwhen.model.node import MOST_SKEW, SILENT
from everwhen.model.queries import EventFilter
from everwhen.model.schedule import Schedule
from everwhen.model.vitals import Mark, Tally
from everwhen.runtime import Runtime
from everwhen.store.opened import OpenStore, store_of
from everwhen.timetable.civil_time import zone

SMALLEST_STEP = 2.0
OLDEST_READING = 1_000_000  # microseconds: the database's clock is asked once a second

log = logging.getLogger("everwhen")


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A change of the wall clock by `seconds` that did not pass: from one instant to another.

    `since_at`: the earliest instant, by the new time, at which the clock may have been set. What was recorded from then
    on may already be dated by the new time. None where that is unknown.
    """

    seconds: float
    from_at: int
    to_at: int
    since_at: int | None = None

    @property
    def detail(self) -> dict[str, object]:
        """Return what its event records."""
        found: dict[str, object] = {"seconds": self.seconds, "from": self.from_at, "to": self.to_at}
        return found if self.since_at is None else found | {"since_at": self.since_at}


class ClockWatch:
    """Compares both clocks, and reports when they disagree."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._elapsed = clock.now(), clock.monotonic()

    @property
    def now(self) -> int:
        """Return the instant of the last look: decisions by it use the clock that was checked."""
        return self._wall

    def look(self) -> ClockStep | None:
        """Return the step since the last look; None when there was none large enough."""
        wall, elapsed = self._clock.now(), self._clock.monotonic()
        passed = int((elapsed - self._elapsed) * 1_000_000)
        expected = self._wall + passed
        self._wall, self._elapsed = wall, elapsed
        seconds = (wall - expected) / 1_000_000
        if abs(seconds) < SMALLEST_STEP:
            return None
        return ClockStep(seconds, expected, wall, wall - passed - OLDEST_READING)


class SkewWatch:
    """Logs once that this host's clock is too far from the database's, and once that it agrees again."""

    def __init__(self) -> None:
        self._is_far = False

    def look(self, skew: int) -> None:
        is_far = abs(skew) >= MOST_SKEW
        if is_far == self._is_far:
            return
        self._is_far = is_far
        if is_far:
            log.warning(
                "this host's clock is %+.1f s from the database's, by which slots are fired; see to its time service",
                skew / 1_000_000,
            )
        else:
            log.info("this host's clock agrees with the database's again")


Record = Callable[[EventType, dict[str, object]], None]


class StallWatch:
    """Records each stall once, and its end. Called by the heartbeat, which continues when the loop does not."""

    def __init__(self, clock: Clock, record: Record) -> None:
        self._clock = clock
        self._record = record
        self._is_stalled = False
        self._untold: list[tuple[EventType, dict[str, object]]] = []

    def look(self, reason: str | None) -> None:
        """Note whether the scheduler stalls, and why."""
        noticed_at = self._clock.now()
        if reason is not None and not self._is_stalled:
            self._untold.append(("scheduler.stalled", {"reason": reason, "noticed_at": noticed_at}))
        elif reason is None and self._is_stalled:
            self._untold.append(("scheduler.recovered", {"noticed_at": noticed_at}))
        self._is_stalled = reason is not None

    def tell(self) -> None:
        """Record stalls and their ends that are not recorded yet; on StoreError they are kept for the next call."""
        while self._untold:
            self._record(*self._untold[0])
            del self._untold[0]


class CutOffWatch:
    """Reports a stall directly, once, while the database cannot be written: no alert can be recorded then."""

    def __init__(self, tell: Callable[[str | None], None]) -> None:
        self._tell = tell
        self._has_reported = False

    def look(self, reason: str | None, *, is_cut_off: bool) -> None:
        """Note why the node stalls, and whether its heartbeats are written; None ends the report when both are well."""
        if reason is not None and is_cut_off and not self._has_reported:
            self._has_reported = True
            self._tell(reason)
        elif self._has_reported and reason is None and not is_cut_off:
            self._has_reported = False
            self._tell(None)


# The watch over slots that stay undecided, or are held for too long; it records each of them once.
#
# Of several schedulers only the one with the smallest id checks, so that no two record the same slot.


LOOK_EVERY = 30.0
MOST = 1_000  # schedules per check
_DELAYED: EventType = "scheduler.feed_delayed"
_RESUMED: EventType = "scheduler.feed_resumed"
_WAITING = ("outstanding_limit", "at_capacity")  # for capacity; holding until a window opens is intended


def is_first_scheduler(store: OpenStore, node: str) -> bool:
    """Check whether no other scheduler that is alive has a smaller id."""
    now = store.clock.now()
    alive = [one for one in store.upkeep.nodes() if one.is_scheduler and one.is_alive]
    return all(one.node >= node for one in alive if now - one.heartbeat_at < SILENT)


class OverdueWatch:
    """Checks twice a minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = store_of(runtime)
        self._looked = float("-inf")

    def step(self, node: str) -> None:
        clock = self._runtime.clock
        if clock.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked, now = clock.monotonic(), clock.now()
        is_first = is_first_scheduler(self._runtime, node)
        if is_first and self._runtime.catalogue.system_paused_at() is None:
            events = list(self._found(now))
            if events:
                self._runtime.slots.record(events)

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


class FeedWatch:
    """Records that an open transaction delays the event feed, and that it has ended; each once.

    Of several schedulers only one does, as with overdue slots. What was recorded last is read from the ledger, so that
    a restart records nothing again.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = store_of(runtime)
        self._is_delayed: bool | None = None  # as recorded; None: not read yet

    def step(self, node: str) -> None:
        found = self._runtime.feed_delays.look()
        if self._is_delayed is None:
            last = self._runtime.ledger.events(EventFilter(types=(_DELAYED, _RESUMED)), limit=1)
            self._is_delayed = bool(last) and last[0].event.type == _DELAYED
        if (found is not None) == self._is_delayed or not is_first_scheduler(self._runtime, node):
            return
        self._is_delayed = found is not None
        if found is None:
            log.info("the event feed continues: the transaction that delayed it has ended")
            self._record(node, _RESUMED, {})
            return
        log.warning("%s", found)
        about = {"pid": found.pid, "application": found.application, "seconds": found.seconds}
        self._record(node, _DELAYED, {key: value for key, value in about.items() if value is not None})

    def _record(self, node: str, kind: EventType, detail: dict[str, object]) -> None:
        now = self._runtime.clock.now()
        self._runtime.slots.record([Event(kind, now, detail={"node": node, **detail})])


class ExpectWatch:
    """Records silent schedules; without `expect` it reads the rows of the nodes, and one empty index.

    Any scheduler may do it: the row of a schedule has its deadline, which the record of a silence clears. A time
    in which no scheduler was alive does not count, by the recorded heartbeats: no node ran, or none could write one
    for a whole lease.
    """

    def __init__(self, runtime: Runtime, *, lease: int) -> None:
        self._slots = store_of(runtime).slots
        self._clock = runtime.clock
        self._lease = lease

    def skip(self, since: int, until: int) -> None:
        """Move the deadlines over a time that the clock has skipped."""
        if self._slots.next_expected_at() is not None:
            self._slots.move_deadlines(since, until)

    def step(self, node: str) -> None:
        """Call it before a heartbeat, which would hide that there was none.

        A downtime is noted also while nothing is expected: what is resumed after it is not to wait for it.
        """
        now = self._clock.now()
        downtimes = self._slots.downtimes(now, node=node, lease=self._lease)
        for since, until in downtimes.spans:
            self._slots.move_deadlines(since, until)
        while downtimes.is_settled and (at := self._slots.next_expected_at()) is not None and at <= now:
            if not self._slots.note_silences(now):
                return


class Downtime:
    """The time from the last heartbeat of any scheduler to the start of this one.

    The log line at start says how long no scheduler ran, what was missed meanwhile, and what is caught up: once, when
    the whole backlog has been decided, by a node that found no other scheduler running.
    """

    def __init__(self, runtime: Runtime, last_heartbeat_at: int | None) -> None:
        self._runtime, self._timezone = store_of(runtime), runtime.timezone
        self._last_heartbeat_at = last_heartbeat_at
        self._started_at = runtime.clock.now()
        self._mark: Mark | None = None if last_heartbeat_at is None else store_of(runtime).vitals.mark()

    def tell(self, node: str) -> None:
        """Log the line, once."""
        mark, self._mark = self._mark, None
        last = self._last_heartbeat_at
        if mark is None or last is None:
            return
        others = [one for one in self._runtime.upkeep.nodes() if one.is_scheduler and one.node != node]
        if any(one.heartbeat_at > last for one in others):
            return
        text = describe_window(self._runtime.vitals.tally(mark))
        down = describe_seconds((self._started_at - last) // SECOND)
        since = format_instant(last, zone(self._timezone))
        log.info("was down for %s, since the last heartbeat at %s: %s", down, since, text)


def describe_window(tally: Tally) -> str:
    """Describe what happened to the slots of a window.

    >>> describe_window(Tally({("schedule.missed", "down"): 12}, {"catch_up": 1, "schedule": 4}, Mark(0, 0)))
    '12 slots were missed, 1 job catches up'
    """
    missed = sum(count for (kind, _), count in tally.slots.items() if kind == "schedule.missed")
    covered = sum(count for (kind, _), count in tally.slots.items() if kind == "schedule.caught_up")
    jobs = tally.fired.get("catch_up", 0)
    found = []
    if missed:
        found.append(f"{missed:,} slot{' was' if missed == 1 else 's were'} missed")
    if covered:
        found.append(f"one run of each schedule replaces {covered:,} slot{'' if covered == 1 else 's'}")
    if jobs:
        found.append(f"{jobs:,} job{' catches' if jobs == 1 else 's catch'} up")
    return ", ".join(found) or "nothing was missed"


def describe_seconds(seconds: int) -> str:
    """Format a duration in its two largest units.

    >>> describe_seconds(7_500), describe_seconds(0)
    ('2h 5m', '0s')
    """
    found, left = [], max(seconds, 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            found.append(f"{count}{unit}")
    return " ".join(found[:2]) or "0s"
