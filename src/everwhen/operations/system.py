"""The runtime as a whole: its state and its nodes, and faults of the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from everwhen.errors import QueueError, StoreError, StoreFault
from everwhen.model.instants import DAY, MINUTE
from everwhen.model.limits import Breaker
from everwhen.model.node import SILENT, Node
from everwhen.model.queries import Counts
from everwhen.model.schedule import Schedule
from everwhen.model.vitals import Mark, Signs, Tally
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_NODES = 100
SHOWN_FOR = DAY  # how long a dead node is listed
OVERDUE = MINUTE
MOST_OVERDUE = 1_000


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """What the loop of this process has done since it started."""

    status: str
    started_at: int | None
    check_count: int
    trigger_count: int
    last_check_at: int | None


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """The state of the runtime. `lag`: how long the earliest due slot has been waiting; 0 when nothing waits."""

    now: int
    paused_at: int | None
    lag: int
    overdue: int  # schedules late by more than a minute, counted up to a limit
    counts: Counts
    nodes: list[Node]
    breakers: list[Breaker]  # those that are not closed
    soonest: Schedule | None


def system_status(runtime: Runtime) -> SystemStatus:
    store, now = store_of(runtime), runtime.clock.now()
    paused_at = store.catalogue.system_paused_at()
    soonest = store.catalogue.soonest(1)
    due_at = soonest[0].state.next_run_at if soonest else None
    waits = 0 if due_at is None or paused_at is not None else max(now - due_at, 0)
    late = store.catalogue.soonest(MOST_OVERDUE) if waits > OVERDUE else []
    heard_of = [node for node in store.upkeep.nodes() if now - node.heartbeat_at < SHOWN_FOR]
    return SystemStatus(
        now=now,
        paused_at=paused_at,
        lag=waits,
        overdue=sum((schedule.state.next_run_at or now) < now - OVERDUE for schedule in late),
        counts=store.ledger.counts(),
        nodes=heard_of[: -MOST_NODES - 1 : -1],  # the newest first
        breakers=[breaker for breaker in store.ledger.breakers() if breaker.state != "closed"],
        soonest=soonest[0] if soonest else None,
    )


def is_alive(node: Node, now: int) -> bool:
    """Return whether a node sent a heartbeat within the last minute, has not signed off and was not declared lost."""
    return node.stopped_at is None and node.lost_at is None and now - node.heartbeat_at < SILENT


def status_of(runtime: SystemStatus) -> str:
    """Return whether any node runs a scheduler."""
    is_running = any(node.is_scheduler and is_alive(node, runtime.now) for node in runtime.nodes)
    return "running" if is_running else "stopped"


def system_paused_at(runtime: Runtime) -> int | None:
    """Return since when the system is paused; None when it is not."""
    return store_of(runtime).catalogue.system_paused_at()


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
