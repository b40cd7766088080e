"""The runtime as a whole: its state and its nodes, and faults of the database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import NamedTuple

from everwhen.errors import QueueError, StoreError, StoreFault
from everwhen.model.events import Hold
from everwhen.model.host_fault import MEANINGS
from everwhen.model.instants import DAY, MINUTE, SECOND
from everwhen.model.limits import Breaker
from everwhen.model.node import SILENT, Node
from everwhen.model.pause import Pause
from everwhen.model.queries import AlertFilter, Counts, ScheduleFilter
from everwhen.model.queue import RQ_CHAIN
from everwhen.model.schedule import Schedule
from everwhen.model.vitals import FeedDelay, Holder, Mark, Signs, Tally
from everwhen.operations.access import COUNTED, Caller
from everwhen.operations.breakers import probe_times
from everwhen.operations.budgets import BudgetUsage, list_spent_budgets
from everwhen.operations.labels import labels_of
from everwhen.runtime import DatabaseKind, Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.describe import describe_seconds

MOST_NODES = 100
SHOWN_FOR = DAY  # how long a dead node is listed
OVERDUE = MINUTE
MOST_OVERDUE = 1_000
MOST_NAMED = 10  # late schedules, held slots
MOST_HOLDERS = 100
MOST_SKEW = 2 * SECOND
LEAST_DISK = 5  # percent
LATE = 5 * SECOND  # of lag that an operator should see


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """What the loop of this process has done since it started."""

    status: str
    started_at: int | None
    check_count: int
    trigger_count: int
    last_check_at: int | None


class HeldSlot(NamedTuple):
    """A slot that waits, and the jobs that have the places that it waits for."""

    hold: Hold
    by: list[Holder]
    timezone: str | None = None  # of its schedule


class Disk(NamedTuple):
    """The disk of the database, where it is on this machine."""

    free: int  # bytes
    total: int

    @property
    def free_percent(self) -> int:
        return 100 * self.free // max(self.total, 1)


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """The state of the runtime. `lag`: how long the earliest due slot has been waiting; 0 when nothing waits."""

    now: int
    paused_at: int | None
    pause: Pause | None  # of the system
    lag: int
    overdue: int  # schedules late by more than a minute, counted up to a limit
    counts: Counts
    nodes: list[Node]
    breakers: list[Breaker]  # those that are not closed
    probe_times: Mapping[str, int]  # of those that are open, by key
    soonest: Schedule | None
    late: list[Schedule] = dataclass_field(default_factory=list)  # some of those that are overdue
    holds: list[HeldSlot] = dataclass_field(default_factory=list)  # some of those that are held
    last_backup_at: int | None = None
    database: DatabaseKind | None = None
    disk: Disk | None = None
    feed_delay: FeedDelay | None = None
    waiting: int = 0  # schedules that wait for approval, counted up to a limit
    open_alerts: int = 0
    unanswered_alerts: int = 0  # of the open ones
    spent_budgets: list[BudgetUsage] = dataclass_field(default_factory=list)


def system_status(runtime: Runtime, caller: Caller | None = None) -> SystemStatus:
    """Return the status; of budgets what the caller may see, or all of them."""
    store, now = store_of(runtime), runtime.clock.now()
    paused_at = store.catalogue.system_paused_at()
    soonest = store.catalogue.soonest(1)
    due_at = soonest[0].state.next_run_at if soonest else None
    waits = 0 if due_at is None or paused_at is not None else max(now - due_at, 0)
    late = store.catalogue.soonest(MOST_OVERDUE) if waits > OVERDUE else []
    overdue = [schedule for schedule in late if (schedule.state.next_run_at or now) < now - OVERDUE]
    counts = store.ledger.counts()
    breakers = [breaker for breaker in store.ledger.breakers() if breaker.state != "closed"]
    heard_of = [node for node in store.upkeep.nodes() if now - node.heartbeat_at < SHOWN_FOR]
    return SystemStatus(
        now=now,
        paused_at=paused_at,
        pause=None if paused_at is None else store.labels.system_pause(),
        lag=waits,
        overdue=len(overdue),
        counts=counts,
        nodes=heard_of[: -MOST_NODES - 1 : -1],  # the newest first
        breakers=breakers,
        probe_times=probe_times(runtime, breakers),
        soonest=soonest[0] if soonest else None,
        late=overdue[:MOST_NAMED],
        holds=_held_slots(runtime) if counts.held else [],
        last_backup_at=store.upkeep.last_backup_at(),
        database=runtime.database_kind,
        disk=_disk_of(runtime.directory),
        feed_delay=store.feed_delays.look(),
        waiting=store.catalogue.count(ScheduleFilter(is_waiting=True), most=COUNTED),
        open_alerts=store.alerts.count(AlertFilter("open"), most=COUNTED),
        unanswered_alerts=store.alerts.count_unanswered(now, most=COUNTED),
        spent_budgets=list_spent_budgets(runtime, caller),
    )


def feed_delay(runtime: Runtime) -> FeedDelay | None:
    """Return what has delayed the event feed for half a minute; None when nothing does."""
    return store_of(runtime).feed_delays.look()


def _held_slots(runtime: Runtime) -> list[HeldSlot]:
    firings = store_of(runtime).firings
    holds = firings.holds(limit=MOST_NAMED)
    keys = {hold.key for hold in holds if hold.key is not None}
    holders = firings.holders(keys, limit=MOST_HOLDERS) if keys else []
    labels = labels_of(runtime, (hold.uid for hold in holds))
    return [
        HeldSlot(
            hold,
            [one for one in holders if hold.key in (one.guard_key, one.capacity_key)] if hold.key else [],
            labels[hold.uid].timezone if hold.uid in labels else None,
        )
        for hold in holds
    ]


def _disk_of(directory: str | None) -> Disk | None:
    if directory is None:
        return None
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def list_problems(
    found: SystemStatus, *, unready: str | None, dispatch: str, broker: str | None
) -> list[str]:
    """Return a sentence for everything that is wrong, the worst first; none while the system is paused on purpose.

    `unready`: why this process is not ready; `broker`: why the queue's broker does not answer.
    """
    problems = [] if found.paused_at is not None else _problems_of_nodes(found, unready, dispatch)
    if broker is not None:
        problems.append(f"the broker of {dispatch} does not answer: {broker}")
    problems += [
        f"node {node.node} can begin no jobs: {MEANINGS[node.unfit]}; it claims none, and tries again"
        for node in found.nodes
        if is_alive(node, found.now) and node.unfit is not None
    ]
    if found.disk is not None and found.disk.free_percent < LEAST_DISK:
        problems.append(f"the disk of the database is nearly full: {found.disk.free_percent} % is free")
    if found.feed_delay is not None:
        problems.append(str(found.feed_delay))
    problems += [
        f"the clock of node {node.node} is {abs(node.clock_skew) / SECOND:.1f} s "
        f"{'ahead of' if node.clock_skew > 0 else 'behind'} the database's"
        for node in found.nodes
        if is_alive(node, found.now) and abs(node.clock_skew) > MOST_SKEW
    ]
    problems += [
        f"the circuit breaker {breaker.key} is open: its slots are skipped; see everwhen system breaker {breaker.key}"
        for breaker in found.breakers
        if breaker.state == "open"
    ]
    for status in ("invalid", "dead"):
        if count := found.counts.schedules.get(status, 0):
            noun = "1 schedule is" if count == 1 else f"{count:,} schedules are"
            problems.append(f"{noun} {status}; see everwhen schedules list --status {status}")
    return problems


def _problems_of_nodes(found: SystemStatus, unready: str | None, dispatch: str) -> list[str]:
    """Return what keeps slots from firing and jobs from running, and by how much they are late."""
    alive = [node for node in found.nodes if is_alive(node, found.now)]
    problems = []
    if unready is not None:
        problems.append(f"not ready: {unready}")
    if dispatch != RQ_CHAIN and not any(node.is_scheduler for node in alive):
        problems.append("no scheduler is running: nothing fires; start one with everwhen up")
    # Workers of a queue are nodes only while they run a job; only the queue knows about idle ones.
    elif dispatch == "local" and not any(node.role in ("up", "worker") for node in alive):
        problems.append(
            "no worker is running: slots fire, and their jobs wait; start one with everwhen worker"
        )
    if found.overdue or found.lag > LATE:
        many = f": {found.overdue:,} schedules are overdue" if found.overdue > 1 else ""
        problems.append(f"late by {describe_seconds(max(found.lag // SECOND, 1))}{many}")
    return problems


def is_alive(node: Node, now: int) -> bool:
    """Return whether a node sent a heartbeat within the last minute, has not signed off and was not declared lost."""
    return node.stopped_at is None and node.lost_at is None and now - node.heartbeat_at < SILENT


def status_of(runtime: SystemStatus) -> str:
    """Return whether any node runs a scheduler."""
    is_running = any(node.is_scheduler and is_alive(node, runtime.now) for node in runtime.nodes)
    return "running" if is_running else "stopped"


def find_system_pause(runtime: Runtime) -> Pause | None:
    """Return since when the system is paused, and by whom; None when it is not."""
    store = store_of(runtime)
    paused_at = store.catalogue.system_paused_at()
    return None if paused_at is None else store.labels.system_pause() or Pause(None, at=paused_at)


def next_wake_at(runtime: Runtime) -> int | None:
    """Return the earliest instant at which a slot is due, a held one is released, or a pause ends."""
    return store_of(runtime).slots.next_wake_at()


DATABASE_IS_SILENT = "the database does not answer"

_CHOICES: Mapping[StoreFault, str] = {
    "locked": "the database is locked by another program",
    "full": "the disk of the database is full",
    "read_only": "the database is read-only",
    "away": "the database is away",
    "moved": "the database was moved with `everwhen db copy`",
}


def describe_fault(error: BaseException) -> str:
    """Describe the cause of a failed step, as far as it is known.

    >>> describe_fault(StoreError("postgresql://db.internal/app refused a statement", fault="read_only"))
    'the database is read-only'
    """
    match error:
        case StoreError():
            return _CHOICES[error.fault] if error.fault is not None else DATABASE_IS_SILENT
        case QueueError():
            return "the broker does not answer"
        case _:
            return f"an error in everwhen ({type(error).__name__})"


class Condition(NamedTuple):
    """The condition of a database, and by how many microseconds its earliest slot is late; 0 while it is paused."""

    signs: Signs
    lag: int
    last_heartbeat_at: int | None


def start_of_count(runtime: Runtime) -> tuple[Mark, Mapping[str, int]]:
    """Return the current position, at which counting may begin, and the skips gathered on rows there, by reason."""
    return store_of(runtime).vitals.start()


def tally_since(runtime: Runtime, mark: Mark) -> Tally:
    """Count what was committed since; consecutive tallies count each event and each firing once."""
    return store_of(runtime).vitals.tally(mark)


def current_condition(runtime: Runtime, *, overdue_after: int, most_overdue: int) -> Condition:
    """Return the current condition; overdue are slots that are late by more than `overdue_after`."""
    store, now = store_of(runtime), runtime.clock.now()
    signs = store.vitals.signs(now - overdue_after, most_overdue=most_overdue)
    wake_at = store.slots.next_wake_at()
    lag = 0 if wake_at is None else max(now - wake_at, 0)
    if signs.is_paused:  # nothing may fire, so nothing is late
        signs, lag = signs._replace(overdue=0), 0
    return Condition(signs, lag, store.slots.last_heartbeat_at())
