"""Agents with their schedules by name, which are switched on and off: aliases of list, resume and pause."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from everwhen.api.access import Operator, Viewer
from everwhen.api.calls import DEFAULT_LIMIT, Context, Cursor, Limit, answer, described, row_in
from everwhen.api.context import ApiContext
from everwhen.api.request_guard import ROOT
from everwhen.errors import UnknownScheduleError
from everwhen.model.queries import Entry, ScheduleFilter
from everwhen.operations import approvals, schedules
from everwhen.operations.access import Caller, get_entry, list_entries
from everwhen.views.schedules import Schedule, ScheduleList, schedule_to_json, schedules_page

router = APIRouter(prefix=ROOT, tags=["agents"])
Name = Annotated[str, Path(max_length=300, pattern=r"^[^\x00]+$", examples=["reviewer"])]
ScheduleName = Annotated[
    str, Path(max_length=300, pattern=r"^[^\x00]+$", description="Its name in the file, or its id.")
]


@router.get(
    "/agents/{name}/schedules/", **described("The schedules of an agent", ScheduleList, "A page.", 404)
)
def list_schedules(
    context: Context, caller: Viewer, name: Name, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response:
    """Newest first. An agent without schedules that the token may see is not there."""
    wanted = ScheduleFilter(group=name, target="agent")
    page = list_entries(context.runtime, wanted, caller, limit=limit, before=row_in(cursor))
    if not page.total:
        raise UnknownScheduleError(name)
    return answer(schedules_page(page, context.place_of, limit=limit))


@router.post(
    "/agents/{name}/schedules/{schedule}/enable/",
    **described("Switch a schedule of an agent on", Schedule, "The schedule, active.", 404, 428),
)
def enable(context: Context, caller: Operator, name: Name, schedule: ScheduleName) -> Response:
    """The same as resume: only a paused one."""
    found = _find(context, caller, name, schedule).schedule.state.schedule_id
    approvals.resume_schedule(context.runtime, found, caller)
    return _shown(context, caller, found)


@router.post(
    "/agents/{name}/schedules/{schedule}/disable/",
    **described("Switch a schedule of an agent off", Schedule, "The schedule, paused.", 404),
)
def disable(context: Context, caller: Operator, name: Name, schedule: ScheduleName) -> Response:
    """The same as pause: only an active one."""
    found = _find(context, caller, name, schedule).schedule.state.schedule_id
    schedules.pause_schedule(
        context.runtime, found, by="token", actor=caller.actor, permit=caller.refuse_stranger
    )
    return _shown(context, caller, found)


def _find(context: ApiContext, caller: Caller, name: str, schedule: str) -> Entry:
    if caller.is_hidden(name):
        raise UnknownScheduleError(schedule)
    for schedule_id in (f"{name}.{schedule}", schedule):
        try:
            entry = get_entry(context.runtime, schedule_id, caller)
        except UnknownScheduleError:
            continue
        definition = entry.schedule.definition
        if definition.group == name and definition.target.kind == "agent":
            return entry
    raise UnknownScheduleError(schedule)


def _shown(context: ApiContext, caller: Caller, schedule_id: str) -> Response:
    entry = get_entry(context.runtime, schedule_id, caller)
    return answer(schedule_to_json(entry, context.place_of(entry)))
