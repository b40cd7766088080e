"""Migrations: each once, each whole, and one step of distance between program and database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from everwhen.errors import StoreError
from everwhen.store.lanes import Lane
from everwhen.store.schema.migrate import Migration, migrate, statements
from everwhen.store.sqlite.database import SqliteDatabase
from tests.store.processes import a_child
from tests.store.release import FIRST, FOURTH, RELEASE, SECOND, THIRD

NOW = 1_800_000_000_000_000


@pytest.fixture(params=["file", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(str(tmp_path / "a.db") if request.param == "file" else None)
    yield opened
    opened.close()


def test_a_new_database_gets_every_before_step_in_order(database: SqliteDatabase) -> None:
    assert migrate(database, RELEASE, applied_at=NOW) == [1, 2, 3]
    assert entries(database) == [
        (1, "letters", "before", NOW),
        (2, "senders", "before", NOW),
        (3, "readers", "before", NOW),
    ]
    assert {"letters", "log", "readers"} <= tables(database)


def test_a_second_start_applies_nothing(database: SqliteDatabase) -> None:
    migrate(database, RELEASE, applied_at=NOW)
    assert migrate(database, RELEASE, applied_at=NOW + 1) == []
    assert {applied_at for *_, applied_at in entries(database)} == {NOW}


def test_a_newer_release_applies_only_what_is_new(database: SqliteDatabase) -> None:
    migrate(database, [FIRST], applied_at=NOW)
    assert migrate(database, [FIRST, SECOND], applied_at=NOW + 1) == [2]
    assert entries(database)[-1] == (2, "senders", "before", NOW + 1)


def test_no_migrations_are_none_to_apply(database: SqliteDatabase) -> None:
    assert migrate(database, [], applied_at=NOW) == []


def test_a_trigger_is_one_statement_whatever_its_body_holds(database: SqliteDatabase) -> None:
    migrate(database, [FIRST], applied_at=NOW)
    database.write(Lane.API, lambda c: c.execute("INSERT INTO letters (text) VALUES ('hello')"))
    with database.read() as connection:
        assert connection.execute("SELECT text FROM log").fetchall() == [("written; by 1",), (";",)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; \n ; ", []),
        ("SELECT 1", ["SELECT 1;"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1;", "SELECT 2;"]),
        ("SELECT ';'; SELECT \";\"", ["SELECT ';';", 'SELECT ";";']),
        ("/* one; two */ SELECT 1;", ["/* one; two */ SELECT 1;"]),
        ("SELECT 1; -- the end; really", ["SELECT 1;", "-- the end; really"]),
    ],
)
def test_a_script_is_split_where_a_statement_ends_and_nowhere_else(script: str, expected: list[str]) -> None:
    assert list(statements(script)) == expected


def test_a_script_that_ends_in_a_comment_is_applied(database: SqliteDatabase) -> None:
    migration = Migration(number=1, name="comments", before="CREATE TABLE a (b); -- the end; really")
    assert migrate(database, [migration], applied_at=NOW) == [1]


def test_after_steps_are_applied_only_when_asked_for(database: SqliteDatabase) -> None:
    migrate(database, RELEASE, applied_at=NOW)
    assert "log" in tables(database)
    assert migrate(database, RELEASE, applied_at=NOW + 1, step="after") == [1, 2, 3]
    assert "log" not in tables(database)
    assert migrate(database, RELEASE, applied_at=NOW + 2, step="after") == []
    assert migrate(database, RELEASE, applied_at=NOW + 2) == []


def test_nothing_is_removed_before_everything_was_added(database: SqliteDatabase) -> None:
    migrate(database, [FIRST], applied_at=NOW)
    with pytest.raises(StoreError, match="migration 2 has not been applied"):
        migrate(database, [FIRST, SECOND], applied_at=NOW, step="after")
    assert "log" in tables(database)


@pytest.mark.parametrize(
    "failing", ["CREATE TABLE half (a); CREATE TABLE half (a);", "CREATE TABLE half (a); no SQL at all"]
)
def test_a_migration_that_fails_leaves_nothing_behind_and_those_before_it_stay(
    database: SqliteDatabase, failing: str
) -> None:
    with pytest.raises(StoreError):
        migrate(database, [FIRST, Migration(number=2, name="bad", before=failing), THIRD], applied_at=NOW)
    assert "half" not in tables(database)
    assert "readers" not in tables(database)
    assert [number for number, *_ in entries(database)] == [1]
    assert migrate(database, RELEASE, applied_at=NOW) == [2, 3]


def test_the_previous_release_runs_on_a_database_one_migration_ahead(database: SqliteDatabase) -> None:
    migrate(database, [*RELEASE, FOURTH], applied_at=NOW)
    assert migrate(database, RELEASE, applied_at=NOW) == []


def test_a_database_two_migrations_ahead_is_refused(database: SqliteDatabase) -> None:
    migrate(database, [*RELEASE, FOURTH], applied_at=NOW)
    with pytest.raises(StoreError, match="is at migration 4, and this release knows 2"):
        migrate(database, [FIRST, SECOND], applied_at=NOW)


def test_a_database_one_ahead_that_has_lost_what_the_old_release_needs_is_refused(
    database: SqliteDatabase,
) -> None:
    migrate(database, [*RELEASE, FOURTH], applied_at=NOW)
    migrate(database, [*RELEASE, FOURTH], applied_at=NOW, step="after")
    with pytest.raises(StoreError, match="too old for it"):
        migrate(database, RELEASE, applied_at=NOW)


def test_a_refused_database_is_left_as_it_was(database: SqliteDatabase) -> None:
    migrate(database, [*RELEASE, FOURTH], applied_at=NOW)
    before = entries(database)
    with pytest.raises(StoreError):
        migrate(database, [FIRST], applied_at=NOW)
    assert entries(database) == before


def test_migrations_out_of_order_or_numbered_twice_are_refused(database: SqliteDatabase) -> None:
    for disorder in ([SECOND, FIRST], [FIRST, FIRST]):
        with pytest.raises(StoreError, match="number them upwards, each once"):
            migrate(database, disorder, applied_at=NOW)


def test_processes_that_start_together_apply_each_migration_once(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with ExitStack() as stack:
        children = [stack.enter_context(a_child("migrate_together", path)) for _ in range(3)]
        for child in children:
            assert child.line() == "ready"
        for child in children:
            child.go_on()
        applied = [child.line() for child in children]
        for child in children:
            child.ends_well()
    numbers = [number for line in applied for number in line.strip("[]").split(", ") if number]
    assert sorted(numbers) == ["1", "2", "3"]
    database = SqliteDatabase(str(path))
    assert [number for number, *_ in entries(database)] == [1, 2, 3]
    database.close()


def entries(database: SqliteDatabase) -> list[tuple[int, str, str, int]]:
    query = "SELECT number, name, step, applied_at FROM everwhen_migrations ORDER BY applied_at, number"
    with database.read() as connection:
        return connection.execute(query).fetchall()


def tables(database: SqliteDatabase) -> set[str]:
    with database.read() as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
