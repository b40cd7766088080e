"""`db copy` is killed at its worst moments, and run again: no slot can fire on both sides at any time."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from everwhen.errors import MovedError, StoreError, shown_url
from everwhen.model.vitals import Move
from everwhen.store.sqlite.database import open_sqlite
from everwhen.store.sqlite.move import SqliteMove
from everwhen.wiring import migrate_database, move_database, open_node_stack
from tests.copying.installation import make_installation, on_target
from tests.targets.running import until

# A process of its own, which ends where a kill -9 is to hit it.
PROGRAM = """
import os, signal, sys
from everwhen import wiring
from everwhen.store.postgres import copy as postgres_copy
from everwhen.store.sqlite import move as sqlite_move

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

source, target, where = sys.argv[1:]
put_mark = sqlite_move._put_mark
if where == "before the mark":
    sqlite_move._put_mark = lambda c, move: die() if move.state == "moved" else put_mark(c, move)
elif where == "before the commit":
    postgres_copy._set_sequences = lambda connection, table, columns: die() if table.name == "tokens" else None
elif where == "before the first row":
    postgres_copy._refuse_rows = die
wiring.move_database(source, target)
"""
MOMENTS = {"before the first row": 0, "before the commit": 0, "before the mark": 21}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_copy_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, postgres_url: str, moment: str
) -> None:
    installation = make_installation(tmp_path)
    command = [sys.executable, "-c", PROGRAM, installation.url, postgres_url, moment]
    assert subprocess.run(command, timeout=120, check=False).returncode == -signal.SIGKILL
    with pytest.raises(MovedError, match=r"began on .* and has not ended; run `everwhen db copy`"):
        open_node_stack(installation.url)
    received = move_database(installation.url, postgres_url)
    assert received.is_new is (MOMENTS[moment] == 0)
    assert received.rows["schedules"] == 21
    with pytest.raises(MovedError, match="was moved to"):
        open_node_stack(installation.url)
    with psycopg.connect(postgres_url) as there:
        assert there.execute("SELECT count(*) FROM settings WHERE key = 'copied_from'").fetchone() == (1,)
    with on_target(postgres_url) as s:
        s.rescue()
        s.run_until("2026-01-05T11:00:00Z")
        assert len(s.jobs("g.held")) == 1
        assert s.check().is_clean, s.check().faults


def test_a_commit_that_is_still_on_its_way_is_waited_for(tmp_path: Path, postgres_url: str) -> None:
    """A process can die behind its COMMIT, and the server comes to it only later."""
    installation = make_installation(tmp_path)
    migrate_database(postgres_url)
    with closing(open_sqlite(installation.url)) as source:
        SqliteMove(source).begin_move(Move("abc", shown_url(postgres_url), "moving", 0), now=0, silent=0)
    with (
        psycopg.connect(postgres_url) as earlier,
        psycopg.connect(postgres_url, autocommit=True) as watching,
        ThreadPoolExecutor() as pool,
    ):
        earlier.execute("""INSERT INTO settings VALUES ('copied_from', '{"copy_id": "abc"}')""")
        second = pool.submit(move_database, installation.url, postgres_url)
        until(lambda: watching.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone() is not None)
        earlier.commit()
        assert second.result(60).is_new is False


def test_a_mark_that_cannot_be_written_behind_the_commit_keeps_the_source_closed(
    tmp_path: Path, postgres_url: str
) -> None:
    """As on a full disk: the target has everything, so the first mark must not be taken back."""
    installation = make_installation(tmp_path)
    with closing(sqlite3.connect(installation.url.removeprefix("sqlite:///"))) as connection:
        connection.execute(
            """CREATE TRIGGER full BEFORE UPDATE ON settings WHEN NEW.value LIKE '%"state": "moved"%'
            BEGIN SELECT RAISE(ABORT, 'no room'); END"""
        )
        with pytest.raises(StoreError, match="no room"):
            move_database(installation.url, postgres_url)
        with pytest.raises(MovedError, match="has not ended"):
            open_node_stack(installation.url)
        connection.execute("DROP TRIGGER full")
    assert move_database(installation.url, postgres_url).is_new is False
