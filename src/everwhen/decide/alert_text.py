"""The text of an alert's message and its generic body.

What a job printed is untrusted: it is cut to 500 characters and loses its control characters, here, for every channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from everwhen.decide.alert_messages import AlertMessage
from everwhen.decide.alerts import BEGAN_AT, PAUSED, ScheduleFacts
from everwhen.errors import SchedulerError
from everwhen.model.alerts import Alert, AlertDelivery, AlertRule, class_of
from everwhen.model.cost import Cost, amount_number, amount_text
from everwhen.model.event_details import readable_details
from everwhen.model.generated_keys import is_generated
from everwhen.model.host_fault import MEANINGS
from everwhen.model.instants import MINUTE, SECOND, duration_text, format_instant, instant_of, to_datetime
from everwhen.model.one_line import one_line
from everwhen.model.pause import Pause
from everwhen.model.queries import ScheduleLabel
from everwhen.model.spending import Usage
from everwhen.timetable.civil_time import Zone, zone

VERSION = 1
MOST_ITEMS = 10
# Surrogates, too: half a character has no encoding, and a mail with it could not be sent.
_HIDDEN = frozenset(
    ("after_pause", "event_ids", "error", "job_ids", "last_error", "last_error_type", "slots", "uid")
)
NO_LABELS: Mapping[str, ScheduleLabel] = MappingProxyType({})
NO_PAUSES: Mapping[str, Pause] = MappingProxyType({})
_LINKS_OF_MANY = {"alerts": "/api/v1/alerts/?state=open", "dashboard": "/alerts"}
_WINDOWS = {"cost_per_day": "today", "cost_per_month": "this month"}


class BudgetCost(NamedTuple):
    """How much of a budget's cost is used, in the window of one limit."""

    budget: str
    usage: Usage
    unit: str


class Facts(NamedTuple):
    """What messages say of schedules, and the service's zone, for the instants of no schedule.

    `labels`: of schedules that are deleted; `pauses`: of those whose alerts ended with a pause.
    """

    by_uid: Mapping[str, ScheduleFacts]
    timezone: str = "UTC"
    labels: Mapping[str, ScheduleLabel] = NO_LABELS
    pauses: Mapping[str, Pause] = NO_PAUSES

    def about(self, alert: Alert) -> ScheduleFacts | None:
        return self.by_uid.get(alert.uid or "")

    def zone_of(self, alert: Alert) -> Zone:
        """Return the zone in which the instants of an alert are shown: its schedule's, or else the service's."""
        about = self.about(alert) or self.labels.get(alert.uid or "")
        try:
            return zone(self.timezone if about is None else about.timezone)
        except SchedulerError:  # of another machine
            return zone("UTC")


class AlertCosts(NamedTuple):
    """What the job of an alert cost, what of that is estimated, and what its schedule's budgets have spent."""

    job: Cost | None = None
    budgets: tuple[BudgetCost, ...] = ()
    job_estimated: int = 0


NO_COSTS = AlertCosts()


def delivery_of(
    rule: AlertRule,
    message: AlertMessage,
    facts: Facts,
    *,
    delivery_id: str,
    now: int,
    costs: AlertCosts = NO_COSTS,
) -> AlertDelivery:
    """Return the delivery of a message by a rule, to be sent now."""
    body = json.dumps(body_of(message, facts, delivery_id=delivery_id, now=now, costs=costs))
    return AlertDelivery(
        0,
        delivery_id,
        rule.name,
        message.kind,
        message.class_,
        owner=None,
        body=body,
        created_at=now,
        next_at=now,
    )


