"""The wheel in an environment of its own, outside the repository: the first minutes of a user who installed it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from everwhen.version import __version__
from tests.cli.test_up import lines_until
from tests.environment import without_settings
from tests.targets.running import until

PROGRAM = """
import sys, threading
from everwhen import Run, Scheduler

scheduler = Scheduler("sqlite:///shop.db", name="shop")
done = threading.Event()

@scheduler.every("1h", id="poll")
def poll(run: Run):
    done.set()

with scheduler:
    assert done.wait(60)
print(scheduler.jobs("poll")[0].status)
"""


def test_a_user_gets_from_an_installation_to_the_first_runs_and_asks_why(
    python: Path, tmp_path: Path
) -> None:
    command = python.parent / "everwhen"

    def everwhen(*words: str) -> str:
        done = subprocess.run(
            [command, *words],
            cwd=tmp_path,
            env=without_settings(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert everwhen("--version") == f"everwhen, version {__version__}\n"
    everwhen("init", ".")
    everwhen("config", "check")
    with subprocess.Popen(
        [command, "up"], cwd=tmp_path, env=without_settings(), stderr=subprocess.PIPE, text=True
    ) as up:
        try:
            lines = lines_until(up.stderr, "succeeded", 2)
            assert any("API on http" in line for line in lines), lines
            found = json.loads(everwhen("schedules", "list", "--json"))
            assert {one["id"] for one in found} == {"weekday-report", "heartbeat", "hello.greet"}
            # The next one may have begun meanwhile, and not have ended.
            until(lambda: "fired; its job succeeded" in everwhen("why", "heartbeat"))
            until(lambda: everwhen("logs", "heartbeat") != "")
            up.send_signal(signal.SIGTERM)
            _, said = up.communicate(timeout=60)
        finally:
            up.kill()
    assert up.returncode == 0 and said.endswith("stopped\n"), said
    assert "exactly one entry" in everwhen("db", "check")


def test_a_program_embeds_the_installed_scheduler(python: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [python, "program.py"],
        cwd=tmp_path,
        env=without_settings(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "succeeded\n")
