"""`everwhen up` is killed in the midst of everything that it runs: nobody is left, and the next one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen.model.job import Job
from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.targets.plugins import put_plugin
from tests.targets.running import is_alive, pid_in, until

ROOT = Path(__file__).parents[2]

FILE = """
service: {{database: "sqlite:///{folder}/everwhen.db", lease: 6s}}
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
attempt=1; while [ -e {folder}/source-$attempt ]; do attempt=$((attempt+1)); done
echo $$ > {folder}/source-$attempt; exec sleep 600
"""
FUNCTION = """
import os, pathlib, time

def sleep(run):
    pathlib.Path("{folder}", f"isolated-{{run.attempt}}").write_text(f"{{os.getpid()}}\\n")
    while not run.cancelled:
        time.sleep(0.05)
    raise RuntimeError("told to end")
"""
NAMES = ("asker.look", "command", "isolated", "reviewer.look", "withings.never")
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
        service.wait(60)


def write_files(folder: Path) -> None:
    put_plugin(folder / "plugins", program=PLUGIN.format(folder=folder))
    (folder / "sleeping.py").write_text(FUNCTION.format(folder=folder))
    (folder / "everwhen.yaml").write_text(FILE.format(folder=folder))
    (folder / "ask").write_text(SOURCE.format(folder=folder))
    (folder / "ask").chmod(0o755)


def jobs_in(folder: Path) -> list[Job]:
    stack = open_stack(f"sqlite:///{folder}/everwhen.db")
    jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)
    stack.close()
    return sorted(jobs, key=lambda job: job.schedule_id)


def running(folder: Path, attempt: int) -> dict[str, int]:
    found = {kind: pid_in(folder / f"{kind}-{attempt}") for kind in KINDS}
    assert [kind for kind, pid in found.items() if not is_alive(pid)] == []
    return found


def test_a_service_that_is_killed_leaves_no_process_and_its_jobs_are_run_again(tmp_path: Path) -> None:
    write_files(tmp_path)
    with a_service(tmp_path):
        before = running(tmp_path, 1)
    until(lambda: not any(map(is_alive, before.values())))
    with a_service(tmp_path) as second:
        again = running(tmp_path, 2)
        second.send_signal(signal.SIGINT)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 130
    until(lambda: not any(map(is_alive, again.values())))
    assert [(job.schedule_id, job.attempt, job.rescues) for job in jobs_in(tmp_path)] == [
        (name, 2, 1) for name in NAMES
    ]


Stop = Callable[[subprocess.Popen[bytes], Path, dict[str, int]], int]


def signal_twice(service: subprocess.Popen[bytes], folder: Path, _jobs: dict[str, int]) -> int:
    before = count_stops(folder)
    service.send_signal(signal.SIGTERM)
    until(lambda: count_stops(folder) > before, 60)  # two of one kind, one right behind the other, are one
    service.send_signal(signal.SIGTERM)
    return service.wait(60)


def count_stops(folder: Path) -> int:
    return (folder / "up.log").read_text().count("stopping, waiting up to")


def signal_control_group(service: subprocess.Popen[bytes], _folder: Path, jobs: dict[str, int]) -> int:
    """As systemd's default does; the node is the last to hear of it here, and waits for nobody."""
    for pid in jobs.values():
        os.kill(pid, signal.SIGTERM)
    service.send_signal(signal.SIGTERM)
    return service.wait(60)


@pytest.mark.parametrize(("stop", "code"), [(signal_twice, 130), (signal_control_group, 0)])
def test_jobs_that_a_stop_interrupts_are_given_back_and_run_again(
    tmp_path: Path, stop: Stop, code: int
) -> None:
    write_files(tmp_path)
    for attempt in (1, 2):
        with a_service(tmp_path) as service:
            jobs = running(tmp_path, attempt)
            assert stop(service, tmp_path, jobs) == code
        until(lambda jobs=jobs: not any(map(is_alive, jobs.values())))  # type: ignore[misc]
        found = jobs_in(tmp_path)
        assert [(job.schedule_id, job.status, job.error) for job in found] == [
            (name, "queued", None) for name in NAMES
        ]
        assert {(job.attempt, job.rescues) for job in found} == {(attempt, 0)}
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    with store_of(stack.runtime).ledger.history() as history:
        report = check_ledger(history, stack.runtime.clock.now())
    stack.close()
    assert report.is_clean, report


ONCE_ONLY = """
service: {{database: "sqlite:///{folder}/everwhen.db"}}
schedules:
  - id: once
    every: 1h
    on_lost: fail
    run: {{command: [sh, -c, "echo $$ > {folder}/once-$EVERWHEN_ATTEMPT; exec sleep 600"]}}
"""


@pytest.mark.parametrize("stop", [signal_twice, signal_control_group])
def test_a_job_that_must_not_run_twice_is_lost_when_a_stop_interrupts_it(tmp_path: Path, stop: Stop) -> None:
    (tmp_path / "everwhen.yaml").write_text(ONCE_ONLY.format(folder=tmp_path))
    with a_service(tmp_path) as service:
        stop(service, tmp_path, {"once": pid_in(tmp_path / "once-1")})
    (job,) = jobs_in(tmp_path)
    assert (job.status, job.attempt) == ("lost", 1)
    assert job.error == "its node stopped while running it, and it must not run twice"
