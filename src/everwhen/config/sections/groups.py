"""What plugins, agents and workflows share: one name space, and keys of the group."""

from __future__ import annotations

from typing import Any

from everwhen.config.node import Node
from everwhen.config.sections.collector import ScheduleCollector
from everwhen.errors import SchedulerError
from everwhen.model.declare import timeout_of
from everwhen.model.group import RESERVED, is_anothers, is_longer, tenant_of


def join(node: Node, name: str, kind: str, collector: ScheduleCollector) -> dict[str, Any]:
    """Reserve the name, or report that it is taken; return the group's own valid fields."""
    place = node.place
    first, first_kind = collector.group_places.setdefault(name, (place, kind))
    if first is not place:
        node.complain(
            f"the name is taken by a{'n' if first_kind == 'agent' else ''} {first_kind}, in {first}"
        )
    fields = node.fields()
    collector.groups.setdefault((kind, name), fields)
    return fields


def find_tenant(
    node: Node, fields: dict[str, Any], kind: str, group: dict[str, Any], command: str | None = None
) -> str | None:
    """Return the owner that uses another owner's shared group; None if the schedule belongs to the group's owner.

    Report the keys that such an owner may not set, and an owner who does not own the group (X9).
    """
    owner = fields.get("owner")
    if is_anothers(group, owner):
        node.complain(f'must be "{group["owner"]}", whose {kind} it runs; leave it out', "owner")
    tenant = tenant_of(group, owner)
    if tenant is None:
        return None
    for key in RESERVED:
        if key in fields:
            node.complain(f"is what the shared {kind} says for all; leave it out", key)
    if "timeout" in fields and _is_too_long(fields["timeout"], kind, group, command):
        node.complain(f"is longer than that of the shared {kind}; take a shorter one", "timeout")
    return tenant


def _is_too_long(value: Any, kind: str, group: dict[str, Any], command: str | None) -> bool:
    try:
        return is_longer(timeout_of(value, 0), kind, group, command)
    except SchedulerError:  # reported where it is declared
        return False
