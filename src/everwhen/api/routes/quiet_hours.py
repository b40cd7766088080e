"""Quiet hours: times in which the schedules that name them do not fire. They are the runtime's, not an owner's."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.access import GlobalOperator, Viewer
from everwhen.api.calls import Context, JsonBody, answer, described, make_router, nothing, request_body
from everwhen.api.context import ApiContext
from everwhen.api.costs import cheap
from everwhen.api.payloads import QUIET_HOURS_BODY, QUIET_HOURS_CHANGE
from everwhen.api.problems import InvalidError
from everwhen.api.request_guard import ROOT, root_of
from everwhen.config.submission import read_policy
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.operations import quiet_hours
from everwhen.operations.submissions import new_id
from everwhen.views.shape import list_to_json
from everwhen.views.system import QuietHours, QuietHoursList, policy_to_json

router = make_router("quiet hours")
PolicyId = Annotated[str, Path(max_length=300, pattern=r"^[^\x00]+$", examples=["nights"])]

NIGHTS = {
    "id": "nights",
    "timezone": "Europe/Paris",
    "windows": [{"days": ["mon", "tue", "wed", "thu", "fri"], "between": "22:00-07:00"}],
    "dates": ["2026-12-25", {"from": "2026-12-31", "to": "2027-01-01"}],
    "action": "skip",
}


@router.get("/quiet-hours/", **described("List quiet hours", QuietHoursList, "All."))
@cheap
def list_quiet_hours(context: Context, _caller: Viewer) -> Response:
    """Sorted by id. Every token may see them, because schedules refer to them."""
    entries = quiet_hours.list_entries(context.runtime)
    return answer(list_to_json([QuietHours.of(entry.policy, source=entry.source) for entry in entries]))


@router.post(
    "/quiet-hours/",
    **described("Create quiet hours", QuietHours, "The new policy.", 409, status=201),
    openapi_extra=request_body(QUIET_HOURS_BODY, {"nights": NIGHTS}),
)
@cheap
def create_quiet_hours(
    request: Request, context: Context, _caller: GlobalOperator, body: JsonBody
) -> Response:
    """Windows, dates, or both; the days of a window that wraps midnight are those on which it begins."""
    fields = dict(body.fields) if isinstance(body.fields, dict) else body.fields
    policy_id = fields.pop("id", None) if isinstance(fields, dict) else None
    if policy_id is None:
        policy_id = new_id(context.runtime.clock.now())
    elif not isinstance(policy_id, str):
        raise InvalidError("id", "must be a name", "id must be a name.")
    policy = _read(context, fields, policy_id)
    quiet_hours.create_quiet_hours(context.runtime, policy)
    location = f"{root_of(request.scope)}{ROOT}/quiet-hours/{policy_id}/"
    return answer(QuietHours.of(policy, source="api"), 201, {"location": location})


@router.get("/quiet-hours/{policy_id}/", **described("Get quiet hours", QuietHours, "The policy.", 404))
@cheap
def get_quiet_hours(context: Context, _caller: Viewer, policy_id: PolicyId) -> Response:
    """One policy."""
    entry = quiet_hours.get_entry(context.runtime, policy_id)
    return answer(QuietHours.of(entry.policy, source=entry.source))


@router.patch(
    "/quiet-hours/{policy_id}/",
    **described("Change quiet hours", QuietHours, "The policy, changed.", 404, 409),
    openapi_extra=request_body(QUIET_HOURS_CHANGE, {"longer": {"windows": [{"between": "21:00-08:00"}]}}),
)
@cheap
def update_quiet_hours(
    context: Context, _caller: GlobalOperator, policy_id: PolicyId, body: JsonBody
) -> Response:
    """Takes effect at once for every schedule that uses the policy. Null clears a key; lists are replaced whole. A
    policy of the file is refused with 409."""
    if not isinstance(body.fields, dict):
        _read(context, body.fields, policy_id)  # which refuses it

    def change(policy: QuietHoursPolicy) -> QuietHoursPolicy:
        return _read(context, {**policy_to_json(policy), **body.fields}, policy_id)

    policy = quiet_hours.change_quiet_hours(context.runtime, policy_id, change)
    return answer(QuietHours.of(policy, source="api"))


@router.delete(
    "/quiet-hours/{policy_id}/",
    **described("Delete quiet hours", None, "The quiet hours are deleted.", 404, 409, status=204),
)
@cheap
def delete_quiet_hours(context: Context, _caller: GlobalOperator, policy_id: PolicyId) -> Response:
    """Refused while schedules use them, and when the configuration file defines them."""
    quiet_hours.delete_own_quiet_hours(context.runtime, policy_id)
    return nothing()


def _read(context: ApiContext, fields: Any, policy_id: str) -> QuietHoursPolicy:
    return read_policy(fields, policy_id, context.rules())
