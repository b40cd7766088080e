"""The timeline: past and future of all schedules, or of those that match."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from everwhen.api.access import Viewer
from everwhen.api.calls import Context, StatusWord, Word, answer, described, make_router
from everwhen.api.costs import expensive, timeline_cost
from everwhen.api.payloads import AwareInstant
from everwhen.api.routes.schedules import state_filter
from everwhen.model.instants import SECOND, instant_of
from everwhen.operations.access import visible_to
from everwhen.operations.timeline import MOST_ROWS, TimelineQuery, timeline
from everwhen.views import timeline as view

router = make_router("history")


@router.get(
    "/timeline/", **described("Show past and future slots", view.Timeline, "Bars, or how many there are.")
)
@expensive(timeline_cost)
def get_timeline(
    context: Context,
    caller: Viewer,
    from_: Annotated[AwareInstant, Query(alias="from", description="The start of the time span.")],
    to: Annotated[
        AwareInstant,
        Query(description="The end of the time span, exclusive; at most 400 days after the start."),
    ],
    status: Annotated[StatusWord | None, Query(description="Only schedules with this status.")] = None,
    group: Word = None,
    type: Word = None,
    target: Word = None,
    owner: Word = None,
    q: Annotated[Word, Query(description="A text that the id or the name contains.")] = None,
    failing: Annotated[bool, Query(description="Only schedules whose last slot failed.")] = False,
    running: Annotated[bool, Query(description="Only schedules that run a job.")] = False,
    held: Annotated[bool, Query(description="Only schedules that hold a slot.")] = False,
    rows: Annotated[int, Query(ge=0, le=MOST_ROWS, description="The number of schedules in `rows`.")] = 0,
    stretch: Annotated[
        int | None,
        Query(ge=1, le=86_400 * 400, description="Also count bars in stretches of this many seconds."),
    ] = None,
    rare: Annotated[
        int | None,
        Query(
            ge=0,
            le=1_000,
            description="Schedules with more bars than this in the time span are only counted.",
        ),
    ] = None,
) -> Response:
    """All schedules that the token may see, or those that match: the history up to now, then the slots to come with
    jitter and skips."""
    matching = state_filter(status, failing=failing, running=running, held=held)
    wanted = matching._replace(group=group, type=type, target=target, owner=owner, text=q)
    # A filter that matches nothing, if the token may see none of them: no group has an empty name.
    visible = visible_to(wanted, caller) or wanted._replace(owner=caller.token.owner, group="")
    width = None if stretch is None else stretch * SECOND
    found = timeline(
        context.runtime, instant_of(from_), instant_of(to), TimelineQuery(visible, rows, width, rare)
    )
    return answer(view.timeline_to_json(found))
