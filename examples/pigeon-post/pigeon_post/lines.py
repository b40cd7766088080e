"""A work source: the lines of a file, one item each, the first line first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from everwhen.model.work_item import WorkItem, WorkOutcome


class LinesSource:
    """Claims a line by taking it out of the file; for one worker at a time, as examples are."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fetch_available(self, *, limit: int = 10) -> list[WorkItem]:
        return [WorkItem(id=line, title=line, source="lines") for line in self._lines()[:limit]]

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        lines = self._lines()
        if item_id not in lines:
            return None
        lines.remove(item_id)
        self._path.write_text("".join(f"{line}\n" for line in lines))
        return WorkItem(id=item_id, title=item_id, source="lines")

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        with self._path.with_suffix(".done").open("a") as done:
            done.write(f"{outcome.status}: {item_id}\n")

    def release(self, item_id: str, *, reason: str) -> None:
        with self._path.open("a") as lines:
            lines.write(f"{item_id}\n")

    def get(self, item_id: str) -> WorkItem | None:
        return WorkItem(id=item_id, title=item_id, source="lines") if item_id in self._lines() else None

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


def open_lines(fields: Mapping[str, Any]) -> LinesSource:
    """`{type: lines, path: todo.txt}`."""
    return LinesSource(Path(fields["path"]))
