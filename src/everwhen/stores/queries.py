"""Statements on one connection of any database: what reads and writes of this package are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from everwhen.stores.dialect import Statement

Row = tuple[object, ...]


class Queries(ABC):
    """A connection that runs statements; instants are integers in both directions."""

    @abstractmethod
    def rows(self, statement: Statement, **values: Any) -> list[Any]:
        """Return all rows that the statement finds."""

    @abstractmethod
    def stream(self, statement: Statement) -> Iterable[Any]:
        """Return the rows of a whole table, a portion in memory at a time."""

    @abstractmethod
    def run(self, statement: Statement, **values: Any) -> int:
        """Run a statement, and return how many rows it changed."""

    @abstractmethod
    def run_batch(self, statement: Statement, rows: Sequence[Row], **values: Any) -> int:
        """Run a statement on a batch, whose rows are in the order of its columns; return how many it changed."""

    @abstractmethod
    def expect_long_statements(self) -> None:
        """Announce that a statement of this transaction may take its time."""

    def row(self, statement: Statement, **values: Any) -> Any:
        """Return the first row, or None."""
        found = self.rows(statement, **values)
        return found[0] if found else None

    def value(self, statement: Statement, **values: Any) -> Any:
        """Return the first column of the first row, or None."""
        found = self.rows(statement, **values)
        return found[0][0] if found else None
