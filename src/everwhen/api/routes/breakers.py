"""Circuit breakers: how they stand, how they came there, and closing one by hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from everwhen.api.access import Operator, Viewer
from everwhen.api.calls import Context, answer, described
from everwhen.api.request_guard import ROOT
from everwhen.model.limits import BreakerState
from everwhen.operations import breakers
from everwhen.views.system import Breaker, BreakerList, BreakerWithTransitions, breaker_with_transitions
from everwhen.views.values import list_to_json

router = APIRouter(prefix=ROOT, tags=["breakers"])
BreakerKey = Annotated[
    str,
    Path(
        max_length=300,
        pattern=r"^[^\x00]+$",
        description="{plugin}:{command}, or the name of an agent or workflow, or the id of a schedule.",
        examples=["withings:poll"],
    ),
]
Transitions = Annotated[int, Query(ge=1, le=500, description="How many transitions at most.")]


@router.get("/breakers/", **described("List breakers", BreakerList, "All."))
def list_breakers(context: Context, caller: Viewer, state: BreakerState | None = None) -> Response:
    """By key, those that ever counted a failure."""
    found = breakers.list_breakers(context.runtime, caller)
    items = [Breaker.of(breaker) for breaker in found if state in (None, breaker.state)]
    return answer(list_to_json(items))


@router.get(
    "/breakers/{key}/",
    **described("Look at a breaker", BreakerWithTransitions, "How it stands, and its latest changes.", 404),
)
def get_breaker(context: Context, caller: Viewer, key: BreakerKey, limit: Transitions = 20) -> Response:
    """One that never moved is closed."""
    breaker, transitions = breakers.find_breaker(context.runtime, key, caller, limit=limit)
    return answer(breaker_with_transitions(breaker, transitions))


@router.post(
    "/breakers/{key}/reset/",
    **described("Close a breaker by hand", BreakerWithTransitions, "The breaker, closed.", 404),
)
def reset_breaker(context: Context, caller: Operator, key: BreakerKey) -> Response:
    """What it held back goes on. One that is closed stays so."""
    breakers.find_breaker(context.runtime, key, caller, limit=1)
    breakers.reset_breaker(context.runtime, key, actor=caller.actor)
    return get_breaker(context, caller, key)
