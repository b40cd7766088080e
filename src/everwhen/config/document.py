"""A file as plain values that know their lines, however they were read. Knows no key of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everwhen.config.problems import Path, Place

MOST_DEPTH = 50

Spot = tuple[int, int]


class Block(dict[str, Any]):
    """A mapping whose entries know where they stand."""

    __slots__ = ("spots",)

    def __init__(self) -> None:
        super().__init__()
        self.spots: dict[str, Spot] = {}


class Items(list[Any]):
    """A list whose items know where they stand.

    `moved` says by how many lines what is inside an item stands further down than it says itself: items that are
    the same as when the file was last read are shared with that reading.
    """

    __slots__ = ("moved", "spots")

    def __init__(self) -> None:
        super().__init__()
        self.spots: list[Spot] = []
        self.moved: list[int] | None = None


class Plain(str):
    """An unquoted text with a reference in it: its type is known when the reference is resolved."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One file, read."""

    file: str
    root: Any
    is_file: bool = True  # or words that came another way, which have no lines
    text: str = ""
    values: int = 0  # how many it holds, its aliases written out
    has_anchors: bool = False

    def place(self, path: Path) -> Place:
        """Where a path stands; what is not there stands where its nearest ancestor does."""
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
