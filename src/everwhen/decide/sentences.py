"""The clause for a reason, filled in with the figures of a schedule's definition. The texts are in `model.reasons`."""

from __future__ import annotations

from collections.abc import Mapping

from everwhen.model.instants import moment_of
from everwhen.model.schedule import Plan, QuietHoursPolicy
from everwhen.timetable.civil_time import Zone
from everwhen.timetable.windows import EVERY_WEEKDAY, QuietWindow

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def cause(
    text: Mapping[str, str], reason: str, plan: Plan, at: int, *, were: str = "were", are: str = "are"
) -> str:
    """Return the clause for a reason, with the schedule's own figures."""
    return text[reason].format_map(_figures(plan, at) | {"were": were, "are": are})


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
