"""Groups, which are plugins, agents and workflows, in the words of their section: whose they are, and what another
owner cannot say about a shared one (X9).

A *tenant* is an owner that uses a shared group of somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.model.declare import timeout_of
from everwhen.model.fields import with_defaults
from everwhen.model.instants import MINUTE

Group = dict[str, Any]
Groups = Mapping[tuple[str, str], Group]
"""The words of each group, by kind and name."""

RESERVED = ("circuit_breaker", "max_outstanding", "max_concurrent", "queue", "on_lost")
"""What a shared group says for all its tenants."""


def is_shared(group: Group) -> bool:
    return group.get("shared") is True


def tenant_of(group: Group, owner: str | None) -> str | None:
    """The owner, where it is a tenant of the group.

    >>> tenant_of({"owner": "ada", "shared": True}, "bob"), tenant_of({"owner": "ada", "shared": True}, "ada")
    ('bob', None)
    """
    return owner if is_shared(group) and owner != group.get("owner") else None


def is_anothers(group: Group, owner: str | None) -> bool:
    """Whether the group has an owner, who is another, and does not share it."""
    return not is_shared(group) and None not in (owner, group.get("owner")) and owner != group["owner"]


def is_longer(timeout: int | None, kind: str, group: Group, command: str | None) -> bool:
    """Whether a schedule's timeout in microseconds is above that of its group; None means for ever."""
    by_default = with_defaults({"command": command}, kind, group=group).get("timeout")
    most = timeout_of(by_default, 10 * MINUTE)
    return most is not None and (timeout is None or timeout > most)
