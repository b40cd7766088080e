"""Rows D that a running `everwhen up` shows: its loop, what it takes and refuses over HTTP; its jobs are processes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import Client
from tests.rows.ductile import FAILS, POLLS, requests_to
from tests.targets.plugins import put_plugin
from tests.targets.running import until

COMMAND = Path(sys.executable).parent / "everwhen"
SCHEMA = {
    "type": "object",
    "properties": {"source": {"type": "string"}, "depth": {"type": "integer", "default": 2}},
    "required": ["source"],
}
COMMANDS = [{"name": "poll"}, {"name": "sync", "input_schema": SCHEMA}, {"name": "handle"}]
FILE = """
plugins:
  withings:
    schedules:
    - {id: fetch, every: 1s}
    - {id: sync, command: sync, every: 1s, payload: {source: scheduler}}
  garmin: {schedule: {every: 1s, payload: {without: a schema}}}
  strava: {enabled: false, schedules: [{id: a, every: 1s}, {id: b, cron: "* * * * *"}]}
  broken: {circuit_breaker: {threshold: 1, reset_after: 1h}, schedule: {every: 1s}}
  polar: {config: {account: mine}}
agents:
  bot:
    command: [sh, -c, "case $EVERWHEN_SCHEDULE_ID in *push) echo pushed >>pushed;; esac; exit 1"]
    circuit_breaker: {threshold: 1, reset_after: 1h}
    schedules:
      watch: {type: interval, interval: 1s}
      push: {type: webhook}
