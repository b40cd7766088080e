"""Messages about alerts: which rule reports which alert, when, and with which others.

A *notice* is an alert as one rule handles it:

    waiting → reported → resolving → dropped       waiting → dropped: it was over before it was reported
    waiting → gathered: another alert explains it, and lists it; or it was paused, and has not failed since
    waiting → digest: the rule has said enough within this hour, or the notifier was away

All of this is decided from notices and `now`, so that it is decided again after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from everwhen.decide.alerts import AFTER_PAUSE, APPROVAL_REQUESTED, FAILING
from everwhen.model.alerts import (
    FLAPPING,
    FLAPPING_SPAN,
    SEVERITIES,
    Alert,
    AlertRule,
    DeliveryKind,
    Notice,
    Silence,
    class_of,
)
from everwhen.model.instants import HOUR
from everwhen.model.policy import BUDGET

# -- who is told, and when --


class Past(NamedTuple):
    """An earlier alert of a key, with the notice that a rule has of it."""

    since: int
    resolved_at: int | None
    notice: Notice | None


NO_KEYS: Mapping[str, str] = MappingProxyType({})


def is_concerned(rule: AlertRule, alert: Alert, keys: Mapping[str, str] = NO_KEYS) -> bool:
    """Check whether a rule reports an alert; other rules report that its own delivery failed.

    `keys`: the callers' own keys of schedules, by uid. A rule names a schedule by its id or its key.
    """
    concern, names = rule.concern, {alert.schedule_id, keys.get(alert.uid or "")}
    return (
        alert.class_ in rule.classes
        and SEVERITIES.index(alert.severity) >= SEVERITIES.index(concern.severity)
        and (not concern.groups or alert.group_ in concern.groups)
        and (not concern.owners or alert.owner in concern.owners)
        and (not concern.schedules or not names.isdisjoint(concern.schedules))
        and not (alert.class_ == "alert.failed" and alert.subject == rule.name)
    )


class NewNotice(NamedTuple):
    """The notice of a new alert, and the one of the alert before it that is over with it."""

    notice: Notice
    replaced: Notice | None = None


def notice_of(alert: Alert, rule: AlertRule, past: Sequence[Past], now: int) -> NewNotice:
    """Decide when a rule reports a new alert; `past` are the earlier ones of its key, the newest first."""
    due_at = now + rule.group_wait
    span = FLAPPING_SPAN * rule.cooldown
    reported = [one.notice for one in past if one.notice is not None and one.notice.reported_at is not None]
    last_reported_at = max((one.reported_at for one in reported if one.reported_at is not None), default=None)
    waiting = Notice(alert.id, rule.name, "waiting", due_at)
    if alert.details.get(AFTER_PAUSE) and not any(one.state == "resolving" for one in reported):
        return NewNotice(waiting._replace(state="gathered", due_at=None))
    unresolved = next((one for one in reported if one.state == "resolving"), None)
    if reported and _is_flapping(
        alert.since, past, span
    ):  # it goes on: told again once per `repeat`, if it is open then
        repeat_at = max(now, (last_reported_at or now) + rule.repeat) if rule.repeat else None
        again = reported[0]._replace(alert=alert.id, state="reported", due_at=repeat_at, is_flapping=True)
        return NewNotice(again, unresolved)
    if 1 + sum(one.since > now - span for one in past) >= FLAPPING:
        return NewNotice(waiting._replace(is_flapping=True), unresolved)
    if (
        unresolved is not None and alert.class_ != APPROVAL_REQUESTED
    ):  # nobody was told of the end: it goes on
        again = unresolved._replace(alert=alert.id, state="reported", due_at=_next_repeat(rule, alert, now))
        return NewNotice(again, unresolved)
    if last_reported_at is not None:
        due_at = max(due_at, last_reported_at + rule.cooldown)
    return NewNotice(waiting._replace(due_at=due_at), unresolved)


def _is_flapping(since: int, past: Sequence[Past], span: int) -> bool:
    """Check whether a rule has reported that this key flaps, and the key has not been quiet for the span since."""
    for one in past:
        if since - (one.resolved_at or one.since) >= span:
            return False
        if one.notice is not None and one.notice.is_flapping:
            return True
        since = one.since
    return False


def notice_after_end(notice: Notice, alert: Alert, rule: AlertRule, now: int) -> Notice:
    """Return a notice after its alert has resolved: a resolve goes out only where its opening did."""
    if class_of(alert.class_).is_fact:
        return notice if notice.state != "reported" else notice._replace(due_at=None)
    if notice.is_flapping and notice.state in ("waiting", "digest"):
        return notice  # that it flaps is the news
    if notice.state == "reported" and rule.tells_resolved:
        wait = FLAPPING_SPAN * rule.cooldown if notice.is_flapping else rule.group_wait
        return notice._replace(state="resolving", due_at=now + wait)
    return notice._replace(state="dropped", due_at=None)


# -- what explains what --

_OF_OUTAGES = frozenset(("schedule.missed", "schedule.overdue", "schedule.silent"))
INHIBITING = frozenset(
    (
        "scheduler.stalled",
        "node.lost",
        "node.unfit",
        "breaker.opened",
        "budget.reached",
        "schedule.died",
        "schedule.invalidated",
    )
)


def explains(cause: Alert, alert: Alert) -> bool:
    """Check whether one open alert is the cause of another, which is then listed in its message and not sent."""
    match cause.class_:
        case "scheduler.stalled" | "node.lost" | "node.unfit":
            return alert.class_ in _OF_OUTAGES
        case "breaker.opened":
            return alert.class_ == "schedule.failing" and alert.details.get("breaker") == cause.subject
        case "budget.reached":
            if alert.class_ == "budget.warning":  # what came before it, of the same limit
                return alert.subject == cause.subject
            is_of_group = cause.group_ is not None and cause.group_ == alert.group_
            is_of_owner = cause.details.get("key") == f"{BUDGET}owner:{alert.owner}"
            is_affected = is_of_group or is_of_owner or cause.details.get("uid") == alert.uid
            return alert.class_ == "schedule.silent" and is_affected
        case "schedule.died" | "schedule.invalidated":
            return alert.class_ == "schedule.failing" and alert.uid == cause.uid
        case _:
            return False


# -- messages --


class Known(NamedTuple):
    """A notice with its alert."""

    notice: Notice
    alert: Alert


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One message of a rule. `gathered`: alerts that those of the message explain."""

    kind: DeliveryKind
    class_: str | None
    alerts: tuple[Alert, ...]
    gathered: tuple[Alert, ...] = ()
    is_flapping: bool = False


