"""`everwhen up` is killed in the midst of everything that it runs: nobody is left, and the next one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everwhen.ports.ledger import JobFilter
from everwhen.wiring import open_stack
from tests.targets.plugins import put_plugin
from tests.targets.running import is_alive, pid_in, until

ROOT = Path(__file__).parents[2]

FILE = """
service: {{database: "sqlite:///{folder}/everwhen.db", lease: 1s}}
plugin_dirs: [plugins]
plugins:
  withings: {{schedules: [{{id: never, every: 1h}}]}}
agents:
  reviewer:
    command: [sh, -c, "echo $$ > {folder}/agent-$EVERWHEN_ATTEMPT; exec sleep 600"]
    schedules: {{look: {{type: interval, interval: 1h}}}}
  asker:
    command: [cat]
    schedules:
      look: {{type: interval, interval: 1h, work_source: {{type: command, command: [{folder}/ask]}}}}
schedules:
  - id: command
    every: 1h
    run: {{command: [sh, -c, "echo $$ > {folder}/command-$EVERWHEN_ATTEMPT; exec sleep 600"]}}
  - {{id: isolated, every: 1h, run: {{python: "sleeping:sleep", isolate: true}}}}
"""
PLUGIN = """#!/bin/sh
attempt=$(sed 's/.*"attempt": \\([0-9]*\\).*/\\1/')
echo $$ > {folder}/plugin-$attempt; exec sleep 600
"""
SOURCE = """#!/bin/sh
attempt=1; [ -e {folder}/source-1 ] && attempt=2
echo $$ > {folder}/source-$attempt; exec sleep 600
"""
FUNCTION = """
import os, pathlib, time

def sleep(run):
    pathlib.Path("{folder}", f"isolated-{{run.attempt}}").write_text(f"{{os.getpid()}}\\n")
    time.sleep(600)
"""
KINDS = ("agent", "command", "isolated", "plugin", "source")


@contextmanager
def a_service(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [str(Path(sys.executable).parent / "everwhen"), "up"]
    with (folder / "up.log").open("ab") as log:
        service = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield service
    finally:
        service.kill()
        service.wait(30)


def running(folder: Path, attempt: int) -> dict[str, int]:
    found = {kind: pid_in(folder / f"{kind}-{attempt}") for kind in KINDS}
    assert [kind for kind, pid in found.items() if not is_alive(pid)] == []
    return found


def test_a_service_that_is_killed_leaves_no_process_and_its_jobs_are_run_again(tmp_path: Path) -> None:
    put_plugin(tmp_path / "plugins", program=PLUGIN.format(folder=tmp_path))
    (tmp_path / "sleeping.py").write_text(FUNCTION.format(folder=tmp_path))
    (tmp_path / "everwhen.yaml").write_text(FILE.format(folder=tmp_path))
    (tmp_path / "ask").write_text(SOURCE.format(folder=tmp_path))
    (tmp_path / "ask").chmod(0o755)
    with a_service(tmp_path):
        before = running(tmp_path, 1)
    until(lambda: not any(map(is_alive, before.values())))
    with a_service(tmp_path) as second:
        again = running(tmp_path, 2)
        second.send_signal(signal.SIGINT)
        second.send_signal(signal.SIGTERM)
        assert second.wait(30) == 130
    until(lambda: not any(map(is_alive, again.values())))
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    jobs = stack.house.ledger.jobs(JobFilter(), limit=100)
    stack.close()
    assert sorted((job.schedule_id, job.attempt, job.rescues) for job in jobs) == [
        (name, 2, 1) for name in ("asker.look", "command", "isolated", "reviewer.look", "withings.never")
    ]
