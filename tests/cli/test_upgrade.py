"""The first start of this release on a database of the release before: `everwhen up` as a real process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.cli.configuration import this_host
from everwhen.cli.node_resources import protect_stored
from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.read import read_configuration
from everwhen.config.submission import read_submission, rules_of
from everwhen.model.instants import MINUTE, to_datetime
from everwhen.model.policy import BreakerRule, Guard
from everwhen.model.schedule import Definition
from everwhen.model.serialize import text_of
from everwhen.operations.apply import apply
from everwhen.operations.maintenance import prove
from everwhen.operations.record import list_revisions
from everwhen.operations.schedules import create_declared
from everwhen.store.opened import store_of
from everwhen.wiring import Stack, open_stack
from tests.targets.plugins import put_plugin

CONFIG = """
service: {database: "sqlite:///e.db"}
api: {port: 0}
plugins: {withings: {max_outstanding_polls: 1, timeouts: {poll: 60s}}}
workflows: {"1": {run: {command: ["true"]}}}
schedules:
  - {id: nightly, cron: "0 2 * * *", max_retries: 3, run: {command: ["true"]}}
  - {id: daily, cron: "0 3 * * *", run: {command: ["true"]}}
"""
BODIES: dict[str, dict[str, Any]] = {
    "polls": {"every": "1d", "first_run": "after_interval", "run": {"plugin": {"name": "withings"}}},
    "report": {"workflow_id": 1, "interval_seconds": 86_400},
    "call": {"every": "1d", "first_run": "after_interval", "run": {"http": {"url": "https://example.com"}}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A database as the release before has left it: protection by section, `stop` unsaid, no causes."""
    put_plugin(tmp_path / "plugins")
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    configuration = read_configuration(tmp_path / "everwhen.yaml", this_host())
    around = rules_of(configuration, this_host(), [], bodies=BODY_SHAPES)
    stack = opened(tmp_path)
    apply(stack.runtime, configuration.declared)
    create_declared(
        stack.runtime, [read_submission(body, name, around) for name, body in BODIES.items()], source="api"
    )
    for name in ("nightly", "polls"):
        age(tmp_path, stack, name)
    stack.close()
    with closing(sqlite3.connect(tmp_path / "e.db", isolation_level=None)) as connection:
        connection.execute("UPDATE schedule_revisions SET cause = NULL")
    return tmp_path


def opened(folder: Path) -> Stack:
    return open_stack(f"sqlite:///{folder}/e.db")


def definition_of(stack: Stack, name: str) -> Definition:
    schedule = store_of(stack.runtime).catalogue.get(name)
    assert schedule is not None
    return schedule.definition


def age(folder: Path, stack: Stack, name: str) -> None:
    """Write the definition as it was read before."""
    old = replace(
        definition_of(stack, name), guard=None, breaker=None, timeout=10 * MINUTE, on_exhausted="stop"
    )
    with closing(sqlite3.connect(folder / "e.db", isolation_level=None)) as connection:
        connection.execute(
            "UPDATE schedule_revisions SET words = ? WHERE schedule_id = ?", (text_of(old), name)
        )


def first_lines(folder: Path) -> list[str]:
    """What a start says until its API is there; the process is stopped then."""
    command = Path(sys.executable).parent / "everwhen"
    process = subprocess.Popen([command, "up"], cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[str] = []
    while not any("API on" in line for line in lines):
        line = process.stderr.readline()
        assert line, lines
        lines.append(line)
    process.terminate()
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    return lines


def test_stored_schedules_get_the_protection_of_their_target_once_and_it_is_on_record(folder: Path) -> None:
    said = [line for line in first_lines(folder) if line.startswith("upgrade: ")]
    assert [line.split()[-1] for line in said] == ["polls", "nightly", "nightly"]
    assert not any(line.startswith("upgrade: ") for line in first_lines(folder))
    stack = opened(folder)
    polls = definition_of(stack, "polls")
    assert polls.guard == Guard("guard:withings:poll", 1)
    assert polls.breaker == BreakerRule("withings:poll", 3, 30 * MINUTE)
    assert polls.timeout == MINUTE
    assert definition_of(stack, "nightly").on_exhausted == "continue"
    causes = {
        name: [one.cause for one in list_revisions(stack.runtime, uid_of(stack, name), limit=50).revisions]
        for name in ("polls", "nightly", "daily", "report", "call")
    }
    assert causes["polls"] == causes["nightly"] == ["upgraded", None]
    assert causes["report"] == ["created"]  # looked at, and as it should be
    assert causes["daily"] == causes["call"] == [None]
    assert prove(stack.runtime).is_clean
    schedule = store_of(stack.runtime).catalogue.get("polls")
    assert schedule is not None and schedule.state.next_slot_at is not None
    to_come = to_datetime(schedule.state.next_slot_at).isoformat()
    stack.close()
    assert "revision 2 was in force, written by an upgrade of everwhen" in why(folder, "polls", to_come)


def why(folder: Path, name: str, at: str) -> str:
    program = str(Path(sys.executable).parent / "everwhen")
    command = [program, "why", name, "--at", at]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def uid_of(stack: Stack, name: str) -> str:
    schedule = store_of(stack.runtime).catalogue.get(name)
    assert schedule is not None
    return schedule.state.uid


def test_what_a_body_with_seconds_made_stops_as_before(folder: Path) -> None:
    stack = opened(folder)
    protect_stored(stack.runtime, read_configuration(folder / "everwhen.yaml", this_host()))
    assert definition_of(stack, "report").on_exhausted == "stop"
    stack.close()


def test_what_runs_something_that_left_the_file_waits_for_it(folder: Path) -> None:
    (folder / "everwhen.yaml").write_text(CONFIG.replace("plugins: {", "# plugins: {"))
    stack = opened(folder)
    configuration = read_configuration(folder / "everwhen.yaml", this_host())
    assert protect_stored(stack.runtime, configuration) == []
    (folder / "everwhen.yaml").write_text(CONFIG)
    configuration = read_configuration(folder / "everwhen.yaml", this_host())
    assert protect_stored(stack.runtime, configuration) == ["polls"]
    assert protect_stored(stack.runtime, configuration) == []
    stack.close()
