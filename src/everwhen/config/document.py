"""A file as plain values with their lines, whatever its syntax. This module does not know the keys of everwhen.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from everwhen.config.problems import Location, Path, Report
from everwhen.errors import shown
from everwhen.model.scalars import Severity

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

    def node(self, report: Report) -> DocumentNode:
        """Return its root, in its place."""
        return DocumentNode(self, (), self.root, report)

    def place(self, path: Path) -> Location:
        """Return the place of a path; for a missing value the place of its nearest ancestor."""
        if not self.is_file:
            return Location(self.file, 0, 0)
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
        return Location(self.file, line + 1, column + 1)


def _spot(value: Any, step: str | int) -> Spot | None:
    if isinstance(value, Block) and isinstance(step, str):
        return value.spots.get(step)
    if isinstance(value, Items) and isinstance(step, int) and step < len(value):
        return value.spots[step]
    return None


# A value with its place in a document: the checks and the sections read it, and report problems at it.


class DocumentNode:
    """A value with its place."""

    __slots__ = ("document", "path", "report", "value")

    def __init__(self, document: Document, path: Path, value: Any, report: Report) -> None:
        self.document = document
        self.path = path
        self.value = value
        self.report = report

    def __getitem__(self, step: str | int) -> DocumentNode:
        return DocumentNode(self.document, (*self.path, step), self.value[step], self.report)

    @property
    def place(self) -> Location:
        return self.document.place(self.path)

    def complain(self, message: str, *steps: str | int, severity: Severity = "error") -> None:
        path = (*self.path, *steps)
        message = message.removeprefix(f"{path[-1]}: ") if path else message  # the path contains it already
        self.report.add(self.document.place(path), path, message, severity)

    @property
    def is_in_file(self) -> bool:
        return self.document.is_file

    @property
    def is_trusted(self) -> bool:
        """Return whether an equal schedule was valid at the last reading."""
        return self.report.trusts(self.value)

    @property
    def is_sound(self) -> bool:
        """Return whether no error was found here or inside."""
        return self.report.is_sound(self.document.file, self.path)

    def has(self, path: Path) -> bool:
        value = self.value
        for step in path:
            if not isinstance(value, Block) or step not in value:
                return False
            value = value[str(step)]
        return True

    def fields(self) -> dict[str, Any]:
        """Return the entries of a mapping that are set and valid, as plain values."""
        if self.report.has_errors:
            return {key: child.value for key, child in self.entries() if child.is_sound}
        found = self.value.items() if isinstance(self.value, Block) else ()
        return {key: value for key, value in found if value is not None}

    def entries(self) -> list[tuple[str, DocumentNode]]:
        """Return the entries of a mapping that are set."""
        found = self.value.items() if isinstance(self.value, Block) else ()
        return [(key, self[key]) for key, value in found if value is not None]

    def items(self) -> list[DocumentNode]:
        return [self[number] for number in range(len(self.value))] if isinstance(self.value, Items) else []


def plain_node(value: Any, report: Report) -> DocumentNode:
    """Convert values from JSON or Python to a document without lines; report what is not plain data."""
    return Document("", _Copier(report).copied(value, ()), is_file=False).node(report)


class _Copier:
    """Converts plain values to the types that a file is read into."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def copied(self, value: Any, path: Path) -> Any:
        if type(value) is str and value.isascii():  # nearly all are
            return value
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            return value if _is_unicode(value) else self._refused(path, "holds no Unicode text")
        if isinstance(value, float):
            return value if isfinite(value) else self._refused(path, f"{value} is not a JSON value")
        if len(path) > MOST_DEPTH:
            return self._refused(path[:3], f"is nested more than {MOST_DEPTH} levels deep")
        if isinstance(value, dict | Mapping):
            return self._block(value, path)
        if isinstance(value, list | tuple):
            items = Items()
            items.extend(self.copied(item, (*path, number)) for number, item in enumerate(value))
            return items
        return self._refused(path, f"a {type(value).__name__} is not a JSON value")

    def _block(self, value: Mapping[Any, Any], path: Path) -> Block:
        block = Block()
        for key, item in value.items():
            if not isinstance(key, str) or not (key.isascii() or _is_unicode(key)):
                self._refused(path, f'the key "{shown(key)}" must be text')
            else:
                block[key] = self.copied(item, (*path, key))
        return block

    def _refused(self, path: Path, message: str) -> None:
        self._report.add(Location("", 0), path, message)


def _is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate, which JSON can express and no database can store."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
