"""Budgets of the file: firings by the clock, per group or owner."""

from __future__ import annotations

from everwhen.config.doors.admission import Admission
from everwhen.config.node import Node


def read_budgets(node: Node, admission: Admission) -> None:
    for name, child in node.entries():
        if not child.is_sound:
            continue
        if not child.words():
            child.complain("limits nothing; give it fires_per_hour or fires_per_day")
        elif name in admission.budgets:
            child.complain("stands in another file already")
        else:
            admission.budgets[name] = child.words()


def warn_of_idle_budgets(node: Node, admission: Admission) -> None:
    """A budget that belongs to nobody is rather a misspelled name than a wish."""
    known = {name for _, name in admission.groups}
    known |= {str(one.words["owner"]) for one in admission.admitted.values() if "owner" in one.words}
    for name, child in node.entries():
        if name not in known:
            child.complain("no group or owner of this file has this name", severity="warning")
