"""A definition as plain words and back: what a revision's row holds. Instants and durations stay exact.

The words are JSON-ready and say everything; only what differs from the default is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from json import JSONEncoder, loads
from operator import attrgetter
from typing import Any

from everwhen.errors import StoreError
from everwhen.model.fast_values import by_identity
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard, OnExhausted
from everwhen.model.schedule import Definition, QuietHoursPolicy, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger
from everwhen.timetable.windows import QuietHours, QuietWindow, Window

Fields = dict[str, Any]

_PLAIN = {
    field.name: field.default
    for field in fields(Definition)
    if field.name
    not in (
        "trigger",
        "zone",
        "target",
        "only_between",
        "guard",
        "capacity",
        "breaker",
        "budgets",
        "on_exhausted",
    )
}
_plain_values = attrgetter(*_PLAIN)
_spell = JSONEncoder(separators=(",", ":")).encode


@by_identity(most=4_096)
def text_of(definition: Definition) -> str:
    """The definition in words, as a revision's row holds them."""
    return _spell(fields_of(definition))


@lru_cache(maxsize=4_096)
def definition_in(text: str) -> Definition:
    """The definition that a revision's row holds; rows that say the same share it."""
    return definition_of(loads(text))


def fields_of(definition: Definition) -> Fields:
    """The definition in words."""
    values: Fields = {
        "trigger": _trigger_to_json(definition.trigger),
        "timezone": definition.zone.name,
        "target": [definition.target.kind, definition.target.spec],
    }
    for (name, default), value in zip(_PLAIN.items(), _plain_values(definition), strict=True):
        if value != default:
            values[name] = value
    if definition.on_exhausted != _unsaid_on_exhausted(values):
        values["on_exhausted"] = definition.on_exhausted
    if definition.only_between is not None:
        values["only_between"] = [definition.only_between.start, definition.only_between.end]
    if definition.guard is not None:
        values["guard"] = [definition.guard.key, definition.guard.limit]
    if definition.capacity is not None:
        values["capacity"] = [definition.capacity.key, definition.capacity.limit]
    if definition.breaker is not None:
        rule = definition.breaker
        values["breaker"] = [rule.key, rule.threshold, rule.reset_after]
    if definition.budgets:
        values["budgets"] = [[b.key, b.per_hour, b.per_day] for b in definition.budgets]
    return values


def definition_of(values: Mapping[str, Any]) -> Definition:
    """The definition that the words say."""
    return Definition(
        trigger=_trigger_of(values["trigger"]),
        zone=zone(values["timezone"]),
        target=Target(*values["target"]),
        only_between=Window(*values["only_between"]) if "only_between" in values else None,
        guard=Guard(*values["guard"]) if "guard" in values else None,
        capacity=Capacity(*values["capacity"]) if "capacity" in values else None,
        breaker=BreakerRule(*values["breaker"]) if "breaker" in values else None,
        budgets=tuple(Budget(*budget) for budget in values.get("budgets", ())),
        on_exhausted=values.get("on_exhausted") or _unsaid_on_exhausted(values),
        **{name: values[name] for name in _PLAIN if name in values},
    )


def _unsaid_on_exhausted(values: Mapping[str, Any]) -> OnExhausted:
    """What a revision means that does not say it: before there was `on_exhausted`, `max_retries` meant `stop`."""
    return "continue" if values.get("max_retries") is None else "stop"


def _trigger_to_json(trigger: Trigger) -> Fields:
    match trigger:
        case Every():
            return {"every": trigger.text, "seconds": trigger.seconds}
        case EveryMonth():
            return {"every": trigger.text}
        case Cron():
            return {"cron": trigger.expression.text}
        case Once():
            return {trigger.kind: trigger.text, "instant": trigger.instant}
        case OnRequest():
            return {"on": trigger.kind}


def _trigger_of(values: Mapping[str, Any]) -> Trigger:
    match values:
        case {"every": text, "seconds": seconds}:
            return Every(seconds, text)
        case {"every": text}:
            return EveryMonth(text)
        case {"cron": text}:
            return Cron(parse_cron(text))
        case {"at": text, "instant": instant}:
            return Once(instant, "at", text)
        case {"after": text, "instant": instant}:
            return Once(instant, "after", text)
        case {"on": kind}:
            return OnRequest(kind)
    raise StoreError(f"a stored trigger cannot be read: {values!r}; it was written by a newer everwhen")


def policy_to_json(policy: QuietHoursPolicy) -> Fields:
    """A quiet-hours policy in words."""
    return {
        "name": policy.name,
        "timezone": policy.hours.zone.name,
        "windows": [[w.window.start, w.window.end, w.weekdays] for w in policy.hours.windows],
        "dates": [list(span) for span in policy.hours.dates],
        "action": policy.action,
    }


def policy_of(policy_id: str, values: Mapping[str, Any]) -> QuietHoursPolicy:
    """The quiet-hours policy that the words say."""
    hours = QuietHours(
        zone(values["timezone"]),
        tuple(QuietWindow(Window(start, end), weekdays) for start, end, weekdays in values["windows"]),
        tuple((first, last) for first, last in values["dates"]),
    )
    return QuietHoursPolicy(policy_id, values["name"], hours, values["action"])
