"""The texts for every reason of the closed list, filled in with the schedule's definition. They decide nothing.

A cause is a clause; `were` in it is replaced by the verb in the right tense: what was, is, or will be in force.
"""

from __future__ import annotations

from collections.abc import Mapping

from everwhen.model.instants import moment_of
from everwhen.model.schedule import Plan, QuietHoursPolicy
from everwhen.timetable.civil_time import Zone
from everwhen.timetable.windows import EVERY_WEEKDAY, QuietWindow

SKIPPED: Mapping[str, str] = {
    "excluded_day": "the schedule does not run on a {weekday} (not_on)",
    "outside_window": "{time} is outside its window {window} (only_between)",
    "quiet_hours": "quiet hours {quiet} {were} in force",
    "circuit_open": "the circuit breaker {breaker} was open",
    "already_running": "an earlier run was still going (if_running: skip)",
    "retrying": "an earlier slot was still waiting for its turn or its retry (if_running: skip)",
    "queue_full": "{queue_limit:,} jobs were waiting already (queue_limit)",
    "budget": "the budget of firings was spent ({budgets})",
    "superseded": "it was held, and the next slot came first",
    "edited": "the schedule's times were edited before it was decided",
    "paused": "the schedule was stopped before it was decided",
}
MISSED: Mapping[str, str] = {
    "down": "no scheduler was running then",
    "late": "the scheduler was running but came too late for it",
    "catch_up_limit": "more slots had been missed than the {catch_up_limit:,} that may be caught up (catch_up_limit)",
    "circuit_open": "the circuit breaker {breaker} was open when it could have been caught up",
    "budget": "the budget of firings was spent when it could have been caught up ({budgets})",
}
HELD: Mapping[str, str] = {
    "outstanding_limit": "{guard} of its kind may be outstanding, and that many are (max_outstanding)",
    "at_capacity": "{group} may run {capacity} at once, and that many are running (max_concurrent)",
    "excluded_day": "the schedule does not run on a {weekday} (not_on)",
    "outside_window": "{time} is outside its window {window} (only_between)",
    "quiet_hours": "quiet hours {quiet} {were} in force",
}
# For future slots. A condition that holds now and ends at a known instant is shown with that instant.
PRESENT: Mapping[str, str] = {
    "circuit_open": "the circuit breaker {breaker} is open",
    "budget": "the budget of firings ({budgets}) is spent",
}
AHEAD: Mapping[str, str] = {
    **{reason: SKIPPED[reason] for reason in ("excluded_day", "outside_window", "quiet_hours")},
    **PRESENT,
    "superseded": "it will be held, and the next slot comes first",
    "system": "the system is paused",
}
SPANS: Mapping[str, str] = {
    "paused": "lies in a span in which the schedule was paused",
    "invalid": "lies in a span in which the schedule could not run as configured",
    "done": "lies after the schedule was done",
    "dead": "lies after the schedule died of too many failures",
    "in_the_past": "was already past when the schedule was declared",
    "system": "lies in a span in which the whole system was paused",
    "restored": "lies between a backup and its restore, and what became of it is not on record",
}
STANDING: Mapping[str, str] = {  # for future slots, as long as the span is not ended
    "paused": "will not fire while the schedule is paused",
    "invalid": "will not fire while the schedule cannot run as configured",
    "done": "will not fire: the schedule is done",
    "dead": "will not fire: the schedule is dead",
    "in_the_past": "will not fire: the schedule is done",
    "system": "will not fire while the system is paused",
    "restored": "will not fire: it lies between a backup and its restore",  # the clock was put back since
}
ON_REQUEST = "is fired by a request, never by the clock"  # `unsupported_type`
CANCELLED: Mapping[str, str] = {
    "pause": "its job was cancelled because the schedule was paused",
    "done": "its job was cancelled because the schedule was done",
    "dead": "its job was cancelled because the schedule died",
    "deleted": "its job was cancelled because the schedule was deleted",
    "overlap": "its job was cancelled by the next slot (if_running: cancel)",
    "circuit_open": "its job was cancelled because the circuit breaker opened",
    "person": "its job was cancelled by a person",
}

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def cause(text: Mapping[str, str], reason: str, plan: Plan, at: int, *, were: str = "were") -> str:
    """Return the clause for a reason, with the schedule's own figures."""
    return text[reason].format_map(_figures(plan, at) | {"were": were})


def spoken(zone: Zone, instant: int) -> str:
    """Return an instant as people read it: time, zone, weekday and date, in the schedule's zone."""
    moment = zone.localized(moment_of(instant))
    return f"{_time(zone, instant)} {zone.name} on {moment:%A}, {moment.day} {moment:%B %Y}"


def _time(zone: Zone, instant: int) -> str:
    return f"{zone.localized(moment_of(instant)):%H:%M:%S}".removesuffix(":00")


def _figures(plan: Plan, at: int) -> dict[str, object]:
    definition = plan.definition
    zone = definition.zone
    return {
        "time": _time(zone, at),
        "weekday": f"{zone.localized(moment_of(at)):%A}",
        "window": f"{definition.only_between} {zone.name}" if definition.only_between else "of then",
        "quiet": "of then" if plan.quiet is None else _quiet(plan.quiet, at),
        "breaker": definition.breaker.key if definition.breaker else "of then",
        "guard": "no more" if definition.guard is None else _jobs(definition.guard.limit),
        "capacity": "no more" if definition.capacity is None else _jobs(definition.capacity.limit),
        "group": definition.group or "its group",
        "budgets": ", ".join(budget.key for budget in definition.budgets) or "of then",
        "queue_limit": definition.queue_limit,
        "catch_up_limit": definition.catch_up_limit,
    }


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _quiet(policy: QuietHoursPolicy, at: int) -> str:
    """Return `nights (Mon Tue Wed Thu Fri 22:00-07:00 Europe/Paris)`, for example, with all windows."""
    spans = [_quiet_window(window) for window in policy.hours.windows]
    if policy.hours.dates:
        spans.append("its dates")
    return f"{policy.name or policy.policy_id} ({', '.join(spans)} {policy.hours.zone.name})"


def _quiet_window(quiet: QuietWindow) -> str:
    if quiet.weekdays == EVERY_WEEKDAY:
        return str(quiet.window)
    days = " ".join(name for number, name in enumerate(_DAYS) if quiet.weekdays >> number & 1)
    return f"{days} {quiet.window}"
