"""`everwhen db copy` as a person meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everwhen.cli.main import everwhen
from everwhen.wiring import open_node_stack
from tests.copying.installation import make_installation


def run(*fields: str) -> Result:
    return CliRunner().invoke(everwhen, list(fields))


def test_the_whole_way_from_the_command_to_a_start_that_is_refused(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = make_installation(tmp_path).url
    password = postgres_url.split(":")[2].split("@")[0]
    copied = run("db", "copy", url, postgres_url)
    assert copied.exit_code == 0, copied.exception
    assert f"{'schedules':<28} {21:>12,} rows" in copied.stdout.splitlines()
    assert "is marked as moved; set service.database to postgresql://everwhen@127" in copied.stdout
    assert password not in copied.stdout + copied.stderr
    for database in (url, postgres_url):
        checked = run("db", "check", "--database", database)
        assert checked.exit_code == 0, checked.stdout
        assert ("this database was moved to postgresql://everwhen@" in checked.stderr) is (database == url)
    listed = run("schedules", "list", "--database", url)
    assert listed.exit_code == 0 and "interval" in listed.stdout
    assert "warning: this database was moved to" in listed.stderr
    active = json.loads(run("schedules", "list", "--status", "active", "--json", "--database", url).stdout)
    paused = run("schedules", "pause", active[0]["id"], "--database", url)
    assert paused.exit_code == 1
    assert "`everwhen db copy` moves this database to postgresql://everwhen@127" in str(paused.exception)

    (tmp_path / "everwhen.yaml").write_text(f"service: {{database: '{url}'}}\nschedules: []\n")
    program = str(Path(sys.executable).parent / "everwhen")
    started = [
        subprocess.Popen([program, role], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for role in ("up", "api")
    ]
    for process in started:
        _, talk = process.communicate(timeout=110)
        assert process.returncode == 1, talk
        assert "was moved to postgresql://everwhen@127" in talk
        assert password not in talk and "Traceback" not in talk


def test_its_json_says_what_arrived_and_that_it_was_there_already(tmp_path: Path, postgres_url: str) -> None:
    url = make_installation(tmp_path).url
    first, again = (json.loads(run("db", "copy", url, postgres_url, "--json").stdout) for _ in range(2))
    assert first["is_new"] and not again["is_new"]
    assert first["rows"]["tokens"] == 2
    assert first["total"] == sum(first["rows"].values())
    assert (first["replaced"], first["left_behind"]) == ([], [])
    assert "the copy was complete already" in run("db", "copy", url, postgres_url).stdout


def test_up_with_force_takes_a_moved_file_into_use(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = make_installation(tmp_path).url
    run("db", "copy", url, postgres_url)
    (tmp_path / "everwhen.yaml").write_text(f"service: {{database: '{url}'}}\nschedules: []\n")
    up = subprocess.Popen(
        [str(Path(sys.executable).parent / "everwhen"), "up", "--force"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stderr is not None
    assert any("Ctrl-C stops" in line for line in iter(up.stderr.readline, ""))
    up.terminate()
    up.communicate(timeout=60)
    open_node_stack(url).close()