def body_of(
    message: AlertMessage, facts: Facts, *, delivery_id: str, now: int, costs: AlertCosts = NO_COSTS
) -> dict[str, Any]:
    """Return the generic body of a message, which every other shape is made from. `costs`: of a single alert."""
    first = message.alerts[0]
    is_single = len(message.alerts) == 1
    about = facts.about(first) if is_single else None
    shown = message.alerts[:MOST_ITEMS]
    gathered = message.gathered[:MOST_ITEMS]
    return {
        "version": VERSION,
        "delivery": delivery_id,
        "kind": message.kind,
        "alert": _alert_to_json(first),
        "title": title_of(message, facts, now),
        "text": text_of(message, facts, now, costs),
        "schedule": first.schedule_id if is_single else None,
        "reason": _reason(first) if is_single else None,
        "evidence": _evidence_to_json(first) | _costs_to_json(costs) if is_single else {},
        "next_run_at": _iso(about.next_run_at) if about is not None else None,
        "links": _links(first) if is_single else _LINKS_OF_MANY,
        "items": [_item(one, facts, now) for one in shown] if not is_single else [],
        "gathered": [_item(one, facts, now) for one in gathered],
        "total": len(message.alerts) + len(message.gathered),
    }


def title_of(message: AlertMessage, facts: Facts, now: int) -> str:
    """Return the first line of a message."""
    first = message.alerts[0]
    if message.kind == "digest":
        opened = sum(one.state == "open" for one in message.alerts)
        return f"[everwhen] DIGEST: {_number(len(message.alerts), 'alert')}, {opened:,} open"
    word = "RESOLVED" if message.kind == "resolved" else class_of(first.class_).word
    if message.kind == "repeated":
        word = f"STILL {word}"
    if message.is_flapping:
        word = f"FLAPPING {word}"
    if len(message.alerts) > 1:
        subjects = "schedules" if first.uid is not None else "alerts"
        what = f" ({class_of(first.class_).word.lower()})" if message.kind == "resolved" else ""
        return f"[everwhen] {word} {len(message.alerts):,} {subjects}{what}"
    match message.kind:
        case "resolved":
            said = _resolution(first, facts)
        case _:
            said = _current_sentence(first, facts)
    return f"[everwhen] {word} {_subject_of(first, facts)}: {said}"


def text_of(message: AlertMessage, facts: Facts, now: int, costs: AlertCosts = NO_COSTS) -> str:
    """Return the lines below the title."""
    lines: list[str] = []
    if len(message.alerts) == 1 and message.kind != "resolved":
        lines += _details(message.alerts[0], facts, now, costs)
    elif len(message.alerts) > 1:
        lines += _list(message.alerts, facts, now)
    if message.gathered:
        lines.append(f"Because of it, {_number(len(message.gathered), 'further alert')}:")
        lines += _list(message.gathered, facts, now)
    return "\n".join(lines)


def _current_sentence(alert: Alert, facts: Facts) -> str:
    """Say what happened; of failures, how many there are by now."""
    about = facts.about(alert)
    if alert.class_ != "schedule.failing" or about is None:
        return sentence_of(alert)
    failed = max(about.failed_slots, int(alert.details.get("failed_slots") or 1))
    return sentence_of(alert._replace(evidence=json.dumps({**alert.details, "failed_slots": failed})))


def _subject_of(alert: Alert, facts: Facts) -> str:
    """Return the name of what an alert is about: of a schedule whose id was generated, its key or its name.

    A key that was generated has no meaning for people.
    """
    about, label = facts.about(alert), facts.labels.get(alert.uid or "")
    if about is None and label is not None and alert.subject == label.uid:
        return one_line(label.own_key or label.name or alert.subject, 200)
    if about is None or about.schedule_id != about.uid or alert.subject != about.schedule_id:
        return one_line(alert.subject, 200)
    own_key = None if about.name and is_generated(about.own_key) else about.own_key
    return one_line(own_key or about.name or alert.subject, 200)


