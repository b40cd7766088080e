"""`everwhen db` on PostgreSQL: the same commands, and a backup that needs no program beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.schema.migrate import migrate
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS as MIGRATIONS
from everwhen.testing import manual_scheduler
from tests.servers.postgres import PostgresServer


def run(*fields: str) -> Result:
    return CliRunner().invoke(everwhen, ["db", *fields])


def with_history(url: str) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z", database=url)
    s.add("daily", every="1d", if_running="allow")
    s.advance("40d")
    s.stack.close()


def test_the_whole_way_from_an_empty_database_to_a_restored_backup(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")  # no pg_dump, no pg_restore
    assert "lacks migration 1" in str(run("check", "--database", postgres_url).exception)
    migrated = run("migrate", "--database", postgres_url)
    steps = [
        "applied migration 1 (the ledger), step before",
        "applied migration 2 (release 0.2), step before",
        "applied migration 3 (release 0.3), step before",
    ]
    assert migrated.stdout.splitlines() == steps
    assert "@" in postgres_url and postgres_url.split(":")[2].split("@")[0] not in migrated.stderr
    with_history(postgres_url)
    assert (
        "41 slots, 41 jobs: every slot has exactly one entry"
        in run("check", "--database", postgres_url).stdout
    )
    pruned = run("prune", "--database", postgres_url, "--jobs", "1s", "--json")
    assert json.loads(pruned.stdout)["rows"]["jobs"] == 40
    made = run("backup", "everwhen.backup", "--database", postgres_url)
    assert made.exit_code == 0, made.exception
    empty = postgres.fresh_database()
    restored = run("restore", "everwhen.backup", "--database", empty, "--json")
    assert restored.exit_code == 0, restored.exception
    assert json.loads(restored.stdout)["schedules"] == 1
    assert run("check", "--database", empty).exit_code == 0
    postgres.drop_database(empty)


def test_a_database_of_an_earlier_release_is_backed_up_without_migrating_it(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old = PostgresDatabase(postgres_url)
    migrate(old, MIGRATIONS[:1], applied_at=0)
    old.close()
    made = run("backup", "everwhen.backup", "--database", postgres_url)
    assert made.exit_code == 0, made.exception
    assert "lacks migration 2" in str(run("check", "--database", postgres_url).exception)
    other = postgres.fresh_database()
    restored = run("restore", "everwhen.backup", "--database", other)
    assert restored.exit_code == 0, restored.exception
    assert run("check", "--database", other).exit_code == 0
    postgres.drop_database(other)
