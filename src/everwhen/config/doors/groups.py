"""What plugins, agents and workflows share: one name space, and words that hold for all their schedules."""

from __future__ import annotations

from typing import Any

from everwhen.config.doors.admission import Admission
from everwhen.config.node import Node

INHERITED = ("owner", "queue", "timezone")


def join(node: Node, name: str, kind: str, admission: Admission) -> dict[str, Any]:
    """Take the name, or complain that somebody has it; the group's own words that are sound."""
    place = node.place
    first, first_kind = admission.group_places.setdefault(name, (place, kind))
    if first is not place:
        node.complain(
            f"the name is taken by a{'n' if first_kind == 'agent' else ''} {first_kind}, in {first}"
        )
    words = node.words()
    admission.groups.setdefault((kind, name), words)
    return words


def inherited(words: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """A schedule's words over those that stand on its group; a group that is disabled disables it."""
    given = {key: group[key] for key in INHERITED if key in group}
    disabled = {"enabled": False} if group.get("enabled") is False else {}
    return {**given, **words, **disabled}
