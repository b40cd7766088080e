"""The sections `quiet_hours` and `budgets`: when schedules do not fire, how often they may, and what it may cost."""

from __future__ import annotations

from typing import Any

from everwhen.config.document import DocumentNode
from everwhen.config.sections.collector import OWNER, ScheduleCollector
from everwhen.errors import CostError, SchedulerError
from everwhen.model.budget_terms import budget_terms
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import (
    EVERY_WEEKDAY,
    QuietHours,
    QuietWindow,
    parse_dates,
    parse_weekdays,
    parse_window,
)


def read_quiet_hours(node: DocumentNode, collector: ScheduleCollector) -> None:
    for policy_id, child in node.entries():
        place = child.place
        first = collector.policy_places.setdefault(policy_id, place)
        if first is not place:
            child.complain(f"is already defined in {first}")
        if not child.is_sound:
            continue
        try:
            collector.policies[policy_id] = _policy(policy_id, child, collector)
        except SchedulerError as error:
            child.complain(str(error))


def _policy(policy_id: str, node: DocumentNode, collector: ScheduleCollector) -> QuietHoursPolicy:
    fields = node.value
    name = fields.get("timezone") or collector.rules.timezone
    windows = tuple(
        QuietWindow(
            parse_window(window["between"], "between"),
            parse_weekdays(window["days"], "days") if window.get("days") is not None else EVERY_WEEKDAY,
        )
        for window in fields.get("windows") or ()
    )
    if not windows and not fields.get("dates"):
        node.complain("closes nothing; give it windows or dates")
    hours = QuietHours(
        zone(collector.rules.local_zone() if name == "local" else name),
        windows,
        parse_dates(fields.get("dates") or ()),
    )
    return QuietHoursPolicy(policy_id, fields.get("name") or policy_id, hours, fields.get("action") or "skip")


# The `budgets` section: firings and cost, per group or owner.


def read_budgets(node: DocumentNode, collector: ScheduleCollector) -> None:
    for name, child in node.entries():
        if not child.is_sound:
            continue
        if not child.fields():
            child.complain("limits nothing; give it fires_per_hour or fires_per_day")
        elif (fault := _fault_of(child.fields())) is not None:
            child.complain(fault)
        elif name in collector.budgets:
            child.complain("is already defined in another file")
        else:
            collector.budgets[name] = child.fields()


def _fault_of(fields: dict[str, Any]) -> str | None:
    try:
        terms = budget_terms(fields)
    except CostError as error:
        return str(error)
    return None if terms else "limits nothing; give it fires_per_day or cost_per_day, for example"


def warn_of_idle_budgets(node: DocumentNode, collector: ScheduleCollector) -> None:
    """Warn of a budget that no group or owner uses: its name is probably misspelled."""
    known = {name for _, name in collector.groups}
    owners = {str(one.fields["owner"]) for one in collector.collected.values() if "owner" in one.fields}
    known |= owners | {f"{OWNER}{owner}" for owner in owners}
    for name, child in node.entries():
        if name not in known:
            child.complain("no group or owner of this file has this name", severity="warning")
