"""What a call costs: declared where it is defined, like its role, and known before its work begins.

A unit is about a millisecond of a processor, measured with 1,000 and with 10,000 schedules. The estimate is made from
the arguments, and from how many schedules the caller sees. Every call takes its turn by the share of its token
(`shares`); one that is cheap by its estimate does so like one that is declared cheap. Those with an estimate give way
while they work.

`tests/api/test_shares.py` finds a call that declares nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from anyio.to_thread import run_sync
from starlette.responses import Response

from everwhen.api.connections import is_for_nobody
from everwhen.api.context import ApiContext, context_of
from everwhen.api.problems import RefusedError
from everwhen.api.rates import Asker
from everwhen.api.shares import ANONYMOUS
from everwhen.engine.loop import low_priority
from everwhen.operations.access import Caller

Arguments = Mapping[str, Any]
Estimate = Callable[[Arguments, int], float]
"""Return the cost of a call with these arguments by a caller that sees so many schedules."""
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

CHEAP = 0.0
_declared: dict[Callable[..., Any], float | Estimate] = {}


def cheap(endpoint: Endpoint) -> Endpoint:
    """Declare that a call costs little, whatever its arguments are."""
    if iscoroutinefunction(endpoint):  # it does nothing on a thread, or leaves that to others
        _declared[endpoint] = CHEAP
        return endpoint

    @wraps(endpoint)
    async def take_turn(**arguments: Any) -> Response:
        shares, asker = _context_in(arguments).shares, _asker_in(arguments)
        async with shares.admit(asker, CHEAP):
            _refuse_absent()
            response: Response = await run_sync(partial(endpoint, **arguments))
        shares.charge_answer(asker, len(response.body))
        return response

    _declared[take_turn] = CHEAP
    return cast("Endpoint", take_turn)


def _refuse_absent() -> None:
    """Do nothing for a client that has left while it waited for its turn."""
    if is_for_nobody():
        raise RefusedError(408, "The client left before it was its turn.")


def _context_in(arguments: Arguments) -> ApiContext:
    context: ApiContext | None = arguments.get("context")
    return context_of(arguments["request"]) if context is None else context


def _asker_in(arguments: Arguments) -> Asker:
    """Return the token of a call; where it has another proof or needs none, what stands for all those."""
    callers = (argument.token for argument in arguments.values() if isinstance(argument, Caller))
    return next(callers, ANONYMOUS)


def expensive(
    estimate: float | Estimate,
) -> Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]:
    """Declare what a call costs at most, or how that is estimated; it is done by the share of its token."""

    def declare(endpoint: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(endpoint)
        async def take_turn(**arguments: Any) -> Response:
            context: ApiContext = arguments["context"]
            caller: Caller = arguments["caller"]
            cost = estimate
            if callable(cost):
                cost = cost(arguments, await context.count_schedules(caller.token.owner))
            try:
                async with context.shares.admit(caller.token, cost):
                    _refuse_absent()
                    response = await run_sync(partial(_give_way, endpoint, **arguments))
            except RefusedError as error:
                if error.status == 429:
                    context.charge_refusal(caller.token.token_id)
                raise
            context.shares.charge_answer(caller.token, len(response.body))
            return response

        _declared[take_turn] = estimate
        return take_turn

    return declare


def declared_cost(endpoint: Callable[..., Any]) -> float | Estimate | None:
    """Return what a call declares; None when it declares nothing."""
    return _declared.get(endpoint)


def _give_way(endpoint: Callable[..., Response], **arguments: Any) -> Response:
    with low_priority():
        return endpoint(**arguments)


# -- estimates --

PAGE = 30  # items of a page that cost a unit
SCANNED = 1_500  # rows that are looked at for a unit
SKIPPED = 20_000  # rows of an offset
MOST_SLOTS = 10_000  # that a timeline lists
STRETCHES = 200  # in which it counts all of them


def page_cost(arguments: Arguments, _schedules: int) -> float:
    """Estimate a page of a list with an index."""
    return float(arguments["limit"] / PAGE + (arguments.get("offset") or 0) / SKIPPED)


def job_page_cost(arguments: Arguments, schedules: int) -> float:
    """Estimate a page of jobs, whose total is counted up to a bound."""
    return 3 + page_cost(arguments, schedules)


def event_page_cost(arguments: Arguments, schedules: int) -> float:
    """Estimate a page of the audit, which merges events with firings, and counts them up to a bound.

    A search by name looks at all schedules, and at those that were deleted: taken to be as many.
    """
    search = 2 * schedules / SCANNED if arguments["q"] else 0
    return 20 + search + page_cost(arguments, schedules)


def schedule_page_cost(arguments: Arguments, schedules: int) -> float:
    """Estimate a page of schedules: its filters and counts may look at all of them."""
    scans = len(arguments["facets"]) + sum(
        arguments[name] not in (None, False) for name in ("q", "sort", "failing", "running", "held", "recent")
    )
    return float(page_cost(arguments, schedules) + scans * schedules / SCANNED)


def timeline_cost(arguments: Arguments, schedules: int) -> float:
    """Estimate a span of time: each schedule is read, its slots are counted by stretches, and so many are listed."""
    minutes = max((arguments["to"] - arguments["from_"]).total_seconds() / 60, 0)
    stretch = arguments["stretch"]
    stretches = STRETCHES if stretch is None else minutes * 60 / stretch
    # There are no more slots to count in a stretch than a schedule has there, on average one in ten minutes.
    counted = schedules * min(minutes / 10, stretches)
    listed = min(minutes * schedules, MOST_SLOTS)
    return float(5 + schedules / 150 + counted / 3_000 + listed / 250)


def slots_cost(arguments: Arguments, _schedules: int) -> float:
    """Estimate so many slots that are computed from calendars."""
    return float(arguments["limit"] / 50)


def statistics_cost(arguments: Arguments, _schedules: int) -> float:
    """Estimate the figures of the last 1,000 jobs, and of so many days."""
    return float(6 + arguments["points"] / 200 + arguments["days"] / 20)


def many_ids_cost(arguments: Arguments, _schedules: int) -> float:
    """Estimate a change of each of many schedules."""
    return float(len(arguments["body"].schedule_ids) / 5)


def many_bodies_cost(arguments: Arguments, _schedules: int) -> float:
    """Estimate new schedules in one body; those of lines are made in portions, each at its turn."""
    return 0.0 if arguments["body"] is None else float(len(arguments["body"].raw) / 2_000)
