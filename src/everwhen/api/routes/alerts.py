"""Alerts: what is open, what was sent about it, and what a person does about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from everwhen.alerts.channels import open_channels
from everwhen.api.access import GlobalOperator, GlobalViewer, Operator, Viewer
from everwhen.api.calls import (
    DEFAULT_LIMIT,
    Context,
    Cursor,
    Limit,
    Word,
    answer,
    described,
    make_router,
    nothing,
    row_in,
)
from everwhen.api.context import ApiContext
from everwhen.api.costs import cheap, expensive, page_cost
from everwhen.api.payloads import Duration, Identifier, Shape
from everwhen.api.problems import InvalidError
from everwhen.errors import SchedulerError
from everwhen.model import alerts as model
from everwhen.model.alerts import AlertState
from everwhen.model.queries import AlertFilter
from everwhen.model.values import parse_duration
from everwhen.operations import alerts
from everwhen.operations.labels import labels_of
from everwhen.views.alerts import (
    Alert,
    AlertDelivery,
    AlertDeliveryList,
    AlertList,
    AlertRule,
    AlertRuleList,
    Silence,
    SilenceList,
    alert_to_json,
    alerts_page,
    deliveries_page,
)
from everwhen.views.shape import list_to_json

router = make_router("alerts")
AlertId = Annotated[int, Path(ge=1, le=10**18, description="The number of an alert.", examples=[12])]
RuleName = Annotated[str, Path(max_length=200, pattern=r"^[^\x00]+$", examples=["http"])]
Class = Annotated[str | None, Query(alias="class", max_length=100, pattern=r"^[^\x00]+$")]


class SilenceBody(Shape):
    """The schedule or group whose alerts are held, and for how long."""

    subject: Identifier = Field(description="A schedule, or a group.", examples=["reviewer"])
    duration: Duration = Field(description="How long they are held.", examples=["2h"])


@router.get("/alerts/", **described("List alerts", AlertList, "A page."))
@expensive(page_cost)
def list_alerts(
    context: Context,
    caller: Viewer,
    state: Annotated[AlertState | None, Query(description="Only alerts in this state.")] = None,
    class_: Class = None,
    schedule_id: Word = None,
    owner: Word = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Returns the newest first; all filters must match. Alerts are recorded while a rule of `notify` reports them."""
    wanted = AlertFilter(state, class_, schedule_id, owner)
    page = alerts.list_alerts(context.runtime, wanted, caller, limit=limit, before=row_in(cursor))
    return answer(alerts_page(page, limit))


@router.get("/alerts/deliveries/", **described("List messages of alerts", AlertDeliveryList, "A page."))
@cheap
def list_alert_deliveries(
    context: Context,
    caller: Viewer,
    rule: Word = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Returns the newest first, sent or not. A token with an owner sees the messages of its own webhooks."""
    page = alerts.list_deliveries(context.runtime, caller, rule=rule, limit=limit, before=row_in(cursor))
    return answer(deliveries_page(page, limit))


@router.get("/alerts/rules/", **described("List rules of alerts", AlertRuleList, "All."))
@cheap
def list_alert_rules(context: Context, _caller: GlobalViewer) -> Response:
    """Returns the rules of `notify` in the configuration file, each with its last message."""
    found = alerts.list_rules(context.runtime, context.node_hooks.alert_rules())
    return answer(list_to_json([AlertRule.of(one) for one in found]))


@router.post(
    "/alerts/rules/{rule}/test/",
    **described("Send a sample", AlertDelivery, "The message, and whether it was delivered.", 404),
)
@cheap
def test_alert_rule(context: Context, _caller: GlobalOperator, rule: RuleName) -> Response:
    """Sends it through the real channel. `state` says whether it was delivered, `answer` what the receiver answered."""
    found = alerts.find_rule(context.node_hooks.alert_rules(), rule)
    channels = open_channels(
        context.runtime.clock.now, allow_private_urls=lambda: context.settings.allow_private_urls
    )
    return answer(AlertDelivery.of(alerts.send_sample(context.runtime, found, channels)))


@router.get("/alerts/silences/", **described("List silences", SilenceList, "Those in force."))
@cheap
def list_silences(context: Context, caller: Viewer) -> Response:
    """Returns the schedules and groups whose alerts are held."""
    found = alerts.list_silences(context.runtime, caller)
    return answer(list_to_json([Silence.of(one) for one in found]))


@router.post("/alerts/silences/", **described("Silence alerts", Silence, "The silence.", 404, status=201))
@cheap
def silence_alerts(context: Context, caller: Operator, body: SilenceBody) -> Response:
    """Holds the alerts of one schedule or group for a duration such as `2h`; those still open then are reported."""
    try:
        length = parse_duration(body.duration)
    except SchedulerError as error:
        raise InvalidError("duration", str(error), "duration must be a duration, such as 2h.") from error
    made = alerts.silence_alerts(context.runtime, body.subject, length=length, caller=caller)
    return answer(Silence.of(made), 201)


@router.delete(
    "/alerts/silences/{silence_id}/", **described("End a silence", None, "It is over.", 404, status=204)
)
@cheap
def end_silence(context: Context, caller: Operator, silence_id: AlertId) -> Response:
    """Takes effect at once: alerts that are open are reported."""
    alerts.end_silence(context.runtime, silence_id, caller)
    return nothing()


@router.get("/alerts/{alert_id}/", **described("Get an alert", Alert, "The alert.", 404))
@cheap
def get_alert(context: Context, caller: Viewer, alert_id: AlertId) -> Response:
    """Returns the alert with its evidence."""
    return _shown(context, alerts.get_alert(context.runtime, alert_id, caller))


@router.post("/alerts/{alert_id}/ack/", **described("Acknowledge an alert", Alert, "The alert.", 404))
@cheap
def acknowledge_alert(context: Context, caller: Operator, alert_id: AlertId) -> Response:
    """Stops its repetitions; its end is reported all the same."""
    return _shown(context, alerts.acknowledge_alert(context.runtime, alert_id, caller))


def _shown(context: ApiContext, alert: model.Alert) -> Response:
    return answer(alert_to_json(alert, labels_of(context.runtime, [alert.uid])))
