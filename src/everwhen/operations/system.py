"""The state of the runtime as a whole: what waits in it, which nodes are alive, what comes next."""

from __future__ import annotations

from dataclasses import dataclass

from everwhen.model.breaker import Breaker
from everwhen.model.instants import DAY, MINUTE
from everwhen.model.node import SILENT, Node
from everwhen.model.queries import Counts
from everwhen.model.schedule import Schedule
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

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
    store = store_of(runtime)
    now = runtime.clock.now()
    paused_at = store.catalogue.system_paused_at()
    soonest = store.catalogue.soonest(1)
    due_at = soonest[0].state.next_run_at if soonest else None
    waits = 0 if due_at is None or paused_at is not None else max(now - due_at, 0)
    return SystemStatus(
        now=now,
        paused_at=paused_at,
        lag=waits,
        overdue=_overdue(runtime, now) if waits > OVERDUE else 0,
        counts=store.ledger.counts(),
        nodes=_nodes(runtime, now),
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


def _overdue(runtime: Runtime, now: int) -> int:
    late = store_of(runtime).catalogue.soonest(MOST_OVERDUE)
    return sum((schedule.state.next_run_at or now) < now - OVERDUE for schedule in late)


def _nodes(runtime: Runtime, now: int) -> list[Node]:
    """Return the newest nodes first, as far as they sent a heartbeat within the last day."""
    heard_of = [node for node in store_of(runtime).upkeep.nodes() if now - node.heartbeat_at < SHOWN_FOR]
    return heard_of[: -MOST_NODES - 1 : -1]


def system_paused_at(runtime: Runtime) -> int | None:
    """Return since when the system is paused; None when it is not."""
    return store_of(runtime).catalogue.system_paused_at()


def next_wake_at(runtime: Runtime) -> int | None:
    """Return the earliest instant at which a slot is due, a held one is released, or a pause ends."""
    return store_of(runtime).slots.next_wake_at()