"""
HANDLE = "{id: a, every: 1h, command: handle}"
UNKNOWN = "{id: b, every: 1h, command: pol}"
MISFIT = "{id: c, every: 1h, command: sync, payload: {source: 5}}"


def with_further(*entries: str) -> str:
    """The file with schedules of one more plugin."""
    return FILE.replace("account: mine}", f"account: mine}}, schedules: [{', '.join(entries)}]")


@dataclass(frozen=True, slots=True)
class Up:
    """A process that serves."""

    client: Client
    folder: Path

    def jobs(self, schedule_id: str) -> list[dict[str, Any]]:
        """Oldest first."""
        found: list[dict[str, Any]] = self.client.get(f"/jobs/?schedule_id={schedule_id}").fields["items"]
        return found[::-1]

    def schedule(self, schedule_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/schedules/{schedule_id}/").fields
        return found

    def requests_to(self, plugin: str) -> list[dict[str, Any]]:
        return requests_to(self.folder / "plugins", plugin)


def put_plugins(folder: Path) -> None:
    for name in ("withings", "garmin", "strava", "broken", "polar"):
        program = FAILS if name == "broken" else POLLS
        put_plugin(folder / "plugins", name=name, program=program, commands=COMMANDS)


@contextmanager
def serving(folder: Path) -> Iterator[Up]:
    put_plugins(folder)
    (folder / "everwhen.yaml").write_text(FILE)
    said = folder / "said"
    environ = {**os.environ, "EVERWHEN_ADMIN_TOKEN": "a-secret-of-the-tests"}
    with said.open("w") as output:
        process = subprocess.Popen([COMMAND, "up"], cwd=folder, env=environ, stdout=output, stderr=output)
    try:
        until(lambda: "API on " in said.read_text() or process.poll() is not None)
        url = said.read_text().partition("API on ")[2].partition("/api/v1/")[0]
        yield Up(Client(url, "a-secret-of-the-tests"), folder)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with serving(tmp_path_factory.mktemp("up")) as found:
        yield found


def test_d1_one_loop_decides_at_each_tick_for_all_enabled_plugins_and_for_no_other(up: Up) -> None:
    names = ["withings.fetch", "withings.sync", "garmin.default"]
    until(lambda: all(len(up.jobs(name)) >= 2 for name in names))
    decided_at: dict[str, list[str]] = defaultdict(list)
    for job in [job for name in names for job in up.jobs(name)]:
        decided_at[job["slot_at"]].append(job["created_at"])
    assert max(map(len, decided_at.values())) == len(names)
    assert all(len(set(instants)) == 1 for instants in decided_at.values())  # one evaluation for all of them
    status = up.client.get("/system/status/").fields
    (node,) = status["nodes"]
    assert (status["status"], node["role"], node["is_alive"]) == ("running", "up", True)
    assert status["check_count"] >= len(decided_at)
    for name in ("strava.a", "strava.b"):
        off = up.schedule(name)
        assert (off["status"], off["paused_by"], off["fire_count"]) == ("paused", "config", 0)
    until(lambda: {"poll", "sync"} <= {request["command"] for request in up.requests_to("withings")})
    until(lambda: up.requests_to("garmin") != [])
    assert up.requests_to("garmin")[0]["payload"] == {"without": "a schema"}
    assert up.requests_to("strava") == []


# -- D38 to D40: what cannot be scheduled is refused at load, at reload, and when it is submitted --


@pytest.fixture(scope="module")
def refused_start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `up` says of a file that has all of it; it does not start, and leaves no database behind."""
    folder = tmp_path_factory.mktemp("refused")
    put_plugins(folder)
    (folder / "everwhen.yaml").write_text(with_further(HANDLE, UNKNOWN, MISFIT))
    done = subprocess.run(
        [COMMAND, "up"], cwd=folder, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert not (folder / "everwhen.db").exists()
    return done.stderr


@pytest.fixture
def submitted(up: Up) -> Iterator[str]:
    """A schedule that was submitted and is to be edited."""
    fields = {"every": "1h", "first_run": "after_interval", "payload": {"source": "me"}}
    made = up.client.post("/schedules/", {**fields, "run": {"plugin": {"name": "polar", "command": "sync"}}})
    assert made.status == 201, made.raw
    yield made.fields["id"]
    assert up.client.call("DELETE", f"/schedules/{made.fields['id']}/").status == 204


def revisions(up: Up) -> dict[str, int]:
    return {item["id"]: item["revision"] for item in up.client.get("/schedules/").fields["items"]}


def refusals(up: Up, submitted: str, bad: str, change: dict[str, Any]) -> list[str]:
    """What is said when a schedule comes with a reload, is submitted, or is edited; nothing of it is taken."""
    before = revisions(up)
    (up.folder / "everwhen.yaml").write_text(with_further(bad))
    try:
        reloaded = up.client.post("/config/reload/")
    finally:
        (up.folder / "everwhen.yaml").write_text(FILE)
    run = {"plugin": {"name": "polar", "command": "sync"}}
    created = up.client.post("/schedules/", {"every": "1h", "run": run, **change})
    edited = up.client.patch(f"/schedules/{submitted}/", change)
    answers = [reloaded, created, edited]
    assert [answer.status for answer in answers] == [422, 422, 422]
    assert revisions(up) == before
    return [answer.fields["detail"] for answer in answers]


def command(name: str) -> dict[str, Any]:
    return {"run": {"plugin": {"name": "polar", "command": name}}, "payload": {"source": "me"}}


def test_d38_handle_is_refused_at_load_at_reload_and_when_it_is_submitted(
    up: Up, refused_start: str, submitted: str
) -> None:
    fault = 'command "handle" cannot be scheduled'
    assert f"polar.schedules[0].command: {fault}" in refused_start
    for said in refusals(up, submitted, HANDLE, command("handle")):
        assert said.endswith(f"command: {fault}")


def test_d39_a_command_that_the_manifest_lacks_is_refused_at_load_at_reload_and_when_it_is_submitted(
    up: Up, refused_start: str, submitted: str
) -> None:
    assert 'schedule "b" references unsupported command "pol"' in refused_start
    for said in refusals(up, submitted, UNKNOWN, command("pol")):
        assert said.endswith(
            'references unsupported command "pol", did you mean "poll"? Available: poll, sync'
        )


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ({}, "payload: 'source' is a required property"),
        ({"source": 5}, "payload.source: 5 is not of type 'string'"),
        ({"source": "scheduler", "depth": "deep"}, "payload.depth: 'deep' is not of type 'integer'"),
    ],
)
def test_d40_a_payload_against_the_input_schema_is_refused_at_load_at_reload_and_when_it_is_submitted(
    up: Up, refused_start: str, submitted: str, payload: dict[str, Any], fault: str
) -> None:
    assert """schedule "c": payload.source: 5 is not of type 'string'""" in refused_start
    bad = f"{{id: c, every: 1h, command: sync, payload: {json.dumps(payload)}}}"
    for said in refusals(up, submitted, bad, {"payload": payload}):
        assert said.endswith(f": {fault}")


