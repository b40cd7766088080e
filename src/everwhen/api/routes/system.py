"""The runtime as a whole: how it stands, and the switch that stops everything."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from everwhen.api.access import GlobalOperator, GlobalViewer
from everwhen.api.calls import Context, answer, responses
from everwhen.api.context import ApiContext
from everwhen.api.payloads import Shape, When
from everwhen.api.request_guard import ROOT
from everwhen.api.routes.breakers import Breaker
from everwhen.model.node import Role
from everwhen.operations import schedules, system
from everwhen.operations.system import system_paused_at
from everwhen.views.system import status_to_json
from everwhen.views.values import when_text

router = APIRouter(prefix=ROOT, tags=["system"])


class Node(Shape):
    """One start of one process."""

    id: str
    version: str
    role: Role
    is_alive: bool
    started_at: When
    heartbeat_at: When
    clock_skew: float = Field(description="Its clock minus the database's, in seconds.")
    stopped_at: When | None
    lost_at: When | None


class Queue(Shape):
    queued: int
    running: int


class Next(Shape):
    schedule_id: str
    next_run_at: When | None


class SystemStatus(Shape):
    """How everything stands. Figures of a loop are those of the process that answers; null where it has none."""

    status: Literal["running", "stopping", "stopped"]
    is_paused: bool
    paused_at: When | None
    started_at: When | None
    check_count: int | None
    trigger_count: int | None
    last_check_at: When | None
    unready: str | None = Field(description="Why the process that answers is not ready; null when it is.")
    dispatch: str = Field(
        description="Who runs jobs: local workers, which are nodes, or rq, celery, rq-chain, whose workers are nodes "
        "only while they run one."
    )
    lag: float = Field(description="For how many seconds the earliest due slot has been waiting.")
    queue: Queue
    overdue: int = Field(
        description="Schedules that are behind by more than a minute; at most 1,000 are counted."
    )
    held: int = Field(description="Slots that wait for a place, or for an opening.")
    schedules: dict[str, int] = Field(description="How many there are, by status.")
    breakers: list[Breaker] = Field(description="Those that are not closed.")
    next: Next | None
    nodes: list[Node] = Field(description="Those of the last day, newest first.")


class Switch(Shape):
    is_paused: bool
    paused_at: When | None


@router.get(
    "/system/status/",
    summary="How everything stands",
    response_model=None,
    responses=responses(SystemStatus, "Loop, queue, nodes, breakers."),
)
def status(context: Context, _caller: GlobalViewer) -> Response:
    """Of the whole runtime, so for tokens without an owner."""
    found = system.system_status(context.runtime)
    node = context.node_hooks
    loop = None if node.figures is None else node.figures()
    unready = None if context.unready is None else context.unready()
    return answer(status_to_json(found, loop, unready=unready, dispatch=node.dispatch))


@router.post(
    "/system/pause/",
    summary="Stop everything",
    response_model=None,
    responses=responses(Switch, "Nothing fires, nothing is claimed."),
)
def pause(context: Context, caller: GlobalOperator) -> Response:
    """What runs goes on. One that is paused stays so, since when it is."""
    schedules.pause_system(context.runtime, by=caller.actor)
    return _switch(context)


@router.post(
    "/system/resume/",
    summary="Go on",
    response_model=None,
    responses=responses(Switch, "It goes on."),
)
def resume(context: Context, caller: GlobalOperator) -> Response:
    """What lay in the pause does not fire any more."""
    schedules.resume_system(context.runtime, by=caller.actor)
    return _switch(context)


def _switch(context: ApiContext) -> Response:
    paused_at = system_paused_at(context.runtime)
    return answer({"is_paused": paused_at is not None, "paused_at": when_text(paused_at)})
