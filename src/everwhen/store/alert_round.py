"""One round of the notifier: alerts open and close by the events that it read, and rules get their messages.

A round is one transaction, which also moves the cursor: each event counts once, whatever crashes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from everwhen.decide.alert_messages import (
    INHIBITING,
    Known,
    Past,
    PlannedMessage,
    RuleSituation,
    is_concerned,
    notice_after_end,
    notice_of,
    plan_messages,
)
from everwhen.decide.alert_text import MOST_ITEMS, NO_COSTS, AlertCosts, BudgetCost, Facts, delivery_of
from everwhen.decide.alerts import (
    DELAYED,
    FAILING,
    PAUSED,
    AlertClosing,
    EndedJob,
    ScheduleFacts,
    closed_by_row,
    closing_of_delay,
    closings_of,
    closings_of_gone_rules,
    counted_again,
    is_another_fact,
    jobs_before,
    opening_after_pause,
    opening_of,
    opening_of_delay,
    slow_jobs,
    uid_of_group,
    with_beginning,
)
from everwhen.decide.budgets import cost_usages
from everwhen.model.alerts import (
    FACT_SPAN,
    FLAPPING_SPAN,
    Alert,
    AlertDelivery,
    AlertRule,
    Notice,
    Silence,
    key_of,
)
from everwhen.model.cost import Cost
from everwhen.model.history import Recorded
from everwhen.model.instants import HOUR, SECOND
from everwhen.model.policy import BUDGET
from everwhen.model.serialize import policy_of
from everwhen.model.spending import Spending
from everwhen.model.vitals import FeedDelay
from everwhen.store.dialect import Insert, Statement
from everwhen.store.labels import begun_pauses, labels_on_record
from everwhen.store.transaction import Snapshot, Transaction
from everwhen.timetable.windows import ClosedTimes

MOST_NOTICES = 5_000  # of one rule in one round
_MOST_PAST = 100


def columns_of(fields: Iterable[str], of: str = "") -> str:
    return ", ".join(f'{of}"{name.removesuffix("_")}"' for name in fields)


ALERT_COLUMNS = columns_of(Alert._fields)
# idx_alerts_open
_OPEN = Statement(f"SELECT {ALERT_COLUMNS} FROM alerts WHERE state = 'open' ORDER BY id")
# The primary key of alerts.
_LAST_ALERT = Statement("SELECT coalesce(max(id), 0) FROM alerts")
_NUMBERS = Statement("SELECT id FROM alerts WHERE id > :after ORDER BY id")
# idx_alerts_key; the primary key of alert_notices.
_PAST = Statement("""
SELECT a.key, a.since, a.resolved_at, n.alert, n.rule, n.state, n.due_at, n.reported_at, n.is_flapping, n.delivery
FROM alerts a LEFT JOIN alert_notices n ON n.alert = a.id
WHERE a.key = ANY(:keys::texts) AND a.since >= :since::instant AND a.id <= :until ORDER BY a.id DESC""")
# idx_alerts_key, then the primary key.
_LAST_OF_KEYS = Statement(f"""
SELECT {ALERT_COLUMNS} FROM alerts
WHERE id IN (SELECT max(id) FROM alerts WHERE key = ANY(:keys::texts) GROUP BY key)""")
_INSERT_ALERTS = Insert("alerts", tuple(name.removesuffix("_") for name in Alert._fields if name != "id"))
_PUT_ALERTS = Statement("""
UPDATE alerts AS a SET state = v.state, last_at = v.last_at, resolved_at = v.resolved_at, count = v.count,
    evidence = v.evidence
FROM batch AS v(id, state, last_at, resolved_at, count, evidence) WHERE a.id = v.id""")
_NOTICE = ", ".join(Notice._fields)
# The primary key of alert_notices.
_NOTICES_OF = Statement(f"SELECT {_NOTICE} FROM alert_notices WHERE alert = ANY(:ids::integers)")
# idx_notices_pending, idx_notices_reported. Critical ones come first, then those that may be sent before those that are
# gathered: however many wait for the end of quiet hours or of an outage, they keep none of these from its round.
_KNOWN = Statement(f"""
SELECT {", ".join(f"n.{name}" for name in Notice._fields)}, {columns_of(Alert._fields, "a.")}
FROM (SELECT {_NOTICE} FROM alert_notices WHERE rule = :rule::text
          AND state IN ('waiting', 'digest', 'gathered', 'resolving')
      UNION ALL SELECT {_NOTICE} FROM alert_notices WHERE rule = :rule::text AND state = 'reported'
          AND due_at <= :near::instant) AS n
