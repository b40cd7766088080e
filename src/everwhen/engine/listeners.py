"""Listeners of the event feed: one thread per process, which runs only while there is a listener.

Listeners of a process get what concerns it, from the start of its scheduler on; their position is in memory. A named
listener gets everything in the database at least once: its position is a cursor in the database, which one node holds
and moves behind what it has delivered. When that node is lost, or its hold has expired, another node continues from the
cursor, and repeats what was delivered after the cursor was last written.

An exception of a listener is logged. A listener of the process then continues with the next entry. A named one gets the
entry again, after pauses that double, and skips it after `MOST_TRIES` (docs/decisions/listeners.md).

The thread only reads, but for the cursors, and pauses between two portions.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from everwhen.clock import Clock
from everwhen.engine.delivery import LONGEST_ERROR, pause_after
from everwhen.engine.loop import Wake, WakeableSleep
from everwhen.errors import StoreError
from everwhen.model.event_cursor import EventCursor
from everwhen.model.instants import SECOND, optional_datetime
from everwhen.model.node import HOLD, LAST_DELIVERIES
from everwhen.operations.event_feed import FeedEntry, facts_of
from everwhen.operations.listening import (
    HELD,
    MOVES,
    FeedPosition,
    FeedStep,
    HoldWatch,
    OwnEvents,
    outstanding_jobs,
    position_now,
    position_of,
    steps_after,
)
from everwhen.runtime import Changes, Runtime
from everwhen.store.opened import store_of

PORTION = 200
RENEW_EVERY = 20.0  # seconds
KEEP_EVERY = 5.0  # seconds after which a cursor that has moved is written
TAKE_EVERY = 1.0  # seconds between two attempts to hold a cursor
BEGIN_PATIENCE = 2.0  # seconds that a new name waits for firings whose transactions are open
MOST_TRIES = 5
LOOK, IDLE, ASK = (
    0.05,
    1.0,
    0.25,
)  # seconds: the shortest pause, the longest, and that of a database without a counter
LONGEST_PAUSE = 5.0
LAST_ENTRIES = LAST_DELIVERIES / SECOND
LAST_LOOK = 1.0  # seconds that the end of the node is waited for: open transactions of others may hide it

log = logging.getLogger("everwhen")


class NotDeliveredError(Exception):
    """The listener could not be called, because its program's event loop is closed: it has not received the entry."""


@dataclass(frozen=True, eq=False, slots=True)
class EventListener:
    """A function that gets entries of these types. `name`: of its cursor; None: it gets what concerns the process."""

    call: Callable[[FeedEntry], None]
    types: frozenset[str]
    label: str
    name: str | None = None


class ListenerGroup:
    """The listeners of one node, without a thread: the owner calls `step`, from one thread at a time."""

    def __init__(
        self, runtime: Runtime, *, program: str, node: Callable[[], str], look_every: float = IDLE
    ) -> None:
        self._runtime = runtime
        self._node = node
        self._own = ProcessListeners(runtime, OwnEvents(runtime, program), node, look_every)
        self._named: list[NamedListener] = []

    @property
    def is_empty(self) -> bool:
        return not self._named and not self._own.has_listeners

    @property
    def is_over(self) -> bool:
        """Return whether the listeners of the process have received its end, or there are none."""
        return self._own.is_over

    @property
    def next_attempt_at(self) -> int | None:
        """Return the instant at which a refused entry is delivered again; None where none waits."""
        waiting = [one.next_attempt_at for one in self._named]
        return min((at for at in waiting if at is not None), default=None)

    def add(self, listener: EventListener) -> None:
        if listener.name is None:
            self._own.add(listener)
        else:
            self._named = [*self._named, NamedListener(self._runtime, listener, self._node)]

    def restart(self) -> None:
        """Forget the position of the process: `begin` sets it anew."""
        self._own.restart()

    def begin(self) -> None:
        """Set the positions of listeners that have none: from now on they get what happens."""
        self._own.begin()
        for named in self._named:
            named.begin()

    def step(self, is_late: Callable[[], bool], *, is_last: bool = False) -> bool:
        """Deliver what has happened, at most one portion to each; return True when there may be more.

        What named listeners have not received at the end, they receive after the next start.
        """
        has_more = self._own.step(is_late)
        for named in self._named:
            has_more |= named.step(is_late) and not is_last
        return has_more

    def release(self) -> None:
        """Give up the cursors: another node may continue at once."""
        for named in self._named:
            try:
                named.release()
            except Exception as error:  # the end of the loop; its hold expires by itself
                log.error("the cursor of a listener is not written: %s", error)


