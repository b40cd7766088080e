"""Several processes at one database: none loses a write, none is hurt by the death of another."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from everwhen.store.lanes import Lane
from everwhen.store.sqlite.database import SqliteDatabase
from tests.store.notes import a_database, note, noted
from tests.store.processes import a_child


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "everwhen.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    opened = a_database(path)
    yield opened
    opened.close()


def test_processes_that_count_together_lose_nothing(database: SqliteDatabase, path: Path) -> None:
    database.write(Lane.API, lambda c: c.execute("CREATE TABLE counter AS SELECT 0 AS value"))
    with ExitStack() as stack:
        children = [stack.enter_context(a_child("increment", path, 700)) for _ in range(3)]
        for child in children:
            assert child.line() == "ready"
        for child in children:
            child.go_on()
        for child in children:
            child.ends_well()
    with database.read() as connection:
        assert connection.execute("SELECT value FROM counter").fetchone() == (2_100,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_writer_killed_in_its_transaction_loses_nothing_committed_and_stops_nobody(
    database: SqliteDatabase, path: Path
) -> None:
    note(database, "before")
    with a_child("write_until_killed", path) as child:
        assert child.line() == "inside"
        child.kill()
    note(database, "after")
    assert noted(database) == ["before", "committed", "after"]
    assert is_intact(path)


def test_a_database_whose_only_process_was_killed_opens_with_everything_committed(path: Path) -> None:
    a_database(path).close()
    with a_child("write_until_killed", path) as child:
        assert child.line() == "inside"
        child.kill()
    database = a_database(path)
    assert noted(database) == ["committed"]
    database.close()
    assert is_intact(path)


def test_a_reader_in_another_process_keeps_its_snapshot_and_holds_up_nobody(
    database: SqliteDatabase, path: Path
) -> None:
    note(database, "first")
    with a_child("read_until_asked", path) as child:
        assert child.line() == "1"
        note(database, "second")
        database.fold()
        child.go_on()
        assert child.line() == "1"
        child.ends_well()
    assert noted(database) == ["first", "second"]


def test_closing_beside_a_reader_in_another_process_neither_waits_nor_fails(path: Path) -> None:
    database = a_database(path)
    note(database, "first")
    with a_child("read_until_asked", path) as child:
        assert child.line() == "1"
        note(database, "second")
        database.close()
        child.go_on()
        assert child.line() == "1"
        child.ends_well()
    again = a_database(path)
    assert noted(again) == ["first", "second"]
    again.close()


def test_the_change_counter_sees_the_commit_of_another_process(database: SqliteDatabase, path: Path) -> None:
    before = database.change_counter()
    assert database.change_counter() == before
    with a_child("commit", path, "news") as child:
        child.ends_well()
    assert database.change_counter() != before
    assert noted(database) == ["news"]


def test_after_a_fork_the_child_is_asked_to_open_its_own_and_the_parent_goes_on(path: Path) -> None:
    a_database(path).close()
    with a_child("fork_and_use", path) as child:
        for _ in ("write", "read", "change_counter"):
            assert "before a fork; open it again in the new process" in child.line()
        assert child.line() == "closed"
        child.ends_well()
    database = a_database(path)
    assert noted(database) == ["before", "after"]
    database.close()


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_was_killed(
    database: SqliteDatabase, path: Path
) -> None:
    with a_child("fork_while_writing", path) as child:
        assert child.line() == "forked"
        child.kill()
        note(database, "after")  # while the forked one still lives
    assert noted(database) == ["after"]


def test_a_disk_that_fails_in_a_write_costs_that_write_only(path: Path) -> None:
    a_database(path).close()
    with a_child("outgrow_file_limit", path) as child:
        assert "disk" in child.line()
        assert child.line() == "['after']"
        child.ends_well()


def is_intact(path: Path) -> bool:
    connection = sqlite3.connect(path)
    answer = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return bool(answer == ("ok",))
