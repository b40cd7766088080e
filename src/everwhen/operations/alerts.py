"""Alerts that a caller may see, and what a person does about them: acknowledge, silence, test a rule."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from everwhen.decide.alert_text import sentence_of
from everwhen.errors import UnknownAlertError, UnknownScheduleError
from everwhen.model.alerts import (
    Alert,
    AlertDelivery,
    AlertRule,
    Channel,
    ChannelKind,
    Sent,
    Silence,
)
from everwhen.model.events import Event
from everwhen.model.instants import to_datetime
from everwhen.model.queries import AlertFilter, ScheduleFilter
from everwhen.operations.access import COUNTED, Caller, get_entry, list_entries
from everwhen.operations.labels import LabelsByUid, labels_of
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

SAMPLE = "[everwhen] TEST: this is how an alert looks"


@dataclass(frozen=True, slots=True)
class AlertPage:
    """A part of the alerts, with the names of their schedules; `total` stops at 10,000."""

    items: Sequence[Alert]
    total: int
    labels: LabelsByUid

    @property
    def is_approximate(self) -> bool:
        return self.total >= COUNTED


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A part of their messages; `total` stops at 10,000."""

    items: Sequence[AlertDelivery]
    total: int

    @property
    def is_approximate(self) -> bool:
        return self.total >= COUNTED


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule, and the message that it tries to send in vain, or else the last one."""

    rule: AlertRule
    last: AlertDelivery | None


def list_alerts(
    runtime: Runtime, wanted: AlertFilter, caller: Caller, *, limit: int, before: int | None = None
) -> AlertPage:
    """Return the alerts that the caller may see, newest first."""
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return AlertPage([], 0, {})
    visible = wanted._replace(owner=owner or wanted.owner)
    alerts = store_of(runtime).alerts
    items = alerts.list(visible, limit=limit, before=before)
    labels = labels_of(runtime, (alert.uid for alert in items))
    return AlertPage(items, alerts.count(visible, most=COUNTED), labels)


def describe_alert(alert: Alert) -> str:
    """Say what happened, without the subject."""
    return sentence_of(alert)


def get_alert(runtime: Runtime, alert_id: int, caller: Caller) -> Alert:
    found = store_of(runtime).alerts.get(alert_id)
    if found is None or not caller.token.sees(found.owner):
        raise UnknownAlertError("alert", str(alert_id))
    return found


def acknowledge_alert(runtime: Runtime, alert_id: int, caller: Caller) -> Alert:
    """Stop the repetitions of an alert, and return it as it is then; one that is over stays as it is."""
    get_alert(runtime, alert_id, caller)
    store_of(runtime).alerts.acknowledge(runtime.clock.now(), alert_id, caller.actor)
    return get_alert(runtime, alert_id, caller)


def silence_alerts(runtime: Runtime, subject: str, *, length: int, caller: Caller) -> Silence:
    """Hold the alerts of a schedule, or else of a group, for so long."""
    now, owner = runtime.clock.now(), None
    kind: Literal["schedule", "group"] = "schedule"
    try:
        state = get_entry(runtime, subject, caller).schedule.state
        subject, owner = state.schedule_id, state.owner
    except UnknownScheduleError:
        if caller.token.owner is not None or not _has_schedules(runtime, subject, caller):
            what = "schedule" if caller.token.owner is not None else "schedule or group"
            raise UnknownAlertError(what, subject) from None
        kind = "group"
    silence = Silence(0, kind, subject, now + length, caller.actor, created_at=now)
    detail = {kind: subject, "until": silence.until}
    event = Event("alert.silenced", now, owner=owner, actor=caller.actor, detail=detail)
    return store_of(runtime).alerts.silence(silence, event)


def _has_schedules(runtime: Runtime, group: str, caller: Caller) -> bool:
    return bool(list_entries(runtime, ScheduleFilter(group=group), caller, limit=1).entries)


def end_silence(runtime: Runtime, silence_id: int, caller: Caller) -> None:
    """End a silence at once: what is open is reported."""
    found = store_of(runtime).alerts.find_silence(silence_id)
    if found is None or not _may_see(runtime, found, caller):
        raise UnknownAlertError("silence", str(silence_id))
    store_of(runtime).alerts.end_silence(silence_id)


def list_silences(runtime: Runtime, caller: Caller) -> list[Silence]:
    """Return the silences in force that the caller may see."""
    return list(store_of(runtime).alerts.silences(runtime.clock.now(), owner=caller.token.owner))


def _may_see(runtime: Runtime, silence: Silence, caller: Caller) -> bool:
    if caller.token.owner is None:
        return True
    if silence.kind == "group":
        return False
    try:
        get_entry(runtime, silence.subject, caller)
    except UnknownScheduleError:
        return False
    return True


def list_deliveries(
    runtime: Runtime, caller: Caller, *, rule: str | None = None, limit: int, before: int | None = None
) -> DeliveryPage:
    """Return the messages of all rules, newest first; a token with an owner sees those of its own webhooks."""
    alerts, owner = store_of(runtime).alerts, caller.token.owner
    found = alerts.deliveries(rule=rule, owner=owner, limit=limit, before=before)
    return DeliveryPage(found, alerts.count_deliveries(rule=rule, owner=owner, most=COUNTED))


def list_rules(runtime: Runtime, rules: Sequence[AlertRule]) -> list[RuleStatus]:
    """Return each rule with its last message; where an earlier one waits to be tried again, with that: it says why."""
    alerts = store_of(runtime).alerts
    tried = {one.rule: one for one in alerts.pending() if one.attempts}
    last = {rule.name: alerts.deliveries(rule=rule.name, owner=None, limit=1) for rule in rules}
    return [RuleStatus(rule, tried.get(rule.name) or next(iter(last[rule.name]), None)) for rule in rules]


def find_rule(rules: Sequence[AlertRule], name: str) -> AlertRule:
    found = next((rule for rule in rules if rule.name == name), None)
    if found is None:
        names = ", ".join(rule.name for rule in rules)
        advice = f"; the rules under notify are {names}" if names else "; write one under notify"
        raise UnknownAlertError("rule", name, advice)
    return found


def send_sample(
    runtime: Runtime, rule: AlertRule, channels: Mapping[ChannelKind, Channel], *, owner: str | None = None
) -> AlertDelivery:
    """Send a sample through the channel of a rule, now, and return what came of it."""
    now, delivery_id = runtime.clock.now(), str(uuid.uuid4())
    body = json.dumps(_sample(rule, delivery_id, now))
    delivery = AlertDelivery(
        0,
        delivery_id,
        rule.name,
        "test",
        None,
        owner=owner,
        body=body,
        created_at=now,
        next_at=None,
        attempts=1,
    )
    sent = attempt(channels.get(rule.channel), rule, delivery)
    answer = sent.answer or None
    if not sent.is_delivered:
        found = delivery._replace(given_up_at=now, error=answer or "refused")
        store_of(runtime).alerts.add([found])
        return found
    found = delivery._replace(delivered_at=now, error=None)
    about = {"rule": rule.name, "kind": "test", "delivery": delivery_id, "attempts": 1}
    store_of(runtime).alerts.add([found], [Event("alert.sent", now, owner=owner, detail=about)])
    return found._replace(error=answer)


def attempt(channel: Channel | None, rule: AlertRule, delivery: AlertDelivery) -> Sent:
    """Send one message; whatever a channel raises is a failure that may pass."""
    if channel is None:
        return Sent(False, f"there is no channel {rule.channel}", is_final=True)
    try:
        return channel.send(rule.fields, delivery)
    except Exception as error:  # of a channel
        return Sent(False, f"{type(error).__name__}: {error}")


def _sample(rule: AlertRule, delivery_id: str, now: int) -> dict[str, object]:
    at = to_datetime(now).isoformat()
    return {
        "version": 1,
        "delivery": delivery_id,
        "kind": "test",
        "alert": {"id": 0, "key": "test", "class": "test", "severity": "info", "since": at, "count": 1},
        "title": SAMPLE,
        "text": f"Rule {rule.name}. Nothing is wrong; this message was requested.",
        "schedule": None,
        "reason": None,
        "evidence": {},
        "next_run_at": None,
        "links": {},
        "items": [],
        "gathered": [],
        "total": 1,
    }
