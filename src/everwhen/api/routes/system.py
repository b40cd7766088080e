"""The runtime as a whole: its state, the switch that stops everything, breakers, its file, health and metrics.

Health and metrics need no token: they contain counts only.
"""

from __future__ import annotations

from typing import Annotated, NoReturn

from fastapi import Path, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.access import (
    AuthenticatedRoute,
    GlobalAdmin,
    GlobalOperator,
    GlobalViewer,
    Operator,
    Viewer,
)
from everwhen.api.calls import Context, answer, described, make_router
from everwhen.api.context import ApiContext
from everwhen.api.costs import cheap, expensive
from everwhen.api.payloads import Shape, model_of
from everwhen.api.problems import RefusedError
from everwhen.model.limits import BreakerState
from everwhen.operations import breakers, budgets, schedules, system
from everwhen.operations.access import Caller, complete_schedules, find_schedules
from everwhen.operations.apply import changed_sections
from everwhen.operations.diff import diff
from everwhen.operations.system import find_system_pause
from everwhen.views import system as view
from everwhen.views.shape import list_to_json, when_text
from everwhen.views.terms import Terms, terms_to_json

router = make_router("system")
breakers_router = make_router("breakers")
config_router = make_router("configuration", route_class=AuthenticatedRoute)
health_router = make_router("health", prefix="")
_FRESH = {"cache-control": "no-store"}


@router.get(
    "/system/status/",
    **described("Show the status of the system", view.SystemStatus, "Loop, queue, nodes, breakers."),
)
@cheap
def get_system_status(context: Context, caller: GlobalViewer) -> Response:
    """The status covers the whole service, so the token must have no owner."""
    found = system.system_status(context.runtime, caller)
    node = context.node_hooks
    loop = None if node.figures is None else node.figures()
    unready = None if context.unready is None else context.unready()
    broker = None if node.broker is None else node.broker()
    return answer(view.status_to_json(found, loop, unready=unready, dispatch=node.dispatch, broker=broker))


@router.get(
    "/terms/", **described("Show the words of schedules", Terms, "The keys, their words, and the reasons.")
)
@cheap
def get_terms(context: Context, _caller: Viewer) -> Response:
    """What a page needs to show schedules in words; it changes with the release only."""
    return answer(terms_to_json())


@router.post(
    "/system/pause/", **described("Pause the whole system", view.Switch, "Nothing fires, nothing is claimed.")
)
@cheap
def pause_system(context: Context, caller: GlobalOperator) -> Response:
    """Running jobs continue. A system that is paused already stays paused."""
    schedules.pause_system(context.runtime, by=caller.actor)
    return _switch(context)


@router.post("/system/resume/", **described("Resume the system", view.Switch, "The system runs again."))
@cheap
def resume_system(context: Context, caller: GlobalOperator) -> Response:
    """Slots that were due during the pause do not fire."""
    schedules.resume_system(context.runtime, by=caller.actor)
    return _switch(context)


def _switch(context: ApiContext) -> Response:
    pause = find_system_pause(context.runtime)
    at, name = (None, None) if pause is None else (pause.at, pause.name)
    switch = {"is_paused": pause is not None, "paused_at": when_text(at), "paused_by_name": name}
    return answer(view.Switch.made(**switch))


# -- what a person means by a name --

_MEANT = {"max_length": 300, "pattern": r"^[^\x00]*$"}
MeantSchedule = Annotated[str, Query(description="An id, a key or a name.", examples=["report"], **_MEANT)]
Beginning = Annotated[str | None, Query(description="The first letters of an id or a key.", **_MEANT)]


@router.get(
    "/find/",
    **described("Find a schedule by id, key or name", view.ScheduleNames, "More than one: it is ambiguous."),
)
@expensive(5)
def find_schedule(
    context: Context, caller: Viewer, schedule: MeantSchedule = "", beginning: Beginning = None
) -> Response:
    """Return the schedule with this id, or else with this key, or else all with exactly this name (at most 20).

    With `beginning`: schedules whose id or key begins with it (at most 200), for shells that complete a word.
    """
    if beginning is not None:
        found = complete_schedules(context.runtime, beginning, caller)
    else:
        found = find_schedules(context.runtime, schedule, caller)
    return answer(list_to_json([view.ScheduleName.of(names) for names in found]))


# -- circuit breakers: how they stand, how they came there, and closing one by hand --


_KEY = "{plugin}:{command}, or the name of an agent or workflow, or the id of a schedule."
BreakerKey = Annotated[
    str, Path(max_length=300, pattern=r"^[^\x00]+$", description=_KEY, examples=["withings:poll"])
]
LATEST = 20  # transitions
Transitions = Annotated[int, Query(ge=1, le=500, description="How many transitions at most.")]


