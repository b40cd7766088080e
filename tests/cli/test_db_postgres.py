"""`everwhen db` on PostgreSQL: the same commands, and a backup that pg_restore takes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.errors import StoreError
from everwhen.testing import manual_scheduler
from tests.servers.postgres import PostgresServer


def run(*words: str) -> Result:
    return CliRunner().invoke(everwhen, ["db", *words])


def with_history(url: str) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z", database=url)
    s.add("daily", every="1d", if_running="allow")
    s.advance("40d")
    s.stack.close()


def test_the_whole_way_from_an_empty_database_to_a_restored_backup(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{postgres.bin_folder}:{os.environ['PATH']}")
    assert "lacks migration 1" in str(run("check", "--database", postgres_url).exception)
    migrated = run("migrate", "--database", postgres_url)
    steps = [
        "applied migration 1 (the ledger), step before",
        "applied migration 2 (release 0.2), step before",
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
    made = run("backup", "everwhen.dump", "--database", postgres_url)
    assert made.exit_code == 0, made.exception
    restored = postgres.fresh_database()
    subprocess.run(
        [postgres.bin_folder / "pg_restore", "--dbname", restored, "everwhen.dump"], check=True, timeout=60
    )
    assert run("check", "--database", restored).exit_code == 0
    postgres.drop_database(restored)


def test_without_a_pg_dump_that_is_new_enough_a_backup_says_what_to_install(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("migrate", "--database", postgres_url)
    (tmp_path / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    (tmp_path / "pg_dump").chmod(0o755)
    monkeypatch.setenv("EVERWHEN_PG_DUMP", str(tmp_path / "pg_dump"))
    result = run("backup", "everwhen.dump", "--database", postgres_url)
    assert isinstance(result.exception, StoreError)
    assert "needs pg_dump 18 or newer" in str(result.exception)
    assert "postgresql-client" in str(result.exception)
    assert not (tmp_path / "everwhen.dump").exists()