def sentence_of(alert: Alert) -> str:
    """Say what happened, without the subject."""
    details = alert.details
    match alert.class_:
        case "schedule.failing":
            failed = details.get("failed_slots") or alert.count_
            return "the last slot failed" if failed == 1 else f"{one_line(failed, 20)} slots in a row failed"
        case "schedule.died":
            return "it died: more failures in a row than it may have"
        case "schedule.invalidated":
            return "it cannot run as configured"
        case "breaker.opened":
            return "its breaker opened; slots are skipped until a run succeeds"
        case "schedule.silent":
            return str(one_line(details.get("text") or "it has not succeeded in time"))
        case "schedule.missed":
            return f"{_number(int(details.get('slots', 1)), 'slot was', 'slots were')} missed"
        case "schedule.overdue":
            return "a slot is overdue"
        case "schedule.slow":
            return _slowness(details)
        case "schedule.approval_requested":
            return "it waits for approval"
        case "budget.warning":
            return f"most of a budget is used{_figures(details)}"
        case "budget.reached":
            return f"a budget is used up{_figures(details)}"
        case "budget.unmeasured":
            return "runs report no cost"
        case "scheduler.stalled":
            return "the scheduler stalls"
        case "scheduler.feed_delayed":
            return "an open transaction delays the feed of events"
        case "node.lost":
            return "a node was lost"
        case "node.unfit":
            return f"a node can begin no jobs: {MEANINGS.get(details['fault'], 'an error of its host')}"
        case "scheduler.clock_stepped":
            return f"the clock was set by {details.get('seconds', 0):+.0f} s"
        case "config.rejected":
            return "a configuration was refused; the one before it stays in force"
        case "alert.failed":
            return "a message could not be delivered"
        case _:
            return alert.class_


