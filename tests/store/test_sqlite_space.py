"""The space of an SQLite file: a new one gives free pages back a few at a time, an old one when it is rewritten."""

from __future__ import annotations

import shutil
import sqlite3
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from everwhen.errors import StoreError
from everwhen.store.lanes import Lane
from everwhen.store.opened import store_of
from everwhen.store.sqlite.database import SqliteDatabase
from everwhen.store.sqlite.space import KEPT_PAGES, give_back
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualScheduler
from everwhen.wiring import vacuum_database

START = "2026-01-05T08:00:00Z"
PAGE = 4_096


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def filled_and_emptied(path: Path, *, pages: int = 2_000, is_old: bool = False) -> SqliteDatabase:
    """A file of which nearly all pages are free; `is_old`: as earlier releases made it."""
    if is_old:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE older (x)")
    database = SqliteDatabase(str(path))

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE rows (text)")
        connection.executemany("INSERT INTO rows VALUES (?)", [("x" * PAGE,)] * pages)

    database.write(Lane.API, fill)
    database.write(Lane.API, lambda connection: connection.execute("DELETE FROM rows"))
    return database


def give_all_back(database: SqliteDatabase, most: int) -> int:
    turns = 1
    while database.write(Lane.RETENTION, lambda connection: give_back(connection, most)):
        turns += 1
    return turns


def test_a_new_file_gives_its_free_pages_back_in_small_turns_and_keeps_some(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    database = filled_and_emptied(path)
    turns = give_all_back(database, 100)
    database.close()
    assert turns > 15
    assert pragma(path, "freelist_count") == KEPT_PAGES
    assert path.stat().st_size < (KEPT_PAGES + 50) * PAGE


def test_a_turn_gives_no_more_back_than_it_may(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    database = filled_and_emptied(path)
    free = pragma(path, "freelist_count")
    database.write(Lane.RETENTION, lambda connection: give_back(connection, 10))
    assert pragma(path, "freelist_count") == free - 10
    database.close()


def test_an_old_file_gives_nothing_back_until_it_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    database = filled_and_emptied(path, is_old=True)
    assert database.write(Lane.RETENTION, lambda connection: give_back(connection, 100)) == 0
    database.rewrite(lambda _connection: None)
    database.close()
    assert (pragma(path, "auto_vacuum"), pragma(path, "freelist_count")) == (2, 0)
    assert path.stat().st_size < 20 * PAGE


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ManualScheduler]:
    found = manual_scheduler(START, database=f"sqlite:///{tmp_path}/everwhen.db")
    found.add("a", every="1h")
    yield found
    found.stack.close()


def test_a_rewrite_is_refused_while_a_node_may_use_the_file(
    scheduler: ManualScheduler, tmp_path: Path
) -> None:
    scheduler.beat()
    url = f"sqlite:///{tmp_path}/everwhen.db"
    with pytest.raises(StoreError, match="may be running"):
        vacuum_database(url, scheduler.clock)
    scheduler.clock.advance("2m")
    assert vacuum_database(url, scheduler.clock).was_incremental
    scheduler.advance("1h")
    assert scheduler.check().is_clean


Usage = namedtuple("Usage", "total used free")


def test_a_rewrite_is_refused_where_the_disk_is_full(
    scheduler: ManualScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.clock.advance("2m")
    scheduler.stack.close()
    path = tmp_path / "everwhen.db"
    before = path.stat().st_size
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: Usage(1, 1, 1_000))
    with pytest.raises(StoreError, match="make room"):
        vacuum_database(f"sqlite:///{path}", scheduler.clock)
    assert path.stat().st_size == before


def test_what_is_no_file_is_refused() -> None:
    for url in ("sqlite://", "postgresql://nobody@nowhere/nothing"):
        with pytest.raises(StoreError, match="is for SQLite files"):
            vacuum_database(url)


def test_the_rows_are_the_same_after_a_rewrite(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    database = filled_and_emptied(path, is_old=True)
    database.write(Lane.API, lambda connection: connection.execute("INSERT INTO older VALUES (7)"))
    database.rewrite(lambda _connection: None)
    with database.look() as connection:
        assert connection.execute("SELECT x FROM older").fetchall() == [(7,)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_pruning_gives_space_back(scheduler: ManualScheduler) -> None:
    assert store_of(scheduler.runtime).upkeep.give_space_back(100)[0] == 0  # there is none to spare
