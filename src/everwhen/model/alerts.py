"""Alerts: their classes, the rules by which they are sent, and what is stored about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args

from everwhen.model.events import EventType
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND

Severity = Literal["info", "warning", "error", "critical"]
AlertState = Literal["open", "resolved"]
NoticeState = Literal["waiting", "digest", "gathered", "reported", "resolving", "dropped"]
DeliveryKind = Literal["opened", "repeated", "resolved", "digest", "test", "ping"]
DeliveryState = Literal["waiting", "delivered", "given_up"]
ChannelKind = Literal["http", "email", "command", "apprise", "ping"]
SilenceKind = Literal["schedule", "group"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
CHANNELS: tuple[ChannelKind, ...] = ("http", "email", "command", "apprise")  # of rules
PROBLEMS, ALL = "problems", "all"
FACT_SPAN = 10 * MINUTE  # a fact ends by itself this long after the last event of its key
FLAPPING = 3  # openings within `FLAPPING_SPAN` cooldowns
FLAPPING_SPAN = 6


class AlertClass(NamedTuple):
    """A class of alerts. `word` begins its title. A fact never resolves: it is reported once."""

    severity: Severity
    word: str
    is_problem: bool = True
    is_fact: bool = False


CLASSES: Mapping[str, AlertClass] = {
    "schedule.failing": AlertClass("error", "FAILING"),
    "schedule.died": AlertClass("error", "DEAD"),
    "schedule.invalidated": AlertClass("error", "INVALID"),
    "breaker.opened": AlertClass("error", "BREAKER OPEN"),
    "schedule.silent": AlertClass("error", "SILENT"),
    "schedule.missed": AlertClass("warning", "MISSED", is_fact=True),
    "schedule.overdue": AlertClass("warning", "OVERDUE"),
    "schedule.slow": AlertClass("info", "SLOW", is_problem=False),
    "schedule.approval_requested": AlertClass("info", "APPROVAL"),
    "budget.warning": AlertClass("warning", "BUDGET"),
    "budget.reached": AlertClass("error", "BUDGET REACHED"),
    "budget.unmeasured": AlertClass("warning", "BUDGET UNMEASURED"),
    "scheduler.stalled": AlertClass("critical", "STALLED"),
    "scheduler.feed_delayed": AlertClass("warning", "FEED DELAYED"),
    "node.lost": AlertClass("warning", "NODE LOST", is_fact=True),
    "node.unfit": AlertClass("error", "NODE UNFIT"),
    "scheduler.clock_stepped": AlertClass("warning", "CLOCK SET", is_fact=True),
    "config.rejected": AlertClass("warning", "CONFIG REJECTED"),
    "alert.failed": AlertClass("error", "ALERT FAILED"),
}
# Any other recorded event can be told where a rule names it: a fact.
OTHER_EVENT = AlertClass("info", "EVENT", is_problem=False, is_fact=True)


def class_of(name: str) -> AlertClass:
    return CLASSES.get(name, OTHER_EVENT)


def classes_named(word: str) -> frozenset[str]:
    """Return the classes that a word of `on` means; nothing for an unknown one.

    >>> sorted(classes_named("breaker.*")), sorted(classes_named("token.*")), classes_named("nonsense")
    (['breaker.opened'], ['token.created', 'token.revoked'], frozenset())
    """
    if word in (PROBLEMS, ALL):
        return frozenset(name for name, one in CLASSES.items() if word == ALL or one.is_problem)
    if not word.endswith(".*"):
        return frozenset({word} & {*CLASSES, *get_args(EventType)})
    prefix = word.removesuffix("*")
    found = frozenset(name for name in CLASSES if name.startswith(prefix))
    return found or frozenset(name for name in get_args(EventType) if name.startswith(prefix))


@dataclass(frozen=True, slots=True)
class Concern:
    """What a rule is about (`for`); an empty part means everything. `severity`: the least one."""

    groups: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    schedules: frozenset[str] = frozenset()
    severity: Severity = "info"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One rule: its channel, what it reports, and how often. Durations in microseconds; `repeat` 0: never.

    `spec` is the channel's part of the file as JSON, references unresolved.
    """

    name: str
    channel: ChannelKind
    spec: str
    classes: frozenset[str]
    concern: Concern = field(default_factory=Concern)
    group_wait: int = 30 * SECOND
    cooldown: int = 10 * MINUTE
    repeat: int = DAY
    tells_resolved: bool = True
    quiet_hours: str | None = None
    max_per_hour: int = 20

    @property
    def fields(self) -> Any:
        return json.loads(self.spec)


