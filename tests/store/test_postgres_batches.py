"""Batches as statements: only what varies is unnested, and every row arrives as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from everwhen.store.postgres.adapters import insert, update
from everwhen.store.postgres.database import PostgresDatabase

NAMES = ("name", "number", "slot_at", "is_ready", "detail")


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    found = PostgresDatabase(postgres_url)
    columns = "name text, number bigint, slot_at timestamptz, is_ready boolean, detail jsonb"
    found.transact(
        lambda connection: connection.execute(f"CREATE TABLE t (row_id serial, {columns})".encode())
    )
    yield found
    found.close()


def write(database: PostgresDatabase, statement: tuple[str, list[Any]]) -> str:
    query, values = statement
    with database.connection() as connection:
        connection.execute(query.encode(), values)
    return query


def stored(database: PostgresDatabase) -> list[Any]:
    return database.ask("SELECT name, number, slot_at, is_ready, detail::text FROM t ORDER BY row_id")


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 1, 10, True, "{}")],
        [("a", 1, 10, True, "{}")] * 3,
        [("a", 1, 10, True, "{}"), ("b", 1, 10, True, "{}")],
        [("a", None, None, False, '{"x": 1}'), ("a", 2, 5, True, "{}"), ("a", None, 7, False, "{}")],
        [(None, None, None, False, "{}"), (None, None, None, False, "{}")],
    ],
)
def test_rows_arrive_as_they_were_in_their_order(database: PostgresDatabase, rows: list[Any]) -> None:
    write(database, insert("t", NAMES, rows))
    assert stored(database) == rows


def test_only_what_varies_is_unnested(database: PostgresDatabase) -> None:
    query = write(database, insert("t", NAMES, [("a", 1, 10, True, "{}"), ("b", 1, 10, True, "{}")]))
    assert query.endswith('FROM unnest(%s) AS v("name")')


def test_an_update_finds_its_rows(database: PostgresDatabase) -> None:
    write(database, insert("t", NAMES, [(name, 1, 10, True, "{}") for name in "abc"]))
    write(database, update("t", ("name", "number"), [("x", 7, 1), ("y", 7, 3)]))
    write(database, update("t", ("slot_at",), [(None, 2)]))
    assert [row[:3] for row in stored(database)] == [("x", 7, 10), ("b", 1, None), ("y", 7, 10)]