JOIN alerts a ON a.id = n.alert
ORDER BY a.severity <> 'critical', n.state = 'gathered', n.alert LIMIT :limit""")
# idx_notices_delivery
_STILL_OPEN = Statement("""
SELECT n.delivery, count(*) FROM alert_notices n JOIN alerts a ON a.id = n.alert
WHERE n.delivery = ANY(:deliveries::integers) AND n.delivery IS NOT NULL AND n.state = 'reported' AND a.state = 'open'
GROUP BY n.delivery""")
_PUT_NOTICES = Insert("alert_notices", Notice._fields, replaces="alert, rule")
# idx_deliveries_rule
_SENT_LATELY = Statement("""
SELECT count(*) FROM alert_deliveries
WHERE rule = :rule::text AND created_at > :since::instant AND kind NOT IN ('test', 'ping')""")
SILENCE_COLUMNS = ", ".join(Silence._fields)
SILENCES = Statement(f"SELECT {SILENCE_COLUMNS} FROM alert_silences WHERE until > :now::instant ORDER BY id")
# The unique key on uid, and the primary key of schedule_costs.
_FACTS = Statement(f"""
SELECT {columns_of(name for name in ScheduleFacts._fields if name != "unreported")},
    coalesce((SELECT c.unreported FROM schedule_costs c WHERE c.uid = schedules.uid), 0)
