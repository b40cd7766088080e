"""Rows with empty columns are inserted whole and in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from everwhen.store.records import Row
from everwhen.store.sqlite.queries import SparseInsert

COLUMNS = ("name", "group", "is_ready", "note", "amount")
INSERT = SparseInsert("things", COLUMNS, sparse=("group", "is_ready", "note"))

ROWS = st.lists(
    st.tuples(
        st.text(max_size=3),
        st.none() | st.sampled_from(["", "g", "NULL", "?"]),
        st.sampled_from([None, True, False, 0, 1, 2]),
        st.none() | st.text(max_size=3),
        st.none() | st.integers(-5, 5),
    ),
    max_size=20,
)


def inserted(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """The table afterwards, in order of ids, and how many statements it took."""
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE things (id INTEGER PRIMARY KEY, name, "group", is_ready, note, amount)')
    statements = 0
    for statement, values in INSERT.runs(rows):
        connection.executemany(statement, values)
        statements += 1
    found = connection.execute(
        'SELECT name, "group", is_ready, note, amount FROM things ORDER BY id'
    ).fetchall()
    connection.close()
    return found, statements


@given(rows=ROWS)
def test_what_goes_in_comes_out_in_the_same_order(rows: list[Row]) -> None:
    assert inserted(rows)[0] == rows


def test_rows_that_are_empty_in_the_same_places_share_a_statement() -> None:
    rows: list[Row] = [(f"n{number}", None, True, None, number) for number in range(100)]
    assert inserted(rows) == (rows, 1)
    assert inserted([*rows, ("other", "g", True, None, 1), *rows])[1] == 3
