"""Statements on one connection of any database: what reads and writes of this package are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from everwhen.stores.dialect import Insert, Statement
from everwhen.stores.records import Row


class DuplicateError(Exception):
    """A row has the unique key of one that exists, or of another in the same batch."""


class Queries(ABC):
    """A connection that runs statements; instants are integers in both directions.

    The parameter `batch` of a statement is a sequence of rows in the order of its columns.
    """

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
    def insert(self, insert: Insert, rows: Sequence[Row]) -> int:
        """Insert rows, and return how many were inserted or overwritten."""

    @abstractmethod
    def insert_unique(self, insert: Insert, rows: Sequence[Row]) -> None:
        """Insert rows; raise DuplicateError where one exists."""

    @abstractmethod
    def update(self, table: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Update these columns of rows whose last value is their row_id."""

    @abstractmethod
    def expect_long_statements(self) -> None:
        """Announce that a statement of this transaction may take its time."""

    def rows_to_change(self, statement: Statement, **values: Any) -> list[Any]:
        """Return rows that this transaction may change: where transactions run concurrently, it locks them."""
        return self.rows(statement, **values)

    def expect(self, count: int, changed: int) -> None:
        """Refuse a change of fewer rows than were read, where others may have changed them meanwhile."""
        return

    def row(self, statement: Statement, **values: Any) -> Any:
        """Return the first row, or None."""
        found = self.rows(statement, **values)
        return found[0] if found else None

    def value(self, statement: Statement, **values: Any) -> Any:
        """Return the first column of the first row, or None."""
        found = self.rows(statement, **values)
        return found[0][0] if found else None

    def number(self, statement: Statement, **values: Any) -> int | None:
        """Return the same, which is a number or an instant."""
        found: int | None = self.value(statement, **values)
        return found

    def text(self, statement: Statement, **values: Any) -> str | None:
        """Return the same, which is a text."""
        found: str | None = self.value(statement, **values)
        return found
