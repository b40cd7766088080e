"""A value in its place: what the checks and the doors look at, and where they complain."""

from __future__ import annotations

from typing import Any

from everwhen.config.document import Block, Document, Items
from everwhen.config.problems import Path, Place, Report, Severity


class Node:
    """A value in its place."""

    __slots__ = ("document", "path", "report", "value")

    def __init__(self, document: Document, path: Path, value: Any, report: Report) -> None:
        self.document = document
        self.path = path
        self.value = value
        self.report = report

    def __getitem__(self, step: str | int) -> Node:
        return Node(self.document, (*self.path, step), self.value[step], self.report)

    @property
    def place(self) -> Place:
        return self.document.place(self.path)

    def complain(self, message: str, *steps: str | int, severity: Severity = "error") -> None:
        path = (*self.path, *steps)
        message = message.removeprefix(f"{path[-1]}: ") if path else message  # the path says it already
        self.report.add(self.document.place(path), path, message, severity)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found wrong here or inside."""
        return self.report.is_sound(self.document.file, self.path)

    def has(self, path: Path) -> bool:
        """Whether something stands there."""
        value = self.value
        for step in path:
            if not isinstance(value, Block) or step not in value:
                return False
            value = value[str(step)]
        return True

    def fields(self) -> dict[str, Any]:
        """The entries of a mapping that are set and sound, as plain values."""
        if self.report.has_errors:
            return {key: child.value for key, child in self.entries() if child.is_sound}
        found = self.value.items() if isinstance(self.value, Block) else ()
        return {key: value for key, value in found if value is not None}

    def entries(self) -> list[tuple[str, Node]]:
        """The entries of a mapping that are set."""
        found = self.value.items() if isinstance(self.value, Block) else ()
        return [(key, self[key]) for key, value in found if value is not None]

    def items(self) -> list[Node]:
        """The items of a list."""
        return [self[number] for number in range(len(self.value))] if isinstance(self.value, Items) else []
