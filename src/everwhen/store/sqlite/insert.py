"""Inserts of rows with many empty columns, without binding the empty values.

For every None and every bool the sqlite3 module looks up an adapter, which costs as much as binding four numbers; a
firing would spend a sixth of its time on that. So these values are written into the statement, and consecutive rows
with the same empty columns share one. Rows keep their order: it becomes the order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, repeat
from operator import itemgetter

Row = tuple[object, ...]
Runs = Iterator[tuple[str, Iterable[Row]]]

_LITERALS = {None: "NULL", False: "0", True: "1"}  # 0 and 1 match too, because they equal False and True


class SparseInsert:
    """An INSERT into one table; `sparse` are columns that are often empty, or booleans: two or more."""

    def __init__(self, table: str, columns: Sequence[str], sparse: Sequence[str]) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._sparse = tuple(columns.index(name) for name in sparse)
        self._values: Callable[[Row], Row] = itemgetter(*self._sparse)
        self._statement = cache(self._make_statement)

    def runs(self, rows: Iterable[Row]) -> Runs:
        """Yield statements, each with the values of its rows, one run after the other."""
        for places, alike in groupby(rows, key=self._places):
            statement, bound = self._statement(places)
            yield statement, map(bound, alike)

    def _places(self, row: Row) -> tuple[str, ...]:
        return tuple(map(_LITERALS.get, self._values(row), repeat("?")))  # type: ignore[arg-type]

    def _make_statement(self, places: tuple[str, ...]) -> tuple[str, Callable[[Row], Row]]:
        values = ["?"] * len(self._columns)
        for position, place in zip(self._sparse, places, strict=True):
            values[position] = place
        bound = [position for position, place in enumerate(values) if place == "?"]
        names = ", ".join(f'"{name}"' for name in self._columns)
        return f"INSERT INTO {self._table} ({names}) VALUES ({', '.join(values)})", itemgetter(*bound)