def _slowness(details: Mapping[str, Any]) -> str:
    """Say how long a run takes, and how long it usually takes.

    >>> _slowness({"seconds": 312.4, "usual_seconds": 0.02})
    'a run takes 5m so far; usually it takes at most 1s'
    """
    seconds, usual = details.get("seconds"), details.get("usual_seconds")
    if not isinstance(seconds, int | float) or not isinstance(usual, int | float):
        return "a run takes much longer than usual"
    longest = _span(-int(-usual // 1) * SECOND or SECOND)
    return f"a run takes {_span(int(seconds) * SECOND)} so far; usually it takes at most {longest}"


def _figures(details: Mapping[str, Any]) -> str:
    """Return how much of a budget is used, with its unit; what is estimated stands apart from what runs reported.

    >>> _figures({"used": 4_200_000, "most": 5_000_000, "unit": "USD"}), _figures({"used": 8, "most": 10})
    (': 4.2 of 5 USD', ': 8 of 10')
    """
    used, most, unit = details.get("used"), details.get("most"), details.get("unit")
    if not isinstance(used, int) or not isinstance(most, int):
        return ""
    if unit is None:
        return f": {used} of {most}"
    estimated = details.get("estimated")
    return f": {_amounts(used, estimated if isinstance(estimated, int) else 0)} of {Cost(most, unit)}"


def _amounts(amount: int, estimated: int) -> str:
    """Return an amount, or what of it was reported and what is estimated.

    >>> _amounts(1_840_000, 0), _amounts(1_840_000, 500_000), _amounts(500_000, 500_000)
    ('1.84', '1.34 reported and 0.5 estimated', '0.5 estimated')
    """
    if not estimated:
        return amount_text(amount)
    reported = f"{amount_text(amount - estimated)} reported and " if amount > estimated else ""
    return f"{reported}{amount_text(estimated)} estimated"


def _details(alert: Alert, facts: Facts, now: int, costs: AlertCosts) -> list[str]:
    about, where, details = facts.about(alert), facts.zone_of(alert), alert.details
    began_at = _began_at(alert)
    lines = [f"Since {format_instant(began_at, where)} ({_span(now - began_at)})."]
    error = details.get("error") or (details.get("reason") if alert.class_ != "schedule.missed" else None)
    if error:
        lines[0] += f' Last error: "{one_line(error)}"' if details.get("error") else f" {one_line(error)}"
    if evidence := [*_evidence_parts(alert, where), *_cost_parts(costs)]:
        lines.append(f"Evidence: {', '.join(evidence)}")
    if isinstance(refill_at := details.get("refill_at"), int):
        lines.append(f"Refills: {format_instant(refill_at, where)} (in {_span(refill_at - now)}).")
    if alert.class_ == "schedule.approval_requested" and about is not None:
        return [*lines, *_request(details, about, where)]
    if about is not None:
        next_at = about.next_run_at
        ahead = f"Next: {format_instant(next_at, where)} (in {_span(next_at - now)}). " if next_at else ""
        lines.append(f"{ahead}everwhen why {about.schedule_id}")
    return lines


def _request(details: Mapping[str, Any], facts: ScheduleFacts, where: Zone) -> list[str]:
    """Describe what waits for approval, when it would fire, and how to approve it."""
    asked = [one_line(details["words"])] if details.get("words") else []
    if details.get("cost_per_day"):
        asked.append(f"about {one_line(details['cost_per_day'], 50)} a day")
        if details.get("most_cost_per_day") not in (None, details["cost_per_day"]):
            asked.append(f"at most {one_line(details['most_cost_per_day'], 50)} on one day")
    if details.get("purpose"):
        asked.append(f'"{one_line(details["purpose"])}"')
    revision = one_line(details.get("of_revision", facts.revision), 20)
    answer = f"everwhen schedules approve {facts.schedule_id} --revision {revision}"
    lines = [f"Asked for: {', '.join(asked)}"] if asked else []
    if slots := details.get("next"):
        shown = ", ".join(format_instant(instant_of(datetime.fromisoformat(one)), where) for one in slots)
        lines.append(f"If it is approved now: {shown}")
    if details.get("prompt"):
        lines.append(f'Prompt: "{one_line(details["prompt"])}"')
    return [*lines, answer]


def _evidence_parts(alert: Alert, where: Zone) -> list[str]:
    details, found = alert.details, list[str]()
    if job := details.get("job_id"):
        found.append(f"job {one_line(job, 100)}")
    if isinstance(slot_at := details.get("slot_at"), int):
        found.append(f"slot {format_instant(slot_at, where)}")
    if alert.class_ == "schedule.missed" and details.get("reason"):
        found.append(f"reason {one_line(details['reason'], 100)}")
    if alert.count_ > 1:
        found.append(f"{alert.count_} events")
    return found


def _cost_parts(costs: AlertCosts) -> list[str]:
    """Say what the job cost, and how much of each budget is used; a budget is named where there are several.

    >>> usage = Usage("cost_per_day", 1_840_000, 5_000_000, caught_up=0, window=0, ends_at=0)
    >>> _cost_parts(AlertCosts(Cost(420_000, "USD"), (BudgetCost("reviewer", usage, "USD"),)))
    ['cost 0.42 USD', 'cost today 1.84 of 5 USD']
    """
    found = []
    if costs.job is not None:
        amounts = _amounts(costs.job.amount, costs.job_estimated).replace(" ", f" {costs.job.unit} ", 1)
        found.append(f"cost {amounts if costs.job_estimated else costs.job}")
    are_several = len({one.budget for one in costs.budgets}) > 1
    for one in costs.budgets:
        of = f" ({one_line(one.budget, 100)})" if are_several else ""
        used, most = _amounts(one.usage.used, one.usage.estimated), Cost(one.usage.most, one.unit)
        found.append(f"cost {_WINDOWS[one.usage.limit]} {used} of {most}{of}")
    return found


def _costs_to_json(costs: AlertCosts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if costs.job is not None:
        found = {"cost": str(costs.job), "cost_estimated": str(Cost(costs.job_estimated, costs.job.unit))}
    if costs.budgets:
        found["budgets"] = [
            {
                "budget": one.budget,
                "limit": one.usage.limit,
                "used": amount_number(one.usage.used),
                "estimated": amount_number(one.usage.estimated),
                "most": amount_number(one.usage.most),
                "unit": one.unit,
            }
            for one in costs.budgets
        ]
    return found


def _list(alerts: Sequence[Alert], facts: Facts, now: int) -> list[str]:
    lines = [f"- {_line(one, facts, now)}" for one in alerts[:MOST_ITEMS]]
    if len(alerts) > MOST_ITEMS:
        lines.append(f"… and {len(alerts) - MOST_ITEMS:,} more: everwhen alerts list")
    return lines


def _line(alert: Alert, facts: Facts, now: int) -> str:
    subject = _subject_of(alert, facts)
    if alert.state == "resolved" and not class_of(alert.class_).is_fact:
        return f"{subject}: {_resolution(alert, facts)}"
    error = alert.details.get("error")
    said = sentence_of(alert) + (f', "{one_line(error, 100)}"' if error else "")
    return f"{subject}: {said}, since {format_instant(_began_at(alert), facts.zone_of(alert))}"


def _resolution(alert: Alert, facts: Facts) -> str:
    """Say how an alert ended, and how long it was open."""
    how = one_line(alert.details.get("how") or "over", 100)
    if alert.resolved_at is None:
        return how
    where, pause = facts.zone_of(alert), facts.pauses.get(alert.uid or "")
    at = format_instant(alert.resolved_at, where)
    if how == PAUSED and pause is not None:
        at = f"{at} {pause._replace(at=None).text(where)}".rstrip()
    return f"{how} {at}, after {_span(alert.resolved_at - _began_at(alert))}"


def _began_at(alert: Alert) -> int:
    """Return when it began: of failures in a row the first slot that failed, of anything else the event."""
    found = alert.details.get(BEGAN_AT)
    return found if isinstance(found, int) else alert.since


def _item(alert: Alert, facts: Facts, now: int) -> dict[str, Any]:
    return {
        **_alert_to_json(alert),
        "state": alert.state,
        "schedule": alert.schedule_id,
        "text": _line(alert, facts, now),
    }


def _reason(alert: Alert) -> str | None:
    reason = alert.details.get("reason")
    return None if reason is None else one_line(reason)


def _alert_to_json(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "key": alert.key,
        "class": alert.class_,
        "severity": alert.severity,
        "since": _iso(alert.since),
        "count": alert.count_,
    }


def _evidence_to_json(alert: Alert) -> dict[str, Any]:
    details = alert.details
    error = details.get("error")
    shown = readable_details({key: details[key] for key in details if key not in _HIDDEN}, _iso)
    more = {key: one_line(value) if isinstance(value, str) else value for key, value in shown.items()}
    return {
        "slot_at": None,
        **more,
        "job_id": details.get("job_id"),
        "error": None if error is None else one_line(error),
        "event_ids": details.get("event_ids", []),
    }


def _links(alert: Alert) -> dict[str, str]:
    if alert.schedule_id is None:
        return _LINKS_OF_MANY
    schedule = quote(alert.schedule_id, safe="")
    path = f"/api/v1/schedules/{schedule}/"
    return {"schedule": path, "why": f"{path}why/", "dashboard": f"/schedules/{schedule}"}


def with_addresses(body: str, base: str) -> str:
    """Return a body whose links begin with `base`; the page of the dashboard is also the last line of its text.

    The body is stored with paths alone: the address may have changed when a message is sent again.
    """
    fields = json.loads(body)
    links = {name: f"{base}{path}" for name, path in fields["links"].items()}
    lines = [line for line in (fields["text"], links.get("dashboard")) if line]
    return json.dumps({**fields, "links": links, "text": "\n".join(lines)})


def _iso(instant: int | None) -> str | None:
    return None if instant is None else to_datetime(instant).isoformat()


def _span(length: int) -> str:
    """Return a duration for people: minutes from a minute on.

    >>> _span(25 * MINUTE + 3 * SECOND), _span(3 * SECOND), _span(-5)
    ('25m', '3s', '0s')
    """
    unit = SECOND if length < MINUTE else MINUTE
    return duration_text(max(length, 0) // unit * unit) or "0s"


def _number(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
