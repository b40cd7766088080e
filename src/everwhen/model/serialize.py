"""A definition as plain values and back, as the row of a revision holds it. Instants and durations stay exact.

Only what differs from the default is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from json import JSONEncoder, loads
from operator import attrgetter
from typing import Any

from everwhen.errors import StoreError
from everwhen.model.fast_values import by_identity, by_text
from everwhen.model.policy import BUDGET_FIRES, BreakerRule, Budget, Capacity, Guard, Made, OnExhausted
from everwhen.model.schedule import Definition, QuietHoursPolicy, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger
from everwhen.timetable.windows import QuietHours, QuietWindow, Window

Fields = dict[str, Any]

# Rules that are written as a list of their fields.
_LISTS = {"only_between": Window, "guard": Guard, "capacity": Capacity, "breaker": BreakerRule, "made": Made}
_PLAIN = {
    field.name: field.default
    for field in fields(Definition)
    if field.name not in ("trigger", "zone", "target", "budgets", "on_exhausted", *_LISTS)
}
# The keys that say when it fires. They come first in the text, so that a query can cut them off.
_TIMES = tuple(
    "gap fold start_at end_at jitter_ms not_on outside_window quiet_hours_id interval_from".split()
)
_OTHERS = tuple(name for name in _PLAIN if name not in _TIMES)
BEFORE_TIMES, BEHIND_TIMES = '{"timezone":', ',"target":'
_NO_TARGET = Target("none", "{}")
_plain_times, _plain_others = attrgetter(*_TIMES), attrgetter(*_OTHERS)
_encode = JSONEncoder(separators=(",", ":")).encode


@by_identity(most=4_096, size=attrgetter("size"))
def text_of(definition: Definition) -> str:
    return _encode(fields_of(definition))


@by_text(most=4_096)
def definition_in(text: str) -> Definition:
    """Return the definition that the row of a revision holds; equal rows share it."""
    return definition_of(loads(text))


def fields_of(definition: Definition) -> Fields:
    values: Fields = {
        "timezone": definition.zone.name,  # first: release 0.2 begins with the trigger, and has times behind the target
        "trigger": _trigger_to_json(definition.trigger),
    }
    values |= _without_defaults(_TIMES, _plain_times(definition))
    if definition.only_between is not None:
        values["only_between"] = list(definition.only_between)
    values["target"] = list(definition.target)
    values |= _without_defaults(_OTHERS, _plain_others(definition))
    if definition.on_exhausted != _unsaid_on_exhausted(values):
        values["on_exhausted"] = definition.on_exhausted
    rules = {name: getattr(definition, name) for name in _LISTS if name != "only_between"}
    values |= {name: list(rule) for name, rule in rules.items() if rule is not None}
    if definition.budgets:
        values |= _budgets_to_json(definition.budgets)
    return values


def _without_defaults(names: tuple[str, ...], values: tuple[Any, ...]) -> Fields:
    return {name: value for name, value in zip(names, values, strict=True) if value != _PLAIN[name]}


def definition_of(values: Mapping[str, Any]) -> Definition:
    return Definition(
        trigger=_trigger_of(values["trigger"]),
        zone=zone(values["timezone"]),
        target=Target(*values["target"]),
        budgets=_budgets_of(values),
        on_exhausted=values.get("on_exhausted") or _unsaid_on_exhausted(values),
        **{name: make(*values[name]) for name, make in _LISTS.items() if name in values},
        **{name: values[name] for name in _PLAIN if name in values},
    )


def times_in(text: str) -> Definition:
    """Return a definition that fires when the one in the text does; equal times share it.

    The text may end where the times do: then it is an object by itself.
    """
    if BEHIND_TIMES not in text:
        return _times_in(text)
    values = loads(text)
    names = ("timezone", "trigger", *_TIMES, "only_between")
    return _times_in(_encode({name: values[name] for name in names if name in values}))


@by_text(most=16_384)
def _times_in(text: str) -> Definition:
    values = loads(text)
    window = values.pop("only_between", None)
    return Definition(
        _trigger_of(values.pop("trigger")),
        zone(values.pop("timezone")),
        _NO_TARGET,
        only_between=None if window is None else Window(*window),
        **values,
    )


def _budgets_to_json(budgets: tuple[Budget, ...]) -> Fields:
    """Return the firings as every release reads them, and the rest, where there is more, in a key of its own."""
    values: Fields = {"budgets": [list(budget[:BUDGET_FIRES]) for budget in budgets]}
    terms = [_terms(budget) for budget in budgets]
    if any(terms):
        values["budget_terms"] = terms
    intervals = [budget.min_interval for budget in budgets]
    # Release 0.2 refuses a definition with a term that it does not know.
    if any(interval is not None for interval in intervals):
        values["budget_intervals"] = intervals
    return values


def _terms(budget: Budget) -> Fields:
    default = Budget(budget.key)
    names = [name for name in Budget._fields[BUDGET_FIRES:] if name != "min_interval"]
    return {name: getattr(budget, name) for name in names if getattr(budget, name) != getattr(default, name)}


def _budgets_of(values: Mapping[str, Any]) -> tuple[Budget, ...]:
    budgets = values.get("budgets", ())
    terms = values.get("budget_terms") or [{}] * len(budgets)
    intervals = values.get("budget_intervals") or [None] * len(budgets)
    return tuple(
        Budget(*budget, **{**more, "min_interval": interval})
        for budget, more, interval in zip(budgets, terms, intervals, strict=True)
    )


def _unsaid_on_exhausted(values: Mapping[str, Any]) -> OnExhausted:
    """Return the default of a revision: before there was `on_exhausted`, `max_retries` meant `stop`."""
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
            # Release 0.2 rounded instants up to seconds; what it wrote has no fraction, and stays as it is.
            fraction = {"fraction": trigger.fraction} if trigger.fraction else {}
            return {trigger.kind: trigger.text, "instant": trigger.instant, **fraction}
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
            return Once(instant, "at", text, values.get("fraction", 0))
        case {"after": text, "instant": instant}:
            return Once(instant, "after", text, values.get("fraction", 0))
        case {"on": kind}:
            return OnRequest(kind)
    raise StoreError(f"a stored trigger cannot be read: {values!r}; it was written by a newer everwhen")


def policy_to_json(policy: QuietHoursPolicy) -> Fields:
    return {
        "name": policy.name,
        "timezone": policy.hours.zone.name,
        "windows": [[*one.window, one.weekdays] for one in policy.hours.windows],
        "dates": [list(span) for span in policy.hours.dates],
        "action": policy.action,
    }


def policy_of(policy_id: str, values: Mapping[str, Any]) -> QuietHoursPolicy:
    hours = QuietHours(
        zone(values["timezone"]),
        tuple(QuietWindow(Window(start, end), weekdays) for start, end, weekdays in values["windows"]),
        tuple((first, last) for first, last in values["dates"]),
    )
    return QuietHoursPolicy(policy_id, values["name"], hours, values["action"])
