"""Alerts: which events open and close them. `alert_messages` decides when which rule reports them.

Everything here is a value: the store loads alerts and the schedules that they are about, and writes what these
functions return, in the transaction that moves the cursor. An alert opens by an event. It closes by an event
(`closings_of`) or by the row of its schedule (`closed_by_row`): a success has no event of its own, and no run pays for
one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from everwhen.model.alerts import (
    CLASSES,
    FACT_SPAN,
    Alert,
    AlertRule,
    class_of,
    key_of,
)
from everwhen.model.events import Event
from everwhen.model.history import Recorded
from everwhen.model.job import FAILURES, OWN_ORIGINS, job_id
from everwhen.model.outcome import with_type
from everwhen.model.policy import BUDGET
from everwhen.model.vitals import FeedDelay
from everwhen.model.webhooks import is_of_webhook, rule_of_webhook

MOST_EVENT_IDS = 20
PAUSED = "paused"  # how an alert ended
NOBODY: Mapping[str, int] = MappingProxyType({})

# -- from events to alerts --


class AlertClosing(NamedTuple):
    """The end of the alert with a key; `how` completes its sentence."""

    key: str
    at: int
    how: str


def opening_of(recorded: Recorded, wanted: Collection[str]) -> Alert | None:
    """Return the alert that an event opens, or counts for; `wanted` are the classes that some rule reports.

    `alerts.group_` is that of a schedule (`uid_of_group`): the caller adds it.
    """
    event = recorded.event
    if event.type not in wanted or event.type == DELAYED:
        return None
    return Alert.about(
        event.type,
        _subject(event),
        event.at,
        schedule_id=event.schedule_id if _names_schedule(event) else None,
        uid=event.uid if _names_schedule(event) else None,
        owner=event.owner,
        group_=_text(event, "group") or _group_of_budget(event),
        evidence=json.dumps(_evidence(recorded), default=str),
    )


FAILING = "schedule.failing"
APPROVAL_REQUESTED = "schedule.approval_requested"  # each asks for another revision
AFTER_PAUSE = "after_pause"  # in the evidence
BEGAN_AT = "began_at"  # in the evidence: the first slot that failed
MOST_LOOKED_AT = 6  # firings, manual ones included: many schedules may fail in one round
_JOB_ID = re.compile(r"sched-(.+)-n([0-9]+)-rc[0-9]+")


class EndedJob(NamedTuple):
    """A job before the one that an alert about failures names."""

    job_id: str
    slot_at: int
    origin: str
    status: str


def jobs_before(alert: Alert) -> list[str]:
    """Return the jobs of the firings before the one that an alert about failures names, the newest first."""
    if alert.class_ != FAILING or alert.details.get("failed_slots") == 1:
        return []
    found = _JOB_ID.fullmatch(str(alert.details.get("job_id")))
    if found is None:
        return []
    uid, last = found[1], int(found[2])
    return [job_id(uid, number, 0) for number in range(last - 1, max(last - MOST_LOOKED_AT, 1) - 1, -1)]


def with_beginning(alert: Alert, jobs: Mapping[str, EndedJob]) -> Alert:
    """Return an alert about failures with the first slot that failed: its event is that of the last of them."""
    details, slot_at = alert.details, alert.details.get("slot_at")
    if alert.class_ != FAILING or not isinstance(slot_at, int):
        return alert
    known = (jobs[name] for name in jobs_before(alert) if name in jobs)
    failed = [one.slot_at for one in known if one.origin in OWN_ORIGINS and one.status in FAILURES]
    slots = [slot_at, *failed[: int(details.get("failed_slots") or 1) - 1]]
    return alert._replace(evidence=json.dumps({**details, BEGAN_AT: min(slots)}))


def opening_after_pause(recorded: Recorded, last: Alert | None, facts: ScheduleFacts | None) -> Alert | None:
    """Return the alert about a schedule that was paused while it failed, and is resumed; it is reported when it fails
    again.

    `last`: the last alert about its failures, which the pause closed. The event is recorded once until the next
    success, so that no other one opens it.
    """
    if last is None or last.details.get("how") != PAUSED:
        return None
    if facts is None or facts.status != "active" or not facts.failed_slots:
        return None
    evidence = {**last.details, "failed_slots": facts.failed_slots, AFTER_PAUSE: True}
    del evidence["how"]
    evidence.pop(BEGAN_AT, None)
    at = recorded.event.at
    fresh = last._replace(id=0, state="open", since=at, last_at=at, resolved_at=None, count_=1)
    return fresh._replace(acked_at=None, acked_by=None, evidence=json.dumps(evidence))


def is_another_fact(alert: Alert, again: Alert) -> bool:
    """Check whether an event is a fact of its own: the one before it ended by itself, though nobody looked then."""
    return class_of(alert.class_).is_fact and again.last_at - alert.last_at >= FACT_SPAN


# A feed that is delayed delays its own event. So this alert is opened and closed by what the notifier sees of the
# database, and by no event.


DELAYED = "scheduler.feed_delayed"


def opening_of_delay(delay: FeedDelay, now: int) -> Alert:
    """Return the alert about a transaction that holds the event feed back."""
    evidence = {"reason": str(delay), "pid": delay.pid, "application": delay.application}
    return Alert.about(DELAYED, "everwhen", now, evidence=json.dumps(evidence))


def closings_of_gone_rules(
    alerts: Iterable[Alert], rules: Iterable[AlertRule], now: int
) -> list[AlertClosing]:
    """Return the ends of alerts about rules that are not in the file any more: nothing could be delivered by them."""
    known = {rule.name for rule in rules}
    return [
        AlertClosing(one.key, now, "the rule is gone")
        for one in alerts
        if one.class_ == "alert.failed" and one.subject not in known and not is_of_webhook(one.subject)
    ]


def closing_of_delay(alert: Alert, now: int) -> AlertClosing:
    return AlertClosing(alert.key, now, "the transaction has ended")


def closings_of(event: Event) -> list[AlertClosing]:
    """Return the alerts that an event closes, whether or not they are open."""

    def closing(name: str, subject: str | None, how: str) -> list[AlertClosing]:
        return [] if subject is None else [AlertClosing(key_of(name, subject), event.at, how)]

    match event.type:
        case "breaker.closed" | "breaker.reset":
            return closing("breaker.opened", _text(event, "key"), event.type.partition(".")[2])
        case "config.reloaded" if (
            "source" not in event.detail
        ):  # a program may declare schedules beside the file
            return closing("config.rejected", "configuration", "a good configuration was loaded")
        case "scheduler.recovered" | "scheduler.stopped" | "node.lost":
            how = {"scheduler.recovered": "ready again", "scheduler.stopped": "stopped"}.get(
                event.type, "lost"
            )
            gone = (
                []
                if event.type == "scheduler.recovered"
                else closing("node.unfit", _text(event, "node"), how)
            )
            return [*closing("scheduler.stalled", _text(event, "node"), how), *gone]
        case "node.fit":
            return closing("node.unfit", _text(event, "node"), "it can begin jobs again")
        case "schedule.approved" | "schedule.declined" | "schedule.expired":
            return closing("schedule.approval_requested", event.uid, event.type.partition(".")[2])
        case "alert.sent":
            return closing("alert.failed", _text(event, "rule"), "delivered again")
        case "webhook.deleted":
            return closing("alert.failed", _rule_of_webhook(event), "deleted")
        case "webhook.updated" if event.detail.get("active") is True:
            return closing("alert.failed", _rule_of_webhook(event), "switched on again")
        case "budget.measured":
            return closing("budget.unmeasured", event.uid, "reported a cost")
        case "budget.refilled":
            names = [name for name in CLASSES if name.startswith("budget.")]
            return [one for name in names for one in closing(name, _subject(event), "refilled")]
        case _:
            return []


def _rule_of_webhook(event: Event) -> str | None:
    webhook_id = _text(event, "webhook")
    return None if webhook_id is None else rule_of_webhook(webhook_id)


def counted_again(alert: Alert, again: Alert) -> Alert:
    """Return an open alert after one more event of its key: the evidence is that of the last one."""
    ids = [*alert.details.get("event_ids", ()), *again.details.get("event_ids", ())]
    began = {key: value for key, value in alert.details.items() if key == BEGAN_AT}
    evidence = {**again.details, **began, "event_ids": ids[-MOST_EVENT_IDS:]}
    if "slots" in evidence:
        evidence["slots"] += alert.details.get("slots", 0)
    if "job_ids" in evidence:
        evidence["job_ids"] = [*alert.details.get("job_ids", ()), *evidence["job_ids"]][-MOST_EVENT_IDS:]
    return alert._replace(
        last_at=max(alert.last_at, again.last_at), count_=alert.count_ + 1, evidence=json.dumps(evidence)
    )


def _is_about_schedule(event: Event) -> bool:
    is_shared = event.type.startswith(("breaker.", "budget.")) and event.type != "budget.unmeasured"
    return event.uid is not None and not is_shared


def _names_schedule(event: Event) -> bool:
    """Check whether an alert names the schedule of its event: also for a breaker that only this schedule has."""
    has_breaker = event.type.startswith("breaker.") and _text(event, "key") == event.schedule_id
    return has_breaker or _is_about_schedule(event)


def uid_of_group(alert: Alert) -> str | None:
    """Return the schedule whose group a new alert concerns; of a breaker, the one whose run changed it."""
    found: str | None = alert.uid
    if alert.class_.startswith("breaker."):
        found = alert.details.get("uid")
    return found


def _subject(event: Event) -> str:
    if _is_about_schedule(event):
        return str(event.uid)
    if event.type == "config.rejected":
        return "configuration"
    if (limit := _text(event, "limit")) and (key := _text(event, "key")):
        return f"{key.removeprefix(BUDGET)} {limit}"
    for name in ("key", "node", "rule", "name", "token_id"):
        if found := _text(event, name):
            return found
    return event.uid or event.actor or "everwhen"


def _group_of_budget(event: Event) -> str | None:
    """Return the group whose budget an event is about; None for that of an owner or a token."""
    key = _text(event, "key") if event.type.startswith("budget.") else None
    if key is None or not key.startswith(BUDGET):
        return None
    name = key.removeprefix(BUDGET)
    return None if name.startswith(("owner:", "token:")) else name


def _text(event: Event, name: str) -> str | None:
    found = event.detail.get(name)
    return found if isinstance(found, str) else None


def _evidence(recorded: Recorded) -> dict[str, Any]:
    event = recorded.event
    said: dict[str, Any] = {"job_id": event.job_id, "slot_at": event.slot_at, "reason": event.reason}
    plain = {key: value for key, value in event.detail.items() if isinstance(value, str | int | float)}
    error = _last_error(event) or plain.get("error") or _first_lines(event)
    if event.type == "schedule.missed":
        said["slots"] = event.slot_count
    if event.type == "schedule.slow":
        said["job_ids"] = [event.job_id]
    if event.type == "schedule.approval_requested":
        said["next"] = event.detail.get("next")
    if not _is_about_schedule(event):  # what opened it
        said |= {"schedule_id": event.schedule_id, "uid": event.uid}
    found = {**plain, **said, "error": error}
    return {key: value for key, value in found.items() if value is not None} | {"event_ids": [recorded.id]}


def _last_error(event: Event) -> str | None:
    error = _text(event, "last_error")
    return None if error is None else with_type(error, _text(event, "last_error_type"))


def _first_lines(event: Event) -> str | None:
    """Return the mistakes of a refused configuration, as far as they were recorded."""
    lines = event.detail.get("lines")
    return "; ".join(map(str, lines)) if isinstance(lines, list | tuple) and lines else None


# -- from rows to the end of alerts --


class ScheduleFacts(NamedTuple):
    """The columns of a schedule's row that end its alerts, or stand in their text."""

    uid: str
    schedule_id: str
    revision: int
    name: str
    group_: str | None
    status: str
    paused_by: str | None
    failed_slots: int
    next_slot_at: int | None
    next_run_at: int | None
    held_slot_at: int | None
    last_success_at: int | None
    expect_met_at: int | None
    last_error: str | None
    timezone: str
    key: str | None = None
    unreported: int = 0  # runs in a row without a cost

    @property
    def own_key(self) -> str | None:
        """Return the key that its caller gave it, without the caller's owner."""
        return None if self.key is None else self.key.rpartition("/")[2]