FROM schedules WHERE uid = ANY(:uids::texts)""")
# The unique key on job_id.
_RUNNING = Statement("""
SELECT job_id, started_at FROM jobs
WHERE job_id = ANY(:ids::texts) AND status = 'running' AND started_at IS NOT NULL""")
_ENDED = Statement("SELECT job_id, slot_at, origin, status FROM jobs WHERE job_id = ANY(:ids::texts)")
_COST_OF = Statement("""
SELECT cost_amount, cost_unit, coalesce(cost_estimated, CASE cost_source WHEN 'estimated' THEN cost_amount ELSE 0 END)
FROM jobs WHERE job_id = :job_id::text AND cost_amount IS NOT NULL""")
_INSERT_DELIVERIES = Insert(
    "alert_deliveries", tuple(name.removesuffix("_") for name in AlertDelivery._fields if name != "id")
)
_DELIVERY_NUMBER = Statement("SELECT id FROM alert_deliveries WHERE delivery_id = :delivery_id::text")


def alert_of(row: Sequence[Any]) -> Alert:
    return Alert._make(row)


class Round(NamedTuple):
    """What one round of the notifier works with. `is_late`: it was away, so open alerts are reported in a digest.

    `timezone`: the service's, in which messages show instants of no schedule.
    """

    now: int
    rules: Sequence[AlertRule]
    timezone: str
    entries: Sequence[Recorded] = ()
    is_late: bool = False
    feed_delay: FeedDelay | None = None


def is_idle(tx: Snapshot, round_: Round) -> bool:
    """Check whether a round would change nothing."""
    opened = _OpenAlerts(tx, round_)
    return not (opened.closes_any() or any(_has_news(tx, rule, round_, opened) for rule in round_.rules))


def write_round(tx: Transaction, round_: Round) -> None:
    """Write what a round changes, and the messages that it sends."""
    opened = _OpenAlerts(tx, round_)
    opened.close()
    opened.write(tx)
    for rule in round_.rules:
        _send(tx, rule, round_, opened)


class _OpenAlerts:
    """The open alerts, changed by the entries of a round and by the rows of their schedules."""

    def __init__(self, tx: Snapshot, round_: Round) -> None:
        self._round = round_
        self.open: dict[str, Alert] = {one.key: one for one in tx.many(alert_of, _OPEN)}
        self._fresh: list[Alert] = []  # without numbers
        self._closed: list[Alert] = []
        self._changed: dict[int, Alert] = {}
        wanted = frozenset(name for rule in round_.rules for name in rule.classes)
        for entry in round_.entries:
            for closing in closings_of(entry.event):
                self._close(closing)
            opening = opening_of(entry, wanted)
            if opening is not None:
                self._open(opening)
        delayed = None if round_.feed_delay is None else opening_of_delay(round_.feed_delay, round_.now)
        if delayed is not None and delayed.class_ in wanted and delayed.key not in self.open:
            self._open(delayed)
        resumed = self._resumed() if FAILING in wanted else {}
        uids = {one.uid for one in self.open.values()} | {uid_of_group(one) for one in self._fresh}
        uids |= {entry.event.uid for entry in resumed.values()}
        self.facts = facts_of(tx, [uid for uid in uids if uid is not None])
        if resumed:
            self._reopen(tx, resumed)
        slow = [job for one in self.open.values() for job in slow_jobs(one)]
        self._running: dict[str, int] = dict(tx.rows(_RUNNING, ids=slow)) if slow else {}

    def _open(self, opening: Alert) -> None:
        known = self.open.get(opening.key)
        if known is not None and is_another_fact(known, opening):
            self._close(AlertClosing(known.key, known.last_at + FACT_SPAN, ""))
            known = None
        if known is None:
            self.open[opening.key] = opening
            self._fresh.append(opening)
        elif known.id:
            self.open[opening.key] = self._changed[known.id] = counted_again(known, opening)
        else:
            self.open[opening.key] = self._fresh[self._fresh.index(known)] = counted_again(known, opening)

    def _resumed(self) -> dict[str, Recorded]:
        """Return the entries about schedules that are resumed, by the key of the alert about their failures."""
        found = [one for one in self._round.entries if one.event.type == "schedule.resumed"]
        by_key = {key_of(FAILING, str(one.event.uid)): one for one in found}
        return {key: one for key, one in by_key.items() if key not in self.open}

    def _reopen(self, tx: Snapshot, resumed: Mapping[str, Recorded]) -> None:
        last = {one.key: one for one in tx.many(alert_of, _LAST_OF_KEYS, keys=list(resumed))}
        for key, entry in resumed.items():
            opening = opening_after_pause(entry, last.get(key), self.facts.get(str(entry.event.uid)))
            if opening is not None:
                self._open(opening)

    def _close(self, closing: AlertClosing) -> None:
        alert = self.open.pop(closing.key, None)
        if alert is None:
            return
        evidence = json.dumps({**alert.details, "how": closing.how})
        over = alert._replace(state="resolved", resolved_at=max(closing.at, alert.since), evidence=evidence)
        if alert.id:
            self._changed[alert.id] = over
            self._closed.append(over)
        else:
            self._fresh[self._fresh.index(alert)] = over

    def _closings(self) -> list[AlertClosing]:
        now, running = self._round.now, self._running
        found = (
            closed_by_row(one, self.facts.get(one.uid or ""), now, running) for one in self.open.values()
        )
        closings = [one for one in found if one is not None]
        closings += closings_of_gone_rules(self.open.values(), self._round.rules, now)
        if self._round.feed_delay is None:
            closings += [closing_of_delay(one, now) for one in self.open.values() if one.class_ == DELAYED]
        return closings

    def closes_any(self) -> bool:
        """Check whether anything changes."""
        return bool(self._fresh or self._changed or self._closings())

    def close(self) -> None:
        for closing in self._closings():
            self._close(closing)

    def write(self, tx: Transaction) -> None:
        """Write the alerts, and the notices of those that are new or over."""
        if self._changed:
            names = ("id", "state", "last_at", "resolved_at", "count_", "evidence")
            rows = [tuple(getattr(one, name) for name in names) for one in self._changed.values()]
            tx.run(_PUT_ALERTS, batch=rows)
        notices = [*self._ended_notices(tx), *self._new_notices(tx)]
        put_notices(tx, notices)

    def _ended_notices(self, tx: Transaction) -> list[Notice]:
        if not self._closed:
            return []
        rules, over = {rule.name: rule for rule in self._round.rules}, {one.id: one for one in self._closed}
        found = tx.many(Notice._make, _NOTICES_OF, ids=list(over))
        return [
            notice_after_end(one, over[one.alert], rules[one.rule], self._round.now)
            if one.rule in rules
            else one._replace(state="dropped", due_at=None)
            for one in found
        ]

    def _new_notices(self, tx: Transaction) -> list[Notice]:
        if not self._fresh:
            return []
        before = int(tx.value(_LAST_ALERT))
        names = [name for one in self._fresh for name in jobs_before(one)]
        jobs = {one.job_id: one for one in tx.many(EndedJob._make, _ENDED, ids=names)} if names else {}
        fresh = [with_beginning(self._with_group(one), jobs) for one in self._fresh]
        insert_alerts(tx, fresh)
        numbered = [
            one._replace(id=number)
            for one, number in zip(fresh, tx.column(_NUMBERS, after=before), strict=True)
        ]
        past = self._past(tx, [one.key for one in numbered], before)
        notices: list[Notice] = []
        for alert in numbered:
            if alert.state == "open":
                self.open[alert.key] = alert
                notices += self._notices_of(alert, past.get(alert.key, {}))
            earlier = Past(alert.since, alert.resolved_at, None)
            for rule in self._round.rules:
                past.setdefault(alert.key, {}).setdefault(rule.name, []).insert(0, earlier)
        return notices

    def _notices_of(self, alert: Alert, past: Mapping[str, Sequence[Past]]) -> list[Notice]:
        found: list[Notice] = []
        for rule in self._round.rules:
            if not is_concerned(rule, alert, self.keys):
                continue
            new = notice_of(alert, rule, past.get(rule.name, ()), self._round.now)
            notice = new.notice
            if self._round.is_late and notice.state == "waiting":
                notice = notice._replace(state="digest")
            found.append(notice)
            if new.replaced is not None:
                found.append(new.replaced._replace(state="dropped", due_at=None))
        return found

    @property
    def keys(self) -> dict[str, str]:
        """Return the keys that callers gave to the schedules of these alerts, by uid."""
        return {uid: facts.own_key for uid, facts in self.facts.items() if facts.own_key is not None}

    def _with_group(self, alert: Alert) -> Alert:
        facts = self.facts.get(uid_of_group(alert) or "")
        return alert if facts is None else alert._replace(group_=facts.group_)

    def _past(self, tx: Transaction, keys: Sequence[str], until: int) -> dict[str, dict[str, list[Past]]]:
        """Return the earlier alerts of these keys by key and rule, the newest first."""
        spans = [FLAPPING_SPAN * rule.cooldown + rule.repeat for rule in self._round.rules]
        since = self._round.now - max(spans, default=0)
        found: dict[str, dict[str, list[Past]]] = {}
        names = [rule.name for rule in self._round.rules]
        for key, since_at, resolved_at, *columns in tx.rows(
            _PAST, keys=list(set(keys)), since=since, until=until
        ):
            notice = None if columns[0] is None else _notice(columns)
            of_key = found.setdefault(key, {})
            for name in names if notice is None else [notice.rule]:
                past = of_key.setdefault(name, [])
                if len(past) < _MOST_PAST:
                    past.append(Past(since_at, resolved_at, notice))
        return found


def _notice(columns: Sequence[Any]) -> Notice:
    found = Notice._make(columns)
    return found._replace(is_flapping=bool(found.is_flapping))


def facts_of(tx: Snapshot, uids: Sequence[str]) -> dict[str, ScheduleFacts]:
    rows = tx.many(ScheduleFacts._make, _FACTS, uids=list(set(uids))) if uids else []
    return {one.uid: one for one in rows}


def put_notices(tx: Transaction, notices: Sequence[Notice]) -> None:
    if notices:
        last = {(one.alert, one.rule): one for one in notices}
        tx.insert(_PUT_NOTICES, list(last.values()))


def insert_alerts(tx: Transaction, alerts: Sequence[Alert]) -> None:
    columns = [name for name in Alert._fields if name != "id"]
    tx.insert(_INSERT_ALERTS, [tuple(getattr(one, name) for name in columns) for one in alerts])


def insert_deliveries(tx: Transaction, deliveries: Sequence[AlertDelivery]) -> None:
    columns = [name for name in AlertDelivery._fields if name != "id"]
    rows = [tuple(getattr(one, name) for name in columns) for one in deliveries]
    tx.insert(_INSERT_DELIVERIES, rows)


# -- messages --


def _has_news(tx: Snapshot, rule: AlertRule, round_: Round, opened: _OpenAlerts) -> bool:
    """Check whether a rule has anything to do."""
    found = plan_messages(rule, *_known(tx, rule, round_, opened))
    return bool(found.messages or found.changed)


def _send(tx: Transaction, rule: AlertRule, round_: Round, opened: _OpenAlerts) -> None:
    """Write the messages that a rule sends now, and what becomes of its notices."""
    found = plan_messages(rule, *_known(tx, rule, round_, opened))
    notices = list(found.changed)
    for planned in found.messages:
        notices += _deliver(tx, rule, planned, round_, opened.facts)
    put_notices(tx, notices)


def _deliver(
    tx: Transaction,
    rule: AlertRule,
    planned: PlannedMessage,
    round_: Round,
    facts: Mapping[str, ScheduleFacts],
) -> list[Notice]:
    delivery_id, now = str(uuid.uuid4()), round_.now
    message = planned.message
    shown = [*message.alerts[:MOST_ITEMS], *message.gathered[:MOST_ITEMS]]
    missing = [one.uid for one in shown if one.uid is not None and one.uid not in facts]
    known = _facts_for(tx, shown, {**facts, **facts_of(tx, missing)}, round_)
    costs = _costs_of(tx, message.alerts[0], known, now) if len(message.alerts) == 1 else NO_COSTS
    insert_deliveries(tx, [delivery_of(rule, message, known, delivery_id=delivery_id, now=now, costs=costs)])
    number = tx.number(_DELIVERY_NUMBER, delivery_id=delivery_id)
    return [one._replace(delivery=number) if one.reported_at == now else one for one in planned.notices]


def _facts_for(
    tx: Snapshot, alerts: Sequence[Alert], facts: Mapping[str, ScheduleFacts], round_: Round
) -> Facts:
    """Return what a message about these alerts says of their schedules, deleted and paused ones included."""
    deleted = {alert.uid for alert in alerts if alert.uid is not None and alert.uid not in facts}
    paused = {alert.uid for alert in alerts if alert.uid is not None and alert.details.get("how") == PAUSED}
    return Facts(facts, round_.timezone, labels_on_record(tx, deleted), begun_pauses(tx, paused))


def _costs_of(tx: Snapshot, alert: Alert, facts: Facts, now: int) -> AlertCosts:
    """Return what the job of an alert cost, and how much its schedule's budgets have spent."""
    job_id, about = alert.details.get("job_id"), facts.about(alert)
    cost, estimated = None, 0
    for amount, unit, guessed in tx.rows(_COST_OF, job_id=job_id) if job_id is not None else ():
        cost, estimated = Cost(amount, unit), guessed
    if about is None:
        return AlertCosts(cost, job_estimated=estimated)
    plan = tx.load_plans([(about.uid, about.revision)])[about.uid, about.revision]
    counted = [(one, one.unit) for one in plan.definition.budgets if one.unit is not None]
    spendings = tx.spendings([budget.key for budget, _ in counted]) if counted else {}
    found = [
        BudgetCost(budget.key.removeprefix(BUDGET), usage, unit)
        for budget, unit in counted
        for usage in cost_usages(_spending(spendings, budget.key, unit, now), budget)
    ]
    return AlertCosts(cost, tuple(found), estimated)


