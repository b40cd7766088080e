"""The `budgets` section: firings by the clock, per group or owner."""

from __future__ import annotations

from everwhen.config.node import Node
from everwhen.config.sections.collector import ScheduleCollector


def read_budgets(node: Node, collector: ScheduleCollector) -> None:
    for name, child in node.entries():
        if not child.is_sound:
            continue
        if not child.fields():
            child.complain("limits nothing; give it fires_per_hour or fires_per_day")
        elif name in collector.budgets:
            child.complain("stands in another file already")
        else:
            collector.budgets[name] = child.fields()


def warn_of_idle_budgets(node: Node, collector: ScheduleCollector) -> None:
    """Warn of a budget that no group or owner uses: its name is probably misspelled."""
    known = {name for _, name in collector.groups}
    known |= {str(one.fields["owner"]) for one in collector.collected.values() if "owner" in one.fields}
    for name, child in node.entries():
        if name not in known:
            child.complain("no group or owner of this file has this name", severity="warning")