def closed_by_row(
    alert: Alert, facts: ScheduleFacts | None, now: int, running: Mapping[str, int] = NOBODY
) -> AlertClosing | None:
    """Return the end of an open alert, if its schedule's row shows that it is over (None: it is deleted).

    `running`: when the jobs that alerts are about were started, as far as they run.
    """
    if class_of(alert.class_).is_fact:
        return AlertClosing(alert.key, now, "") if now - alert.last_at >= FACT_SPAN else None
    if alert.uid is None:
        refill_at = alert.details.get("refill_at")
        if not isinstance(refill_at, int) or refill_at > now:
            return None
        return AlertClosing(alert.key, refill_at, "refilled")
    if facts is None:
        return AlertClosing(alert.key, now, "deleted")
    how = _ended(alert, facts, running)
    met_at = facts.last_success_at
    if alert.class_ == "schedule.silent":
        met_at = max(met_at or 0, facts.expect_met_at or 0)
    at = met_at if how == "succeeded" else None
    return None if how is None else AlertClosing(alert.key, at or now, how)


def slow_jobs(alert: Alert) -> list[str]:
    """Return the jobs whose runs an alert calls slow; none for an alert of another class."""
    return list(alert.details.get("job_ids", ())) if alert.class_ == "schedule.slow" else []