# -- D45 and D51: what comes over the API --


def is_over(up: Up, job_id: str) -> bool:
    return up.client.get(f"/jobs/{job_id}/").fields["ended_at"] is not None


def test_d45_the_breaker_blocks_what_the_clock_fires_and_neither_the_api_nor_a_webhook(up: Up) -> None:
    clocked = ["broken.default", "bot.watch"]
    until(lambda: len(up.client.get("/breakers/?state=open").fields["items"]) == 2)
    before = [up.client.get(f"/breakers/{key}/").fields for key in ("broken:poll", "bot")]
    calls = [
        up.client.post("/schedules/broken.default/trigger/", {"payload": {"by": "hand"}}),
        up.client.post("/hooks/bot.push/", {"ref": "main"}),
    ]
    assert [(call.status, call.fields["job"]["origin"]) for call in calls] == [
        (202, "manual"),
        (202, "webhook"),
    ]
    until(lambda: all(is_over(up, call.fields["job"]["id"]) for call in calls))
    assert [request["payload"] for request in up.requests_to("broken")] == [{}, {"by": "hand"}]
    assert (up.folder / "pushed").read_text() == "pushed\n"
    # The clock goes on, and fires nothing of theirs; and what came from elsewhere has moved no breaker.
    called_at = max(call.fields["job"]["created_at"] for call in calls)
    until(lambda: all(is_blocked_after(up, name, called_at) for name in clocked))
    assert [[job["origin"] for job in up.jobs(name)] for name in clocked] == [
        ["schedule", "manual"],
        ["schedule"],
    ]
    assert [up.client.get(f"/breakers/{key}/").fields for key in ("broken:poll", "bot")] == before


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def is_blocked_after(up: Up, name: str, instant: str) -> bool:
    """Whether a slot after that instant was skipped because of the breaker."""
    slot = up.client.get(f"/schedules/{name}/why/").fields
    return slot["reason"] == "circuit_open" and moment(slot["slot_at"]) > moment(instant)


def test_d51_a_submitted_schedule_of_a_plugin_runs_its_command_as_one_of_the_file_does(up: Up) -> None:
    fields = {
        "every": "1h",
        "payload": {"source": "me"},
        "run": {"plugin": {"name": "polar", "command": "sync"}},
    }
    answer = up.client.post("/schedules/", fields)
    assert answer.status == 201
    made = answer.fields
    until(lambda: [job["status"] for job in up.jobs(made["id"])] == ["succeeded"])
    (request,) = [each for each in up.requests_to("polar") if each["payload"]["source"] == "me"]
    assert (request["command"], request["payload"]) == ("sync", {"source": "me", "depth": 2})
    assert request["config"] == {"account": "mine"}
    # The protections of its plugin are its own, and so is its place in Ductile's table.
    assert (made["group"], made["max_outstanding"], made["circuit_breaker"]) == (
        "polar",
        1,
        {"threshold": 3, "reset_after": "30m"},
    )
    with closing(sqlite3.connect(up.folder / "everwhen.db")) as connection:
        entry = connection.execute(
            "SELECT plugin, command, status FROM schedule_entries WHERE schedule_id = ?", [made["id"]]
        ).fetchone()
    assert entry == ("polar", "sync", "active")
    assert up.client.call("DELETE", f"/schedules/{made['id']}/").status == 204
