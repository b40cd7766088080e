"""Importers of other schedulers' files as `everwhen.yaml`, with a list of differences.

No file is executed, except the module that holds a scheduler object, which the user names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everwhen.model.kinds import NAME

_OTHER = re.compile(r"[^a-z0-9]+")


@dataclass(slots=True)
class Imported:
    """Sections of an everwhen.yaml, and notes on what differs, in the order of the file."""

    document: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def note_others(
        self, keys: Iterable[str], known: Collection[str], place: str = "", why: str = ""
    ) -> None:
        """Note the keys that are left out, because they are not among the known ones."""
        for key in keys:
            if key not in known:
                self.note(f"{place}{key}: left out{why}")


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two documents: mappings are joined key by key, everything else is replaced.

    >>> merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [2]})
    {'a': {'b': 3, 'c': 2}, 'd': [2]}
    """
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            found[key] = merged(below, value)
        else:
            found[key] = value
    return found


class Names:
    """Ids that are derived from any text, each used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def keep(self, name: str) -> str:
        """Return the name itself where it is an unused id, else an id like it.

        >>> names = Names()
        >>> names.keep("Back_up"), names.keep("Back_up"), names.keep("back up")
        ('Back_up', 'back-up', 'back-up-2')
        """
        if not NAME.fullmatch(name) or name in self._taken:
            return self.take(name)
        self._taken.add(name)
        return name

    def take(self, wish: str, fallback: str = "job") -> str:
        """Return an unused id.

        >>> names = Names()
        >>> names.take("/usr/bin/Back up.sh"), names.take("usr bin back up sh")
        ('usr-bin-back-up-sh', 'usr-bin-back-up-sh-2')
        """
        base = _OTHER.sub("-", wish.lower()).strip("-")[:60].strip("-") or fallback
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._taken.add(name)
        return name
