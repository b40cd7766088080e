"""`service.log`: every line of a node as one JSON object, and only from a level on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_up import lines_until, start

COMMAND = str(Path(sys.executable).parent / "everwhen")
KEYS = {"at", "level", "event", "message", "schedule_id", "job_id", "slot_at", "node"}
FILE = """
service: {{name: logged, log: {log}}}
api: {{port: 0}}
schedules:
  - {{id: well, every: 1h, run: {{command: [echo, "all\\nwell"]}}}}
  - {{id: wrong, every: 1h, run: {{command: ["false"]}}}}
"""
RAISING = """
api: {port: 0}
schedules: [{id: raises, every: 1h, run: {python: "builtins:int", args: ["twelve"]}}]
"""


def said_by(folder: Path, log: str, until: str, *, hangup: bool = False, environ: Any = None) -> list[str]:
    """What a node writes to stderr from its start to its stop."""
    (folder / "everwhen.yaml").write_text(FILE.format(log=log))
    given = {**os.environ, "EVERWHEN_ADMIN_TOKEN": "ew_preset_for_this_test_0123456789", **(environ or {})}
    with subprocess.Popen([COMMAND, "up"], cwd=folder, env=given, stderr=subprocess.PIPE, text=True) as node:
        lines = lines_until(node.stderr, until, 1)
        if hangup:
            (folder / "everwhen.yaml").write_text("nonsense: 1\n")
            node.send_signal(signal.SIGHUP)
            lines += lines_until(node.stderr, "nonsense", 1)
        node.send_signal(signal.SIGTERM)
        rest = node.communicate()[1]
    assert node.returncode == 0
    return [*lines, *rest.splitlines(keepends=True)]


def test_every_line_is_an_object_with_the_same_keys(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in said_by(tmp_path, "{format: json}", "job.failed", hangup=True)
    ]
    assert all(line.keys() >= KEYS for line in lines)
    assert all(datetime.fromisoformat(line["at"]).tzinfo for line in lines)
    of_event = {line["event"]: line for line in lines}
    assert {
        "node.started",
        "api.started",
        "dashboard.started",
        "config.refused",
        "node.stopping",
        "node.stopped",
    } <= of_event.keys()
    assert "unknown key" in of_event["config.refused"]["message"]
    failed = of_event["job.failed"]
    assert (failed["level"], failed["schedule_id"], failed["attempt"]) == ("error", "wrong", 1)
    assert failed["job_id"].startswith("sched-") and datetime.fromisoformat(failed["slot_at"]).tzinfo
    assert failed["node"].startswith("logged-")
    starts = [line["schedule_id"] for line in lines if line["event"] == "job.started"]
    assert sorted(starts) == ["well", "wrong"]


def test_an_exception_is_one_line_on_the_terminal_without_its_traceback(tmp_path: Path) -> None:
    with start(tmp_path, RAISING) as node:
        lines = lines_until(node.stderr, "failed", 1)
        node.send_signal(signal.SIGTERM)
        node.communicate()
    assert "ValueError: invalid literal for int() with base 10: 'twelve'" in lines[-1]


def test_a_level_leaves_out_what_is_below_it(tmp_path: Path) -> None:
    lines = said_by(tmp_path, "{level: warning}", "failed")
    assert [line.split("  ")[1].split()[0] for line in lines] == ["wrong"]


def test_debug_tells_of_firings_and_the_environment_overrides_the_file(tmp_path: Path) -> None:
    twins = {"EVERWHEN_LOG_FORMAT": "json", "EVERWHEN_LOG_LEVEL": "debug"}
    lines = [json.loads(line) for line in said_by(tmp_path, "{level: error}", "job.failed", environ=twins)]
    fired = [line for line in lines if line["event"] == "schedule.fired"]
    assert {line["schedule_id"] for line in fired} == {"well", "wrong"}
    assert all(line["job_id"] and line["slot_at"] and line["level"] == "debug" for line in fired)


@pytest.mark.parametrize("role", ["up", "api"])
def test_a_start_that_fails_is_an_object_too(tmp_path: Path, role: str) -> None:
    (tmp_path / "everwhen.yaml").write_text("service: {lease: soon}\n")
    done = subprocess.run(
        [COMMAND, role],
        cwd=tmp_path,
        env={**os.environ, "EVERWHEN_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, line["level"], line["event"]) == (1, "error", "node.failed")
    assert 'Invalid interval "soon"' in line["message"]