def _ended(alert: Alert, facts: ScheduleFacts, running: Mapping[str, int]) -> str | None:
    slot_at = alert.details.get("slot_at")
    match alert.class_:
        case "schedule.approval_requested":
            return None if facts.paused_by == "approval" else "answered"
        case _ if facts.status == "paused":
            return PAUSED
        case "schedule.failing":
            return "succeeded" if facts.failed_slots == 0 else None
        case "schedule.died":
            return f"{facts.status} again" if facts.status != "dead" else None
        case "schedule.invalidated":
            return f"{facts.status} again" if facts.status != "invalid" else None
        case "schedule.silent":
            met_at = max(facts.last_success_at or 0, facts.expect_met_at or 0)
            if facts.status in ("done", "dead", "invalid"):
                return facts.status
            return "succeeded" if met_at > alert.since else None
        case "schedule.slow":  # a later attempt of the same job is another run
            started = [running[job] for job in slow_jobs(alert) if job in running]
            return None if any(at <= alert.last_at for at in started) else "ended"
        case "budget.unmeasured":
            return "reported a cost" if facts.unreported == 0 else None
        case "schedule.overdue":
            is_next = facts.next_slot_at is not None and slot_at is not None and facts.next_slot_at <= slot_at
            return None if is_next or facts.held_slot_at == slot_at else "decided"
        case _:
            return None
