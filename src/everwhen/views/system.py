"""The runtime as a whole, as it is answered."""

from __future__ import annotations

from everwhen.model.instants import SECOND
from everwhen.model.node import Node
from everwhen.operations import system
from everwhen.views.breakers import breaker_to_json
from everwhen.views.values import Object, when_text


def status_to_json(
    found: system.SystemStatus, loop: system.LoopFigures | None, *, unready: str | None, dispatch: str
) -> Object:
    """How everything stands; `loop` are the figures of the process that answers, None where it has no loop."""
    soonest = None if found.soonest is None else found.soonest.state
    return {
        "status": system.status_of(found) if loop is None else loop.status,
        "is_paused": found.paused_at is not None,
        "paused_at": when_text(found.paused_at),
        "started_at": when_text(None if loop is None else loop.started_at),
        "check_count": None if loop is None else loop.check_count,
        "trigger_count": None if loop is None else loop.trigger_count,
        "last_check_at": when_text(None if loop is None else loop.last_check_at),
        "unready": unready,
        "dispatch": dispatch,
        "lag": found.lag / SECOND,
        "queue": {
            "queued": found.counts.jobs.get("queued", 0),
            "running": found.counts.jobs.get("running", 0),
        },
        "overdue": found.overdue,
        "held": found.counts.held,
        "schedules": found.counts.schedules,
        "breakers": [breaker_to_json(breaker) for breaker in found.breakers],
        "next": None
        if soonest is None
        else {"schedule_id": soonest.schedule_id, "next_run_at": when_text(soonest.next_run_at)},
        "nodes": [_node_to_json(node, found.now) for node in found.nodes],
    }


def _node_to_json(node: Node, now: int) -> Object:
    return {
        "id": node.node,
        "version": node.version,
        "role": node.role,
        "is_alive": system.is_alive(node, now),
        "started_at": when_text(node.started_at),
        "heartbeat_at": when_text(node.heartbeat_at),
        "clock_skew": node.clock_skew / SECOND,
        "stopped_at": when_text(node.stopped_at),
        "lost_at": when_text(node.lost_at),
    }