class Alert(NamedTuple):
    """A row of `alerts`. Its key is its class and its subject; at most one alert of a key is open."""

    id: int
    key: str
    class_: str
    severity: Severity
    state: AlertState
    since: int
    last_at: int
    resolved_at: int | None
    count_: int
    schedule_id: str | None
    uid: str | None
    owner: str | None
    group_: str | None
    evidence: str  # JSON
    acked_at: int | None = None
    acked_by: str | None = None

    @property
    def details(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.evidence)
        return found

    @property
    def subject(self) -> str:
        """Return the schedule, or what else the alert is about.

        >>> Alert.about("breaker.opened", "withings:poll", 0).subject
        'withings:poll'
        """
        return self.schedule_id or self.key.partition(" ")[2]

    @staticmethod
    def about(name: str, subject: str, at: int, **more: Any) -> Alert:
        """Return a new alert, without a number."""
        plain: dict[str, Any] = dict.fromkeys(("resolved_at", "schedule_id", "uid", "owner", "group_"))
        plain |= {"severity": class_of(name).severity, "evidence": "{}", **more}
        return Alert(
            id=0,
            key=key_of(name, subject),
            class_=name,
            state="open",
            since=at,
            last_at=at,
            count_=1,
            **plain,
        )


def key_of(name: str, subject: str) -> str:
    return f"{name} {subject}"


class Notice(NamedTuple):
    """An alert as one rule handles it. `due_at`: when it is looked at next; `delivery`: its message."""

    alert: int
    rule: str
    state: NoticeState
    due_at: int | None
    reported_at: int | None = None
    is_flapping: bool = False
    delivery: int | None = None


class Silence(NamedTuple):
    """Alerts of one schedule or group are held until an instant."""

    id: int
    kind: SilenceKind
    subject: str
    until: int
    actor: str | None
    created_at: int

    def covers(self, alert: Alert) -> bool:
        return self.subject == (alert.schedule_id if self.kind == "schedule" else alert.group_)


class AlertDelivery(NamedTuple):
    """A message of the outbox: `next_at` is None once it was delivered or given up."""

    id: int
    delivery_id: str
    rule: str
    kind: DeliveryKind
    class_: str | None
    owner: str | None
    body: str  # JSON
    created_at: int
    next_at: int | None
    attempts: int = 0
    error: str | None = None
    delivered_at: int | None = None
    given_up_at: int | None = None

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Sent(NamedTuple):
    """The answer of a channel. `is_final`: a repetition is in vain; `retry_after`: in microseconds.

    `body_limit`: how many bytes of a ping's body the receiver keeps, if it announces that. `is_forbidden`: this node
    may not reach the address; another node may have other settings.
    """

    is_delivered: bool
    answer: str = ""
    is_final: bool = False
    retry_after: int | None = None
    body_limit: int | None = None
    is_forbidden: bool = False


class Channel(Protocol):
    """Sends a message to the outside; it blocks, for at most ten seconds or so."""

    def send(self, spec: Any, delivery: AlertDelivery) -> Sent: ...


# Pauses after the attempts of one delivery; then hourly, until it is a day old.
PAUSES = (10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE)
GIVE_UP_AFTER = DAY


def pause_after_attempt(attempts: int) -> int:
    """Return the pause after so many attempts.

    >>> [pause_after_attempt(n) // SECOND for n in (1, 2, 3, 4, 5, 6, 20)]
    [10, 30, 60, 300, 900, 3600, 3600]
    """
    return PAUSES[attempts - 1] if attempts <= len(PAUSES) else HOUR
