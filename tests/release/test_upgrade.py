"""Databases that earlier releases left behind, upgraded by the first start of this one, with all that was pending.

`tests/crash/test_previous_release.py` (make chaos) does it with live processes of both releases, which also run side by
side, on both databases and with queues.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.examples.running import run, up
from tests.release.previous_databases import CONFIG, FOLDER
from tests.servers.postgres import PostgresServer
from tests.targets.running import until

COUNTERS = (
    "SELECT schedule_id, status, fire_count, run_count, error_count FROM schedules ORDER BY schedule_id"
)
HELD = "SELECT held_slot_at IS NOT NULL, held_reason FROM schedules WHERE schedule_id = 'held'"
RAN = "SELECT count(*) FROM jobs WHERE schedule_id = 'tick' AND status = 'succeeded' AND origin = 'manual'"
PENDING = "SELECT count(*) FROM jobs WHERE schedule_id = 'retried' AND status = 'queued'"


@pytest.fixture(params=["sqlite-0.1", "postgres-0.1", "sqlite-0.2", "postgres-0.2"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    text = (FOLDER / f"{request.param}.sql").read_text()
    if request.param.startswith("sqlite"):
        with closing(sqlite3.connect(tmp_path / "e.db")) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(text)
        yield f"sqlite:///{tmp_path}/e.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.fresh_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())
    yield url
    server.drop_database(url)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return connection.execute(query).fetchall()
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def test_a_database_of_an_earlier_release_is_upgraded_and_goes_on(url: str, tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    before = {name: rest for name, *rest in rows(url, COUNTERS)}
    assert before["once"][0] == "done" and before["paused"][0] == "paused"

    def everwhen(*words: str) -> str:
        return run("everwhen", *words, "--database", url, folder=tmp_path)

    assert "applied migration 3" in everwhen("db", "migrate")
    assert {name: rest for name, *rest in rows(url, COUNTERS)} == before
    assert "exactly one entry" in everwhen("db", "check")
    assert (rows(url, PENDING), rows(url, HELD)) == ([(1,)], [(True, "quiet_hours")])
    with up(tmp_path, "--database", url):
        everwhen("schedules", "trigger", "tick")
        until(lambda: rows(url, RAN) == [(1,)], 60)
    after = {name: rest for name, *rest in rows(url, COUNTERS)}
    assert after["once"] == before["once"] and after["paused"] == before["paused"]
    assert rows(url, "SELECT name FROM tokens ORDER BY name") == [("first",), ("kept",)]
    assert "exactly one entry" in everwhen("db", "check")
