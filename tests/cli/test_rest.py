"""What only a real process has behind its API: a loop with figures, and a file to reload."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.api.serving import Client
from tests.cli.test_up import lines_until
from tests.targets.running import until

COMMAND = Path(sys.executable).parent / "everwhen"
FIRST = "schedules: [{id: first, every: 1s, run: {message: {text: one}}}]"
SECOND = """
schedules:
- {id: first, every: 1h, run: {message: {text: one}}}
- {id: second, every: 1h, run: {message: {text: two}}}
"""
SECRET = "a-secret-of-the-tests"


@contextmanager
def running(folder: Path, role: str) -> Iterator[Client]:
    (folder / "everwhen.yaml").write_text(FIRST)
    environ = {**os.environ, "EVERWHEN_API_PORT": "0", "EVERWHEN_ADMIN_TOKEN": SECRET}
    process = subprocess.Popen(
        [COMMAND, role], cwd=folder, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        line = lines_until(process.stderr, "API on ", 1)[-1]
        yield Client(line.partition("API on ")[2].partition("/api/v1/")[0], SECRET)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()


@pytest.mark.parametrize("role", ["up", "api"])
def test_the_file_of_a_process_is_compared_and_reloaded(tmp_path: Path, role: str) -> None:
    with running(tmp_path, role) as client:
        (tmp_path / "everwhen.yaml").write_text(SECOND)
        expected = {"first", "second"}
        assert {item["schedule_id"] for item in client.post("/config/diff/").fields["items"]} == expected
        done = client.post("/config/reload/").fields
        assert set(done["created"]) | set(done["changed"]) == expected
        assert client.get("/schedules/second/").fields["every"] == "1h"
        (tmp_path / "everwhen.yaml").write_text("schedules: 7")
        assert client.post("/config/reload/").problem == "invalid"
        assert client.get("/schedules/second/").status == 200


def test_the_status_of_a_service_has_the_figures_of_its_loop(tmp_path: Path) -> None:
    with running(tmp_path, "up") as client:
        until(lambda: client.get("/system/status/").fields["trigger_count"] >= 1)
        fields = client.get("/system/status/").fields
        assert (fields["status"], fields["is_paused"]) == ("running", False)
        assert fields["check_count"] >= 1 and fields["started_at"] < fields["last_check_at"]
        assert [node["is_alive"] for node in fields["nodes"]] == [True]
