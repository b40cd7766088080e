"""The runtime as a whole, as it is answered."""

from __future__ import annotations

from typing import Literal

from everwhen.model.instants import SECOND
from everwhen.model.node import Role
from everwhen.operations import system
from everwhen.views.breakers import Breaker
from everwhen.views.shape import View, When, each, field
from everwhen.views.values import Object, when_text


class Node(View):
    """One start of one process."""

    id: str = field("node")
    version: str
    role: Role
    is_alive: bool
    started_at: When
    heartbeat_at: When
    clock_skew: float = field(
        lambda node: node.clock_skew / SECOND, about="Its clock minus the database's, in seconds."
    )
    stopped_at: When | None
    lost_at: When | None


class Queue(View):
    queued: int = field(lambda counts: counts.jobs.get("queued", 0))
    running: int = field(lambda counts: counts.jobs.get("running", 0))


class Next(View):
    schedule_id: str
    next_run_at: When | None


class SystemStatus(View):
    """How everything stands. Figures of a loop are those of the process that answers; null where it has none."""

    status: Literal["running", "stopping", "stopped"]
    is_paused: bool = field(lambda found: found.paused_at is not None)
    paused_at: When | None
    started_at: When | None
    check_count: int | None
    trigger_count: int | None
    last_check_at: When | None
    unready: str | None = field(about="Why the process that answers is not ready; null when it is.")
    dispatch: str = field(
        about="Who runs jobs: local workers, which are nodes, or rq, celery, rq-chain, whose workers are nodes "
        "only while they run one."
    )
    lag: float = field(
        lambda found: found.lag / SECOND,
        about="For how many seconds the earliest due slot has been waiting.",
    )
    queue: Queue = field("counts", via=Queue.of)
    overdue: int = field(about="Schedules that are behind by more than a minute; at most 1,000 are counted.")
    held: int = field("counts.held", about="Slots that wait for a place, or for an opening.")
    schedules: dict[str, int] = field("counts.schedules", about="How many there are, by status.")
    breakers: list[Breaker] = field(via=each(Breaker.of), about="Those that are not closed.")
    next: Next | None = field("soonest", via=lambda schedule: Next.of(schedule.state))
    nodes: list[Node] = field(
        lambda found: [Node.of(node, is_alive=system.is_alive(node, found.now)) for node in found.nodes],
        about="Those of the last day, newest first.",
    )


class Switch(View):
    is_paused: bool
    paused_at: When | None


class Health(View):
    """One word, and a sentence where it is not the good one."""

    status: Literal["ok", "ready", "unready"]
    reason: str | None = field(is_optional=True, about="Why it is not ready.")


def status_to_json(
    found: system.SystemStatus, loop: system.LoopFigures | None, *, unready: str | None, dispatch: str
) -> Object:
    """Return how everything stands; `loop` has the figures of this process, None where it has no loop."""
    return SystemStatus.of(
        found,
        status=system.status_of(found) if loop is None else loop.status,
        started_at=None if loop is None else when_text(loop.started_at),
        check_count=None if loop is None else loop.check_count,
        trigger_count=None if loop is None else loop.trigger_count,
        last_check_at=None if loop is None else when_text(loop.last_check_at),
        unready=unready,
        dispatch=dispatch,
    )
