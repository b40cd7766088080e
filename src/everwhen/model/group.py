"""Groups (plugins, agents and workflows) as the fields of their section: who owns them, and which keys another owner
cannot set on a shared one (X9).

A *tenant* is an owner that uses a shared group of another owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.model.declare import timeout_of
from everwhen.model.defaults import with_defaults
from everwhen.model.instants import MINUTE

Group = dict[str, Any]
Groups = Mapping[tuple[str, str], Group]
"""The fields of each group, by kind and name."""

RESERVED = ("circuit_breaker", "max_outstanding", "max_concurrent", "queue", "on_lost")
"""The keys that a shared group sets for all its tenants."""


def is_shared(group: Group) -> bool:
    return group.get("shared") is True


def tenant_of(group: Group, owner: str | None) -> str | None:
    """Return the owner if it is a tenant of the group, else None.

    >>> tenant_of({"owner": "ada", "shared": True}, "bob"), tenant_of({"owner": "ada", "shared": True}, "ada")
    ('bob', None)
    """
    return owner if is_shared(group) and owner != group.get("owner") else None


def is_anothers(group: Group, owner: str | None) -> bool:
    """Return whether the group belongs to another owner who does not share it."""
    return not is_shared(group) and None not in (owner, group.get("owner")) and owner != group["owner"]


def is_longer(timeout: int | None, kind: str, group: Group, command: str | None) -> bool:
    """Return whether a schedule's timeout in microseconds exceeds that of its group; None means no timeout."""
    by_default = with_defaults({"command": command}, kind, group=group).get("timeout")
    most = timeout_of(by_default, 10 * MINUTE)
    return most is not None and (timeout is None or timeout > most)
