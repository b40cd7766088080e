"""The configuration file of this process: what a reload would change, and the reload itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal, NoReturn

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from everwhen.api.access import GlobalAdmin
from everwhen.api.authenticated_route import AuthenticatedRoute
from everwhen.api.calls import Context, answer, responses
from everwhen.api.payloads import Shape, When
from everwhen.api.problems import RefusedError
from everwhen.api.request_guard import ROOT
from everwhen.operations.apply import changed_sections
from everwhen.operations.diff import ScheduleChange as ModelChange
from everwhen.operations.diff import diff
from everwhen.views.values import Object, when_text

router = APIRouter(prefix=ROOT, tags=["configuration"], route_class=AuthenticatedRoute)


class ReloadBody(Shape):
    """How much may go."""

    yes: bool = Field(default=False, description="Remove schedules even when they are more than half of all.")


class Reloaded(Shape):
    """What it changed, by schedule id."""

    created: list[str]
    changed: list[str]
    removed: list[str]
    switched: list[str]
    sections: list[str] = Field(description="What changed besides schedules: `notify[0]`, `workflows.1`.")


class KeyChange(Shape):
    key: str
    before: object
    after: object


class Firings(Shape):
    """The firings of the next 7 days."""

    kept: int
    moved: list[list[When]]
    vanished: list[When]
    appeared: list[When]
    until: When | None = Field(description="They were worked out up to here, because there are very many.")


class ScheduleChange(Shape):
    schedule_id: str
    what: Literal["created", "changed", "removed"]
    place: str | None
    keys: list[KeyChange]
    firings: Firings


class Diff(Shape):
    items: list[ScheduleChange]
    total: int
    sections: list[KeyChange] = Field(description="What would change in workflows, messages, notify and api.")


@router.post(
    "/config/diff/",
    summary="What a reload would change",
    response_model=None,
    responses=responses(Diff, "By schedule, with the firings of the next 7 days.", 409),
)
def config_diff(context: Context, _caller: GlobalAdmin) -> Response:
    """Nothing is written. A file with mistakes is refused with all of them."""
    if context.node_hooks.read is None:
        _refuse()
    declared = context.node_hooks.read()
    items = [_change_to_json(change) for change in diff(context.runtime, declared)]
    sections = [asdict(change) for change in changed_sections(context.runtime, declared)]
    return answer({"items": items, "total": len(items), "sections": sections})


@router.post(
    "/config/reload/",
    summary="Take the file as it is now",
    response_model=None,
    responses=responses(Reloaded, "What it changed.", 409),
)
def config_reload(context: Context, caller: GlobalAdmin, body: ReloadBody | None = None) -> Response:
    """Whole, between two evaluations; one with mistakes is refused, and what runs goes on."""
    if context.node_hooks.reload is None:
        _refuse()
    applied = context.node_hooks.reload(caller.actor or "", may_remove_most=(body or ReloadBody()).yes)
    fields = ("created", "changed", "removed", "switched", "sections")
    return answer({word: list(getattr(applied, word)) for word in fields})


def _refuse() -> NoReturn:
    raise RefusedError(409, "This process has no configuration file; reload where the scheduler runs.")


def _change_to_json(change: ModelChange) -> Object:
    firings = change.firings
    return {
        "schedule_id": change.schedule_id,
        "what": change.what,
        "place": change.place or None,
        "keys": [{"key": one.key, "before": one.before, "after": one.after} for one in change.keys],
        "firings": {
            "kept": firings.kept,
            "moved": [[when_text(old), when_text(new)] for old, new in firings.moved],
            "vanished": [when_text(at) for at in firings.vanished],
            "appeared": [when_text(at) for at in firings.appeared],
            "until": when_text(firings.until),
        },
    }
