"""Alerts, their messages, silences and rules, as they are answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from everwhen.model.alerts import (
    AlertState,
    ChannelKind,
    DeliveryKind,
    DeliveryState,
    Severity,
    SilenceKind,
)
from everwhen.operations.alerts import AlertPage, DeliveryPage, describe_alert
from everwhen.operations.labels import LabelsByUid
from everwhen.views.labels import Labelled, label_to_json
from everwhen.views.record import detail_to_json
from everwhen.views.shape import Object, View, When, cursor_of, each, field

if TYPE_CHECKING:
    from everwhen.model import alerts as model


class Alert(Labelled):
    """A problem or a fact that rules report; at most one alert of a key is open."""

    id: int
    key: str = field(about="Its class and its subject.")
    class_: str = field(examples=["schedule.failing"])
    severity: Severity
    state: AlertState
    since: When
    last_at: When = field(about="The instant of its last event.")
    resolved_at: When | None
    count: int = field("count_", about="The number of its events so far.")
    schedule_id: str | None
    uid: str | None
    owner: str | None
    group: str | None = field("group_")
    text: str = field(
        describe_alert, about="What happened, in a sentence.", examples=["the last slot failed"]
    )
    evidence: Object = field(via=lambda text: detail_to_json(json.loads(text)))
    acked_at: When | None
    acked_by: str | None


class AlertList(View):
    """A page of alerts."""

    items: list[Alert]
    total: int
    total_is_approximate: bool = field("is_approximate")
    next_cursor: str | None


def alert_to_json(alert: model.Alert, labels: LabelsByUid) -> Object:
    return Alert.of(alert, **label_to_json(labels.get(alert.uid or "")))


def alerts_page(page: AlertPage, limit: int) -> Object:
    following = cursor_of(page.items[-1].id) if len(page.items) == limit else None
    items = [alert_to_json(alert, page.labels) for alert in page.items]
    return AlertList.of(page, items=items, next_cursor=following)


class AlertDelivery(View):
    """A message of the outbox."""

    id: str = field("delivery_id", about="The same over all attempts: `Everwhen-Delivery-Id`.")
    rule: str
    kind: DeliveryKind
    class_: str | None
    state: DeliveryState = field(
        lambda one: "delivered" if one.delivered_at else "given_up" if one.given_up_at else "waiting"
    )
    title: str = field(lambda one: str(one.content.get("title", "")))
    created_at: When
    next_at: When | None = field(about="When it is tried next.")
    attempts: int
    answer: str | None = field("error", about="The answer of the receiver to the last attempt.")
    delivered_at: When | None
    given_up_at: When | None


class AlertDeliveryList(View):
    """A page of messages."""

    items: list[AlertDelivery] = field(via=each(AlertDelivery.of))
    total: int
    total_is_approximate: bool = field("is_approximate")
    next_cursor: str | None


def deliveries_page(page: DeliveryPage, limit: int) -> Object:
    following = cursor_of(page.items[-1].id) if len(page.items) == limit else None
    return AlertDeliveryList.of(page, next_cursor=following)


class Silence(View):
    id: int
    kind: SilenceKind
    subject: str
    until: When
    actor: str | None
    created_at: When


class SilenceList(View):
    items: list[Silence]
    total: int


class AlertRule(View):
    """A rule of the configuration; where it sends to is left out."""

    name: str = field("rule.name")
    channel: ChannelKind = field("rule.channel")
    classes: list[str] = field("rule.classes", via=sorted)
    last: AlertDelivery | None = field(via=AlertDelivery.of, about="Its last message.")


class AlertRuleList(View):
    items: list[AlertRule]
    total: int
