"""A value with its place in a document: the checks and the sections read it, and report problems at it."""

from __future__ import annotations

from typing import Any

from everwhen.config.document import Block, Document, Items
from everwhen.config.problems import Path, Place, Report
from everwhen.model.scalars import Severity


class Node:
    """A value with its place."""

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
        message = message.removeprefix(f"{path[-1]}: ") if path else message  # the path contains it already
        self.report.add(self.document.place(path), path, message, severity)

    @property
    def is_in_file(self) -> bool:
        return self.document.is_file

    @property
    def is_trusted(self) -> bool:
        """Tell whether an equal schedule was valid at the last reading."""
        return self.report.trusts(self.value)

    @property
    def is_sound(self) -> bool:
        """Tell whether no error was found here or inside."""
        return self.report.is_sound(self.document.file, self.path)

    def has(self, path: Path) -> bool:
        """Tell whether the path exists."""
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

    def entries(self) -> list[tuple[str, Node]]:
        """Return the entries of a mapping that are set."""
        found = self.value.items() if isinstance(self.value, Block) else ()
        return [(key, self[key]) for key, value in found if value is not None]

    def items(self) -> list[Node]:
        """Return the items of a list."""
        return [self[number] for number in range(len(self.value))] if isinstance(self.value, Items) else []
