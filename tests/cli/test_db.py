"""`everwhen db` as a person and as a script use it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.errors import SchedulerError
from everwhen.model.schedule import Target
from everwhen.operations.jobs import trigger_schedule
from everwhen.store.opened import store_of
from everwhen.store.schema.migrate import migrate
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS as SQLITE
from everwhen.store.sqlite.database import open_sqlite
from everwhen.testing import manual_scheduler
from everwhen.wiring import open_stack
from tests.submissions import Submission, create_schedule


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with forty days of one schedule."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/everwhen.db"
    s = manual_scheduler("2026-01-05T08:00:00Z", database=url)
    s.add("daily", every="1d", if_running="allow")
    s.advance("40d")
    s.stack.close()
    return url


def run(*fields: str) -> Result:
    return CliRunner().invoke(everwhen, ["db", *fields])


def answer(*fields: str) -> Any:
    result = run(*fields, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*fields: str) -> str:
    result = run(*fields)
    assert result.exit_code == 1
    assert isinstance(result.exception, SchedulerError)
    return str(result.exception)


# -- vacuum --


def test_a_vacuum_says_what_it_gained_and_what_it_changed(url: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "everwhen.db")) as connection:  # as an earlier release made it
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
        connection.execute("CREATE TABLE ballast AS SELECT zeroblob(1000000) AS bytes")
        connection.execute("DROP TABLE ballast")
        connection.commit()
    found = run("vacuum", "--database", url)
    assert found.exit_code == 0, found.output
    assert (
        "given back" in found.stdout and "from now on the service gives space back by itself" in found.stdout
    )
    again = answer("vacuum", "--database", url)
    assert (again["was_incremental"], again["bytes_after"]) == (True, again["bytes_before"])
    assert answer("check", "--database", url)["is_clean"]


def test_a_vacuum_is_refused_for_postgresql_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "is for SQLite files" in refusal("vacuum", "--database", "postgresql://nobody@nowhere/x")
    assert "there is no database" in refusal("vacuum", "--database", f"sqlite:///{tmp_path}/none.db")


# -- migrate --


def test_migrating_says_what_it_did_and_does_nothing_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    first = run("migrate", "--database", url)
    assert first.stdout.startswith("applied migration 1 (the ledger), step before")
    assert "migrating sqlite:///" in first.stderr
    assert run("migrate", "--database", url).stdout == "nothing to do: the schema is up to date\n"
    applied = answer("migrate", "--database", url, "--after")["applied"]
    assert applied[0] == {"number": 1, "name": "the ledger", "step": "after"}


@pytest.mark.parametrize("command", [["check"], ["prune"], ["backup", "copy.db"]])
def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, command: list[str]) -> None:
    message = refusal(*command, "--database", f"sqlite:///{tmp_path}/typo.db")
    assert "there is no database" in message and "everwhen db migrate" in message
    assert not (tmp_path / "typo.db").exists()


def test_a_file_without_our_schema_is_recognized(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)").connection.close()
    assert "lacks migration 1" in refusal("check", "--database", f"sqlite:///{tmp_path}/other.db")


# -- check --


def test_a_clean_record_is_one_sentence(url: str) -> None:
    result = run("check", "--database", url)
    assert result.exit_code == 0
    assert "1 schedule, 41 slots, 41 jobs: every slot has exactly one entry" in result.stdout


def test_every_fault_is_a_sentence_and_the_exit_code_is_1(url: str) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute("DELETE FROM jobs WHERE row_id = 7")
    connection.execute("UPDATE schedules SET outstanding = 3")
    connection.commit()
    connection.close()
    result = run("check", "--database", url)
    assert result.exit_code == 1
    assert "lost  daily at Sun 2026-01-11 08:00:00 UTC: it came due, and has no entry" in result.stdout
    assert "counter  daily: outstanding: the row says 3, the jobs make 0" in result.stdout
    as_json = run("check", "--database", url, "--json")
    assert as_json.exit_code == 1
    fields = json.loads(as_json.stdout)
    assert fields["is_clean"] is False
    assert result.stdout.splitlines()[-1].endswith(f": {fields['fault_count']} faults")
    assert len(result.stdout.splitlines()) == fields["fault_count"] + 1
    (lost,) = [fault for fault in fields["faults"] if fault["kind"] == "lost"]
    assert (lost["schedule_id"], lost["slot_at"]) == ("daily", "2026-01-11T08:00:00+00:00")


# -- prune --


def test_a_dry_run_counts_what_pruning_then_takes(url: str) -> None:
    would = answer("prune", "--database", url, "--dry-run", "--jobs", "1s")
    assert would["rows"]["jobs"] == 40  # the last one stays
    assert answer("prune", "--database", url, "--jobs", "1s")["rows"] == would["rows"]
    assert answer("prune", "--database", url, "--jobs", "1s")["total"] == 0
    assert run("check", "--database", url).exit_code == 0


def test_the_retention_of_the_file_counts_and_a_flag_stands_before_it(tmp_path: Path, url: str) -> None:
    (tmp_path / "everwhen.yaml").write_text("service: {retention: {jobs: 3650d}}\nschedules: []\n")
    assert answer("prune", "--database", url, "--dry-run")["rows"]["jobs"] == 0
    assert answer("prune", "--database", url, "--dry-run", "--jobs", "1s")["rows"]["jobs"] == 40


def test_an_age_that_is_none_is_a_usage_error(url: str) -> None:
    result = run("prune", "--database", url, "--jobs", "soon")
    assert result.exit_code == 2 and "Invalid interval" in result.output


# -- backup --


def test_a_backup_is_whole_private_and_usable(tmp_path: Path, url: str) -> None:
    target = tmp_path / "copy.db"
    fields = answer("backup", str(target), "--database", url)
    assert fields["bytes"] == target.stat().st_size > 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.db"]
    copy = open_stack(f"sqlite:///{target}")
    schedule = store_of(copy.runtime).catalogue.get("daily")
    assert schedule is not None and schedule.state.fire_count == 41
    copy.close()
    assert run("check", "--database", f"sqlite:///{target}").exit_code == 0


def schema_of(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_a_database_of_an_earlier_release_is_backed_up_without_migrating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every careful operator takes a backup before an upgrade: with whichever release is installed then."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/old.db"
    old = open_sqlite(url)
    migrate(old, SQLITE[:1], applied_at=0)
    old.close()
    before = schema_of(tmp_path / "old.db")
    assert "lacks migration 2" in refusal("check", "--database", url)
    fields = answer("backup", "copy.db", "--database", url)
    assert fields["bytes"] > 0
    assert schema_of(tmp_path / "old.db") == schema_of(tmp_path / "copy.db") == before
    restored = answer("restore", "copy.db", "--database", f"sqlite:///{tmp_path}/new.db")
    assert restored["schedules"] == 0
    assert run("check", "--database", f"sqlite:///{tmp_path}/new.db").exit_code == 0
    assert "lacks migration 2" in refusal("check", "--database", url)


def test_a_file_without_our_schema_is_not_backed_up(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)").connection.close()
    target = tmp_path / "copy.db"
    assert "lacks migration 1" in refusal(
        "backup", str(target), "--database", f"sqlite:///{tmp_path}/other.db"
    )
    assert not target.exists()


def test_a_backup_is_one_moment_while_others_write(tmp_path: Path, url: str) -> None:
    """Written between two of its steps: the copy neither sees it nor begins anew."""
    stack = open_stack(url)
    shares: list[float] = []

    def write(share: float) -> None:
        shares.append(share)
        create_schedule(stack.runtime, Submission(f"new-{len(shares)}", {"every": "1h"}, Target("command")))

    payload = {"text": "x" * 60_000}
    for number in range(150):
        create_schedule(
            stack.runtime,
            Submission(f"large-{number}", {"every": "1h", "payload": payload}, Target("command")),
        )
    before = store_of(stack.runtime).ledger.counts().schedules["active"]
    store_of(stack.runtime).upkeep.backup(tmp_path / "copy.db", write)
    assert len(shares) > 3 and shares == sorted(shares)
    copy = open_stack(f"sqlite:///{tmp_path}/copy.db")
    assert store_of(copy.runtime).ledger.counts().schedules["active"] == before
    copy.close()
    stack.close()


def test_restoring_says_what_it_did_and_the_record_is_clean(tmp_path: Path, url: str) -> None:
    stack = open_stack(url)
    create_schedule(stack.runtime, Submission("queued", {"every": "1h"}, Target("command")))
    trigger_schedule(stack.runtime, "queued")
    stack.close()
    assert run("backup", str(tmp_path / "copy.db"), "--database", url).exit_code == 0
    fields = answer("restore", str(tmp_path / "copy.db"), "--database", url)
    assert (fields["schedules"], fields["jobs"], fields["catch_up"]) == (2, 1, False)
    assert fields["backed_up_at"] < fields["at"]
    reported = run("restore", str(tmp_path / "copy.db"), "--database", url)
    assert "as it was at" in reported.stdout and "ended: 1 outstanding jobs" in reported.stdout
    assert "revoked" in reported.stderr
    assert run("check", "--database", url).exit_code == 0


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path, url: str) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    assert "exists already" in refusal("backup", str(target), "--database", url)
    assert target.read_text() == "precious"
    assert run("backup", str(target), "--database", url, "--force").exit_code == 0
    assert target.read_bytes().startswith(b"SQLite format 3")


def test_a_place_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, url: str) -> None:
    assert "cannot be written" in refusal("backup", str(tmp_path / "no" / "copy.db"), "--database", url)
    assert "is a directory" in refusal("backup", str(tmp_path), "--database", url)
    (tmp_path / "file").touch()
    assert "cannot be written" in refusal("backup", str(tmp_path / "file" / "copy.db"), "--database", url)
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe" in refusal("backup", str(tmp_path / "pipe"), "--database", url, "--force")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    "command", [["db", "check"], ["db", "migrate"], ["up"], ["worker"], ["config", "reload"]]
)
def test_an_empty_database_is_no_default(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(everwhen, [*command, "--database", ""])
    assert result.exit_code == 2
    assert "it is empty; write sqlite:///FILE" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["check"], ["prune", "--dry-run"]])
def test_looking_after_the_database_needs_no_function_of_the_file(
    tmp_path: Path, url: str, command: list[str]
) -> None:
    file = tmp_path / "everwhen.yaml"
    file.write_text("schedules: [{id: a, every: 1h, run: {python: 'nowhere.to_be:found'}}]")
    result = run(*command, "--config", str(file), "--database", url)
    assert result.exit_code == 0, result.output