class Listeners:
    """The listeners of one node, and their thread."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        program: str,
        node: Callable[[], str],
        changes: Changes | None,
    ) -> None:
        self._clock = runtime.clock
        self._group = ListenerGroup(runtime, program=program, node=node)
        self._idle = ASK if changes is None else IDLE
        self._wake = Wake()
        self._sleep = WakeableSleep(self._wake, changes)
        self._guard = threading.Lock()
        self._is_running = False
        self._over = threading.Event()
        self._ends_at = float("inf")
        self._thread: threading.Thread | None = None

    def add(self, listener: EventListener) -> None:
        """Add a listener; while the scheduler runs, it gets what happens from now on."""
        with self._guard:
            self._group.add(listener)
            if self._is_running:
                self._group.begin()
                self._serve_on_thread()

    def begin(self) -> None:
        """Set the positions of all listeners, before the scheduler does anything: they get the event of its start."""
        with self._guard:
            self._group.restart()
            self._group.begin()

    def start(self) -> None:
        """Start the thread, if there is a listener."""
        with self._guard:
            self._is_running = True
            self._over.clear()
            self._ends_at = float("inf")
            self._serve_on_thread()

    def stop(self) -> None:
        """Deliver what has happened until now, and end; a listener that hangs is left after some seconds."""
        with self._guard:
            self._is_running = False
            thread = self._thread
            self._ends_at = self._clock.monotonic() + LAST_ENTRIES
            self._over.set()
            self._wake.set()
        if thread is None or thread is threading.current_thread():  # a listener may stop its scheduler
            return
        thread.join(LAST_ENTRIES)
        with self._guard:
            if not thread.is_alive():
                self._thread = None

    def _serve_on_thread(self) -> None:
        is_served = self._thread is not None and self._thread.is_alive()
        if not is_served and not self._group.is_empty:
            self._thread = threading.Thread(target=self._serve, name="everwhen-listeners", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        pause = ASK
        while True:
            is_last = self._over.is_set()
            began = self._clock.monotonic()
            has_more = False
            try:
                self._sleep.begin()
                has_more = self._group.step(self._is_late, is_last=is_last)
                pause = ASK
            except Exception as error:  # top of the loop: it never ends
                log.error("Error during listening: %s", error, exc_info=not isinstance(error, StoreError))
                self._over.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            if is_last and (self._is_late() or (not has_more and self._is_done())):
                break
            self._over.wait(min(max(LOOK, self._clock.monotonic() - began), ASK))
            if not has_more and not self._over.is_set():
                self._sleep.sleep(self._idle)
        self._group.release()

    def _is_done(self) -> bool:
        """Check that the listeners of the process have received its end, or that this takes too long."""
        is_waiting = self._clock.monotonic() < self._ends_at - LAST_ENTRIES + LAST_LOOK
        return self._group.is_over or not is_waiting

    def _is_late(self) -> bool:
        return self._clock.monotonic() > self._ends_at


class ProcessListeners:
    """All listeners of the process: one position, in memory. `step` is for one thread."""

    def __init__(self, runtime: Runtime, own: OwnEvents, node: Callable[[], str], look_every: float) -> None:
        self._runtime = runtime
        self._own = own
        self._node = node
        self._look_every = look_every  # seconds between two looks for holds
        self._listeners: list[EventListener] = []
        self._position: FeedPosition | None = None
        self._holds: HoldWatch | None = None
        self._looked = float("-inf")  # for holds
        self._has_ended = False

    @property
    def is_over(self) -> bool:
        """Return whether no function listens, or the end of this node was reported."""
        return self._position is None or self._has_ended

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: EventListener) -> None:
        self._listeners = [*self._listeners, listener]

    def restart(self) -> None:
        self._position = self._holds = None
        self._has_ended = False

    def begin(self) -> None:
        """Continue from now; types that were added since then are delivered from now on."""
        if not self._listeners:
            return
        position = self._position
        if position is None:
            self._position = position_now(self._runtime, follows=self._wants(MOVES))
        elif position.open_jobs is None and self._wants(MOVES):
            position.open_jobs = outstanding_jobs(self._runtime, position.job_row)
        if self._holds is None and self._wants({HELD}):
            self._holds = HoldWatch(self._runtime)
            self._holds.look()

    def step(self, is_late: Callable[[], bool]) -> bool:
        """Deliver what has happened, at most one portion; return True when there may be more."""
        position = self._position
        if position is None:
            return False
        steps = steps_after(self._runtime, position, limit=PORTION)
        self._own.load(step.entry for step in steps if step.entry is not None)
        for step in steps:
            if is_late():
                return False
            position.move_behind(step)
            if step.entry is not None:
                self._tell(step.entry)
        self._tell_holds()
        return len(steps) >= PORTION

    def _tell(self, entry: FeedEntry) -> None:
        kind = facts_of(entry).type
        if kind == "scheduler.stopped" and self._own.concerns(entry, self._node()):
            self._has_ended = True
        wanting = [listener for listener in self._listeners if kind in listener.types]
        if wanting and self._own.concerns(entry, self._node()):
            for listener in wanting:
                try:
                    listener.call(entry)
                except BaseException as error:  # user code; sys.exit ends the call, never the thread
                    log_failure(listener, entry, error)

    def _tell_holds(self) -> None:
        now = self._runtime.clock.monotonic()
        if self._holds is None or now - self._looked < self._look_every:
            return
        self._looked = now
        held = self._holds.look()
        self._own.load(held)
        for entry in held:
            self._tell(entry)

    def _wants(self, types: Iterable[str]) -> bool:
        return any(not listener.types.isdisjoint(types) for listener in self._listeners)


class NamedListener:
    """One listener with a cursor in the database. `step` and `release` are for one thread."""

    def __init__(self, runtime: Runtime, listener: EventListener, node: Callable[[], str]) -> None:
        assert listener.name is not None
        self._runtime = runtime
        self._cursors = store_of(runtime).event_cursors
        self._clock: Clock = runtime.clock
        self._listener = listener
        self._name = listener.name
        self._follows = not listener.types.isdisjoint(MOVES)
        self._node = node
        self._cursor: EventCursor | None = None  # while this node holds it
        self._position = FeedPosition(0, 0, None)
        self._pending: deque[FeedStep] = deque()
        self._has_moved = False
        self._has_heard = False  # since the cursor was written
        self._written = self._asked = float("-inf")

    @property
    def next_attempt_at(self) -> int | None:
        return None if self._cursor is None else self._cursor.next_attempt_at

    def begin(self) -> None:
        """Create the cursor: from now on the listener misses nothing."""
        if self._cursors.find(self._name) is None:
            position = position_now(self._runtime, follows=self._follows, patience=BEGIN_PATIENCE)
            self._cursors.create(self._clock.now(), position.stored_in(EventCursor(self._name, 0, 0)))

    def step(self, is_late: Callable[[], bool]) -> bool:
        """Deliver what has happened, at most one portion; return True when there may be more."""
        cursor = self._cursor or self._take()
        if cursor is None:
            return False
        if cursor.next_attempt_at is not None and cursor.next_attempt_at > self._clock.now():
            self._write_in_time()
            return False
        if not self._pending:
            self._pending.extend(steps_after(self._runtime, self._position, limit=PORTION))
        is_full = len(self._pending) >= PORTION
        while self._pending and not is_late():
            if not self._tell(self._pending[0]):
                return False
        if self._has_heard:
            return self._write() and is_full
        return self._write_in_time() and is_full

    def release(self) -> None:
        """Give the cursor up: another node may continue at once."""
        if self._cursor is not None:
            self._cursor = self._cursor._replace(node=None, held_until=None)
            self._write(is_held=False)
        self._forget()

    def _take(self) -> EventCursor | None:
        moment = self._clock.monotonic()
        if moment - self._asked < TAKE_EVERY:
            return None
        self._asked = moment
        self.begin()  # it may be gone: somebody had it forgotten, or a backup was restored that is older
        now = self._clock.now()
        self._cursor = self._cursors.take(now, self._name, node=self._node(), held_until=now + HOLD)
        if self._cursor is not None:
            self._written = moment
            self._position = position_of(self._runtime, self._cursor, follows=self._follows)
        return self._cursor

    def _tell(self, step: FeedStep) -> bool:
        """Deliver one entry and move behind it; return False when the rest must wait."""
        entry = step.entry
        if entry is not None and facts_of(entry).type in self._listener.types:
            try:
                self._listener.call(entry)
            except NotDeliveredError:
                self.release()
                return False
            except BaseException as error:  # user code; sys.exit ends the call, never the thread
                return self._postpone(step, entry, error)
            self._has_heard = True
        return self._move_behind(step)

    def _move_behind(self, step: FeedStep) -> bool:
        assert self._cursor is not None
        self._pending.popleft()
        self._position.move_behind(step)
        self._has_moved = True
        if self._cursor.failing is not None:
            self._cursor = self._cursor._replace(
                failing=None, failures=0, next_attempt_at=None, last_error=None
            )
        return self._write_in_time()

    def _postpone(self, step: FeedStep, entry: FeedEntry, error: BaseException) -> bool:
        assert self._cursor is not None
        cursor = self._cursor
        tries = 1 + (cursor.failures if cursor.failing == step.key else 0)
        log_failure(self._listener, entry, error, tries)
        if tries >= MOST_TRIES:
            log.error(
                "listener %s skips %s after %d tries",
                self._name,
                described(entry),
                tries,
                extra=fields_of(entry),
            )
            self._has_heard = True
            return self._move_behind(step)
        self._cursor = cursor._replace(
            failing=step.key,
            failures=tries,
            next_attempt_at=self._clock.now() + pause_after(tries),
            last_error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR],
        )
        self._write()
        return False

    def _write_in_time(self) -> bool:
        """Write the cursor if that is due; return False when another node has it."""
        age = self._clock.monotonic() - self._written
        return self._write() if age >= (KEEP_EVERY if self._has_moved else RENEW_EVERY) else True

    def _write(self, *, is_held: bool = True) -> bool:
        assert self._cursor is not None
        now = self._clock.now()
        cursor = self._position.stored_in(self._cursor)
        if is_held:
            cursor = cursor._replace(held_until=now + HOLD)
        self._cursor = self._cursors.save(now, cursor)
        self._written = self._clock.monotonic()
        self._has_moved = self._has_heard = False
        if self._cursor is None:
            self._forget()
        return self._cursor is not None

    def _forget(self) -> None:
        self._cursor = None
        self._pending.clear()
        self._has_moved = self._has_heard = False


def log_failure(
    listener: EventListener, entry: FeedEntry, error: BaseException, tries: int | None = None
) -> None:
    """Log an exception of a listener with its traceback."""
    which = "" if tries is None else f", try {tries} of {MOST_TRIES}"
    log.error(
        "listener %s failed on %s%s: %s: %s",
        listener.name or listener.label,
        described(entry),
        which,
        type(error).__name__,
        error,
        exc_info=error,
        extra=fields_of(entry),
    )


def described(entry: FeedEntry) -> str:
    facts = facts_of(entry)
    about = facts.job_id or facts.schedule_id
    return facts.type if about is None else f"{facts.type} of {about}"


def fields_of(entry: FeedEntry) -> dict[str, object]:
    facts = facts_of(entry)
    return {
        "schedule_id": facts.schedule_id,
        "job_id": facts.job_id,
        "slot_at": optional_datetime(facts.slot_at),
    }