@breakers_router.get("/breakers/", **described("List breakers", view.BreakerList, "All."))
@expensive(5)
def list_breakers(context: Context, caller: Viewer, state: BreakerState | None = None) -> Response:
    """Sorted by key; only breakers that have counted a failure."""
    found = breakers.list_breakers(context.runtime, caller)
    shown = [breaker for breaker in found if state in (None, breaker.state)]
    probe_times = breakers.probe_times(context.runtime, shown)
    return answer(list_to_json([view.breaker_to_json(breaker, probe_times) for breaker in shown]))


@breakers_router.get(
    "/breakers/{key}/",
    **described("Get a breaker", view.BreakerWithTransitions, "The breaker and its latest transitions.", 404),
)
@cheap
def get_breaker(context: Context, caller: Viewer, key: BreakerKey, limit: Transitions = LATEST) -> Response:
    """One that never moved is closed."""
    return _shown_breaker(context, caller, key, limit)


def _shown_breaker(context: ApiContext, caller: Caller, key: str, limit: int) -> Response:
    breaker, transitions = breakers.find_breaker(context.runtime, key, caller, limit=limit)
    probe_times = breakers.probe_times(context.runtime, [breaker])
    return answer(view.breaker_with_transitions(breaker, transitions, probe_times))


@breakers_router.post(
    "/breakers/{key}/reset/",
    **described("Close a breaker by hand", view.BreakerWithTransitions, "The breaker, closed.", 404),
)
@cheap
def reset_breaker(context: Context, caller: Operator, key: BreakerKey) -> Response:
    """The schedules that it stopped fire again. A closed breaker stays closed."""
    breakers.find_breaker(context.runtime, key, caller, limit=1)
    breakers.reset_breaker(context.runtime, key, actor=caller.actor)
    return _shown_breaker(context, caller, key, LATEST)


# -- budgets: how much of them is used --


@breakers_router.get("/budgets/", **described("List budgets", view.BudgetList, "All that the token may see."))
@expensive(5)
def list_budgets(
    context: Context,
    caller: Viewer,
    binding: Annotated[bool, Query(description="Only those that bind what this token causes.")] = False,
) -> Response:
    """Those of groups and owners by name, as the configuration declares them, then those of tokens."""
    found = budgets.list_budgets(context.runtime, caller, is_binding=binding)
    return answer(list_to_json([view.Budget.of(one) for one in found]))


# -- the configuration file of this process --


class ReloadBody(Shape):
    """How much may go."""

    yes: bool = Field(default=False, description="Remove schedules even when they are more than half of all.")


@config_router.post(
    "/config/diff/",
    **described(
        "What a reload would change", view.Diff, "By schedule, with the firings of the next 7 days.", 409
    ),
)
@expensive(200)
def diff_config(context: Context, caller: GlobalAdmin) -> Response:
    """Nothing is stored. A file with mistakes is refused, with a list of them."""
    if context.node_hooks.read is None:
        _refuse()
    declared = context.node_hooks.read()
    changes, sections = diff(context.runtime, declared), changed_sections(context.runtime, declared)
    return answer(view.diff_to_json(changes, sections))


@config_router.post(
    "/config/reload/", **described("Reload the configuration file", view.Reloaded, "What it changed.", 409)
)
@expensive(200)
def reload_config(context: Context, caller: GlobalAdmin, body: ReloadBody | None = None) -> Response:
    """Whole, between two evaluations; one with mistakes is refused, and nothing changes."""
    if context.node_hooks.reload is None:
        _refuse()
    applied = context.node_hooks.reload(caller.actor or "", may_remove_most=(body or ReloadBody()).yes)
    return answer(view.Reloaded.of(applied))


def _refuse() -> NoReturn:
    raise RefusedError(409, "This process has no configuration file; reload where the scheduler runs.")


# -- health --


@health_router.get(
    "/healthz",
    summary="Check liveness",
    response_model=None,
    responses={200: {"model": model_of(view.Health), "description": "It answers."}},
)
@cheap
async def get_health() -> Response:
    """The database is not checked: a restart of the process would not bring it back."""
    return answer(view.health_to_json("ok", None), headers=_FRESH)


@health_router.get(
    "/readyz",
    summary="Check readiness",
    response_model=None,
    responses={
        200: {
            "model": model_of(view.Health),
            "description": "The loop evaluates, nothing is overdue, and the database answers.",
        },
        503: {"model": model_of(view.Health), "description": "It does not; `reason` says why."},
    },
)
@cheap
async def get_readiness(context: Context) -> Response:
    """Not ready when the loop has completed no evaluation for ten check intervals, or a schedule is overdue."""
    reason = await context.readiness.reason()
    detail = await context.readiness.detail() if reason is None else None
    status = "ready" if reason is None else "unready"
    fields = view.health_to_json(status, reason, detail)
    return answer(fields, 200 if reason is None else 503, _FRESH)


@health_router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_model=None,
    responses={200: {"description": "In the requested format.", "content": {"text/plain": {}}}},
)
@cheap
def get_metrics(context: Context, request: Request) -> Response:
    """Counts of the whole database, and figures of this process; requests at the same time share one count."""
    text, media_type = context.metrics.text(request.headers.get("accept", ""))
    return Response(text, headers={**_FRESH, "content-type": media_type})
