"""A `_replace` for wide named tuples whose cost is that of what changes, not of every field's name."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def quick_replace(kind: type[T]) -> type[T]:
    """The same named tuple; its `_replace` copies the tuple whole and puts the changes in."""
    positions = {name: position for position, name in enumerate(kind._fields)}  # type: ignore[attr-defined]

    def _replace(self: T, /, **changes: Any) -> T:
        values = list(self)
        for name, value in changes.items():
            values[positions[name]] = value
        return tuple.__new__(kind, values)

    kind._replace = _replace  # type: ignore[attr-defined]
    return kind