def _spending(spendings: Mapping[str, Spending], key: str, unit: str, now: int) -> Spending:
    return (spendings.get(key) or Spending(key)).at(now).in_unit(unit)


def _known(
    tx: Snapshot, rule: AlertRule, round_: Round, opened: _OpenAlerts
) -> tuple[list[Known], RuleSituation]:
    now, width = round_.now, len(Notice._fields)
    rows = tx.rows(_KNOWN, rule=rule.name, near=now + rule.group_wait, limit=MOST_NOTICES)
    known = [Known(_notice(row[:width]), alert_of(row[width:])) for row in rows]
    if not known:
        return [], RuleSituation(now)
    deliveries = {
        one.notice.delivery
        for one in known
        if one.notice.state == "resolving" and one.notice.delivery is not None
    }
    still = dict(tx.rows(_STILL_OPEN, deliveries=list(deliveries))) if deliveries else {}
    return known, RuleSituation(
        now,
        is_quiet=rule.quiet_hours is not None and _is_quiet(tx, rule.quiet_hours, now),
        silences=tx.many(Silence._make, SILENCES, now=now),
        sent_lately=int(tx.value(_SENT_LATELY, rule=rule.name, since=now - HOUR)),
        still_open=still,
        causes=[one for one in opened.open.values() if one.class_ in INHIBITING],
        failed_slots={uid: facts.failed_slots for uid, facts in opened.facts.items()},
        keys=opened.keys,
    )


def _is_quiet(tx: Snapshot, policy_id: str, now: int) -> bool:
    words = dict(tx.policies()).get(policy_id)
    if words is None:
        return False
    hours = policy_of(policy_id, json.loads(words)).hours
    return ClosedTimes(quiet_hours=hours).reason_at(now // SECOND) is not None
