"""What need not be judged again when a file is read once more: schedules whose words are the same.

Only those whose verdict depends on nothing but their words and the surroundings that the reader compares: not what
counts from now, not what a manifest or a module says, not what belongs to a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from everwhen.config.files import File
from everwhen.model.declared import Declarations, Declared
from everwhen.model.target_kinds import KINDS

_CHANGEABLE = frozenset(("at", "after", "start_at", "end_at"))
_STEADY = frozenset(kind.name for kind in KINDS.values() if kind.is_steady)


class Read(Protocol):
    """A configuration that was read."""

    @property
    def files(self) -> Sequence[File]: ...

    @property
    def declared(self) -> Declarations: ...


def memory_of(last: Read) -> dict[str, tuple[dict[str, Any], Declared]]:
    """The words and the declaration of each schedule that may be remembered, by id."""
    declared = {one.schedule_id: one for one in last.declared.schedules if one.group is None}
    found: dict[str, tuple[dict[str, Any], Declared]] = {}
    for file in last.files:
        root = file.node.value
        for fields in (root.get("schedules") or ()) if isinstance(root, dict) else ():
            name = fields.get("id")
            if name in declared and _is_steady(fields):
                found[name] = (fields, declared[name])
    return found


def _is_steady(fields: dict[str, Any]) -> bool:
    run = fields.get("run") or {}
    return _CHANGEABLE.isdisjoint(fields) and not _STEADY.isdisjoint(run)