class PlannedMessage(NamedTuple):
    """Notices after a message; the store adds the number of its delivery to those that it reports."""

    message: AlertMessage
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class RuleSituation:
    """What a rule's messages depend on, besides its notices.

    `sent_lately`: messages within the last hour. `still_open`: by delivery, how many of its alerts are open.
    `causes`: open alerts that may explain others. By uid of schedule: `failed_slots`, how many slots in a row failed,
    and `keys`, those of its caller.
    """

    now: int
    is_quiet: bool = False
    silences: Sequence[Silence] = ()
    sent_lately: int = 0
    still_open: Mapping[int, int] = field(default_factory=dict)
    causes: Sequence[Alert] = ()
    failed_slots: Mapping[str, int] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RulePlan:
    """What a rule does now: its messages, and the notices that change without one."""

    messages: list[PlannedMessage] = field(default_factory=list)
    changed: list[Notice] = field(default_factory=list)


def plan_messages(rule: AlertRule, known: Iterable[Known], around: RuleSituation) -> RulePlan:
    """Decide which messages a rule sends now. `known`: its notices that wait, are gathered, resolve or repeat."""
    return _Planner(rule, around).plan(list(known))


class _Planner:
    def __init__(self, rule: AlertRule, around: RuleSituation) -> None:
        self._rule, self._around, self._now = rule, around, around.now
        self._causes = [cause for cause in around.causes if is_concerned(rule, cause, around.keys)]
        self._left = rule.max_per_hour - around.sent_lately
        self._plan = RulePlan()

    def plan(self, known: list[Known]) -> RulePlan:
        known = [self._gathered_or_released(one) for one in known]
        gathered = [one.alert for one in known if one.notice.state == "gathered"]
        free = [one for one in known if not self._is_held(one.alert)]
        digest = [one for one in free if one.notice.state == "digest"]
        resolving = [one for one in free if one.notice.state == "resolving"]
        if any(self._is_due(one) for one in digest):
            self._digest(digest, [one for one in resolving if self._is_due(one)], gathered)
            digest = []
        else:
            self._resolve(resolving)
        for name, ones in _by_class(free, "waiting").items():
            if any(self._is_due(one) for one in ones):
                digest += self._open(
                    name, [one for one in ones if self._is_near(one)], gathered, bool(digest)
                )
        for name, ones in _by_class(free, "reported").items():
            if any(self._is_due(one) for one in ones):
                self._repeat(name, [one for one in ones if self._is_near(one)])
        return self._plan

    # -- when --

    def _is_held(self, alert: Alert) -> bool:
        is_quiet = self._around.is_quiet and alert.severity != "critical"
        return is_quiet or any(s.until > self._now and s.covers(alert) for s in self._around.silences)

    def _is_due(self, one: Known) -> bool:
        return one.notice.due_at is not None and one.notice.due_at <= self._now

    def _is_near(self, one: Known) -> bool:
        """Check whether a notice joins a message that goes out now: not one in its cooldown."""
        due_at = one.notice.due_at
        return due_at is not None and due_at <= self._now + self._rule.group_wait

    # -- what --

    def _gathered_or_released(self, one: Known) -> Known:
        notice = one.notice
        is_explained = not notice.is_flapping and any(explains(cause, one.alert) for cause in self._causes)
        if notice.state in ("waiting", "digest") and is_explained:
            return self._change(one, notice._replace(state="gathered", due_at=None))
        if notice.state == "gathered" and not is_explained:
            if one.alert.state != "open":
                return self._change(one, notice._replace(state="dropped", due_at=None))
            if not self._goes_on(one.alert):
                return one
            return self._change(
                one, notice._replace(state="waiting", due_at=self._now + self._rule.group_wait)
            )
        return one

    def _goes_on(self, alert: Alert) -> bool:
        """Check whether an alert is news after the end of what explained it.

        A schedule that failed because of a breaker, or before it died or was paused, has not run since: it is, once it
        fails again.
        Its breaker need not open then, because other schedules that share it may succeed.
        """
        if alert.class_ != FAILING:
            return True
        failed = self._around.failed_slots.get(alert.uid or "", 0)
        return failed > int(alert.details.get("failed_slots") or 0)

    def _change(self, one: Known, notice: Notice) -> Known:
        self._plan.changed.append(notice)
        return Known(notice, one.alert)

    def _open(self, name: str, ones: list[Known], gathered: Sequence[Alert], has_digest: bool) -> list[Known]:
        """Report new alerts of one class, or return them for the digest."""
        is_critical = class_of(name).severity == "critical"
        if not self._may_tell(name) or (has_digest and not is_critical):
            return [
                self._change(one, one.notice._replace(state="digest", due_at=self._now + HOUR))
                for one in ones
            ]
        alerts = tuple(one.alert for one in ones)
        is_flapping = any(one.notice.is_flapping for one in ones)
        message = AlertMessage("opened", name, alerts, _explained(gathered, alerts), is_flapping)
        self._tell(message, [self._as_reported(one) for one in ones])
        return []

    def _as_reported(self, one: Known) -> Notice:
        due_at = _next_repeat(self._rule, one.alert, self._now)
        notice = one.notice._replace(state="reported", reported_at=self._now, due_at=due_at)
        if one.alert.state == "open" or class_of(one.alert.class_).is_fact:
            return notice
        return notice_after_end(notice, one.alert, self._rule, self._now)

    def _repeat(self, name: str, ones: list[Known]) -> None:
        if not self._may_tell(name):
            later = [one.notice._replace(due_at=self._now + HOUR) for one in ones]
            self._plan.changed.extend(later)
            return
        message = AlertMessage("repeated", name, tuple(one.alert for one in ones))
        self._tell(message, [self._as_reported(one) for one in ones])

    def _digest(self, ones: list[Known], resolving: list[Known], gathered: Sequence[Alert]) -> None:
        alerts = tuple(one.alert for one in (*ones, *resolving))
        message = AlertMessage("digest", None, alerts, _explained(gathered, alerts))
        over = [one.notice._replace(state="dropped", due_at=None) for one in resolving]
        self._tell(message, [*(self._as_reported(one) for one in ones), *over])

    def _resolve(self, ones: list[Known]) -> None:
        """Report the end of alerts: those of one message end in one message, unless some take long."""
        due = {one.notice.delivery for one in ones if self._is_due(one) and self._is_complete(one, ones)}
        ready = [one for one in ones if one.notice.delivery in due and self._is_near(one)]
        for name, group in _by_class(ready, "resolving").items():
            if not self._may_tell(name):
                continue  # it stays due: a digest includes it, or a message when the hour allows one again
            message = AlertMessage("resolved", name, tuple(one.alert for one in group))
            self._tell(message, [one.notice._replace(state="dropped", due_at=None) for one in group])

    def _is_complete(self, one: Known, ones: list[Known]) -> bool:
        delivery = one.notice.delivery
        if delivery is None or not self._around.still_open.get(delivery):
            return True
        first = min(each.notice.due_at or self._now for each in ones if each.notice.delivery == delivery)
        return self._now >= first + self._rule.cooldown

    def _may_tell(self, name: str) -> bool:
        """Check whether the rule has a message left in this hour; critical alerts are exempt."""
        return self._left > 0 or class_of(name).severity == "critical"

    def _tell(self, message: AlertMessage, notices: Iterable[Notice]) -> None:
        self._left -= 1
        self._plan.messages.append(PlannedMessage(message, tuple(notices)))


def _explained(gathered: Iterable[Alert], causes: Sequence[Alert]) -> tuple[Alert, ...]:
    return tuple(one for one in gathered if any(explains(cause, one) for cause in causes))


def _next_repeat(rule: AlertRule, alert: Alert, now: int) -> int | None:
    is_over = class_of(alert.class_).is_fact or alert.acked_at is not None
    return None if is_over or not rule.repeat else now + rule.repeat


def _by_class(ones: Iterable[Known], state: str) -> dict[str, list[Known]]:
    found: dict[str, list[Known]] = {}
    for one in ones:
        if one.notice.state == state:
            found.setdefault(one.alert.class_, []).append(one)
    return found
