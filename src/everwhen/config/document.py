"""A file as plain values with their lines, whatever its syntax. This module does not know the keys of everwhen.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everwhen.config.problems import Path, Place

MOST_DEPTH = 50

Spot = tuple[int, int]


class Block(dict[str, Any]):
    """A mapping with the position of each entry."""

    __slots__ = ("spots",)

    def __init__(self) -> None:
        super().__init__()
        self.spots: dict[str, Spot] = {}


class Items(list[Any]):
    """A list with the position of each item.

    Items that did not change since the file was last read are shared with that reading. `moved` is the number of
    lines to add to the positions inside such an item.
    """

    __slots__ = ("moved", "spots")

    def __init__(self) -> None:
        super().__init__()
        self.spots: list[Spot] = []
        self.moved: list[int] | None = None


class Plain(str):
    """An unquoted text that contains a reference: its type is known when the reference is resolved."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One file after reading."""

    file: str
    root: Any
    is_file: bool = True  # or values from another source, which have no lines
    text: str = ""
    values: int = 0  # their number, with aliases expanded
    has_anchors: bool = False

    def place(self, path: Path) -> Place:
        """Return the place of a path; for a missing value the place of its nearest ancestor."""
        if not self.is_file:
            return Place(self.file, 0, 0)
        line, column, moved = 0, 0, 0
        value = self.root
        for step in path:
            spot = _spot(value, step)
            if spot is None:
                break
            line, column = spot[0] + moved, spot[1]
            if isinstance(value, Items) and value.moved is not None:
                moved += value.moved[int(step)]
            value = value[step]
        return Place(self.file, line + 1, column + 1)


def _spot(value: Any, step: str | int) -> Spot | None:
    if isinstance(value, Block) and isinstance(step, str):
        return value.spots.get(step)
    if isinstance(value, Items) and isinstance(step, int) and step < len(value):
        return value.spots[step]
    return None
