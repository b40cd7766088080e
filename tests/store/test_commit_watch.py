"""The watch over commits: who sleeps learns of each commit, and nobody is woken without one."""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from everwhen.store.lanes import Lane
from everwhen.store.sqlite.commit_watch import CommitWatch, open_file_events
from everwhen.store.sqlite.database import SqliteDatabase
from tests.store.notes import a_database, note, noted, until
from tests.store.processes import a_child

LONG = 60.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "everwhen.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    with closing(a_database(path)) as opened:
        yield opened


class Notifications:
    """What a follower gets."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.counters: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.comes = database.changes.follow(self.counters.put)

    def next(self) -> int:
        return self.counters.get(timeout=LONG)


def test_a_follower_is_notified_of_the_commit_of_another_process_when_it_can_be_seen(
    database: SqliteDatabase, path: Path
) -> None:
    followed = Notifications(database)
    before = database.change_counter()
    with a_child("commit", path, "news") as child:
        assert followed.next() != before
        assert noted(database) == ["news"]
        child.ends_well()


@pytest.mark.parametrize("is_file", [True, False])
def test_a_follower_is_notified_of_the_commits_of_its_own_process(path: Path, is_file: bool) -> None:
    with closing(a_database(path if is_file else None)) as database:
        followed = Notifications(database)
        assert followed.comes
        for body in ("one", "two"):
            note(database, body)
            assert followed.next() == database.changes()


def test_reads_heartbeats_and_turns_that_change_nothing_wake_nobody(
    database: SqliteDatabase, path: Path
) -> None:
    followed = Notifications(database)
    with closing(a_database(path)) as other:
        for one in (database, other):
            noted(one)
            one.write(Lane.TICK, noted_in_a_turn)
            one.changes()
        note(other, "alive", Lane.HEARTBEAT)
        note(other, "news")
        followed.next()
    assert database.changes.wake_ups == 1


def noted_in_a_turn(connection: sqlite3.Connection) -> None:
    assert connection.execute("SELECT body FROM notes").fetchall() == []


def test_whoever_sleeps_looks_by_himself_once_the_lock_file_was_deleted(
    database: SqliteDatabase, path: Path
) -> None:
    followed = Notifications(database)
    Path(f"{path}.lock").unlink()
    followed.next()  # so that he begins to look
    until(lambda: not database.changes.follow(followed.counters.put))
    note(database, "news")
    assert noted(database) == ["news"]


def test_where_no_events_come_a_follower_gets_to_know_it(database: SqliteDatabase, path: Path) -> None:
    assert open_file_events(f"{path}.none") is None
    watch = CommitWatch(lambda: None, database.change_counter)
    assert not watch.follow(lambda _counter: None)
    watch.close()


def test_a_closed_database_follows_nothing_and_leaves_no_thread(path: Path) -> None:
    database = a_database(path)
    followed = Notifications(database)
    note(database, "one")
    followed.next()
    database.close()
    database.close()
    assert not database.changes.follow(followed.counters.put)
    assert not database.changes.is_running


def test_sleepers_of_a_database_whose_counter_fails_are_woken_and_meet_the_error(path: Path) -> None:
    database = a_database(path)
    watch = CommitWatch(lambda: open_file_events(f"{path}.lock"), database.change_counter)
    counters: queue.SimpleQueue[int] = queue.SimpleQueue()
    assert watch.follow(counters.put)
    note(database, "one")
    assert counters.get(timeout=LONG) >= 0
    database.close()
    Path(f"{path}.lock").touch()
    assert counters.get(timeout=LONG) == -1
    watch.close()
