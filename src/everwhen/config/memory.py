"""Schedules that need not be checked again when a file is read again, because their fields are the same.

Only those whose result depends on nothing but their fields and the rules that the reader compares. Excluded are those
that depend on the current time, on a manifest or a module, or on a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from everwhen.config.files import File
from everwhen.model.declared import Declarations, Declared

_CHANGEABLE = frozenset(("at", "after", "start_at", "end_at"))
_STEADY = frozenset(("command", "http", "message"))


class Read(Protocol):
    """A configuration that was read."""

    @property
    def files(self) -> Sequence[File]: ...

    @property
    def declared(self) -> Declarations: ...


def memory_of(last: Read) -> dict[str, tuple[dict[str, Any], Declared]]:
    """Return the fields and the declaration of each schedule that may be reused, by id."""
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
