"""`everwhen up` is frozen, or cut off from its database, for longer than its lease: its processes and its jobs."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from everwhen.model.job import Job
from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from everwhen.wiring import open_stack
from tests.environment import without_settings
from tests.targets.running import is_alive, pid_in, until

LEASE = 6.0  # a busy machine keeps a heartbeat waiting for seconds
FILE = """
service: {{database: "sqlite:///{folder}/everwhen.db", lease: 6s, when_cut_off: {when_cut_off}}}
schedules:
  - id: work
    every: 1h
    run:
      command:
        - sh
        - -c
        - "echo $$ > {folder}/pid-$EVERWHEN_ATTEMPT; while [ ! -e {folder}/go ]; do sleep 0.1; done"
"""


@contextmanager
def a_node(folder: Path, role: str = "up") -> Iterator[subprocess.Popen[bytes]]:
    command = [str(Path(sys.executable).parent / "everwhen"), role]
    with (folder / f"{role}.log").open("ab") as log:
        node = subprocess.Popen(command, cwd=folder, env=without_settings(), stdout=log, stderr=log)
    try:
        yield node
    finally:
        node.kill()
        node.wait(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_file(tmp_path)
    return tmp_path


def write_file(folder: Path, when_cut_off: str = "continue") -> None:
    text = FILE.format(folder=folder, when_cut_off=when_cut_off)
    (folder / "everwhen.yaml").write_text(text)


def guardian_of(node: subprocess.Popen[bytes]) -> int:
    listed = Path(f"/proc/{node.pid}/task").glob("*/children")
    pids = {int(pid) for threads in listed for pid in threads.read_text().split()}
    (found,) = (p for p in pids if b"guardian_process" in Path(f"/proc/{p}/cmdline").read_bytes())
    return found


def lease_passes() -> None:
    over = time.monotonic() + 1.5 * LEASE
    until(lambda: time.monotonic() > over)


def the_job(folder: Path) -> Job:
    stack = open_stack(f"sqlite:///{folder}/everwhen.db")
    (job,) = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
    stack.close()
    return job


def test_whoever_takes_a_job_over_does_not_meet_the_process_of_a_frozen_node(folder: Path) -> None:
    with a_node(folder) as frozen:
        first = pid_in(folder / "pid-1")
        with a_node(folder, "worker"):
            frozen.send_signal(signal.SIGSTOP)
            second = pid_in(folder / "pid-2")
            assert (is_alive(first), is_alive(second)) == (False, True)
            frozen.send_signal(signal.SIGCONT)
            (folder / "go").touch()
            until(lambda: the_job(folder).status == "succeeded", 60)
            job = the_job(folder)
            assert (job.attempt, job.rescues) == (2, 1)


def test_what_froze_with_its_guardian_is_ended_when_both_wake_up_and_run_again(folder: Path) -> None:
    with a_node(folder) as node:
        first = pid_in(folder / "pid-1")
        guardian = guardian_of(node)
        for pid in (node.pid, guardian):
            os.kill(pid, signal.SIGSTOP)
        lease_passes()
        assert is_alive(first)  # nobody was there to end it
        for pid in (node.pid, guardian):
            os.kill(pid, signal.SIGCONT)
        second = pid_in(folder / "pid-2")
        assert (is_alive(first), is_alive(second)) == (False, True)
        job = the_job(folder)
        assert (job.status, job.attempt, job.rescues) == ("running", 2, 1)


def test_a_guardian_that_is_killed_is_replaced_at_the_next_heartbeat(folder: Path) -> None:
    with a_node(folder) as node:
        first = pid_in(folder / "pid-1")
        guardian = guardian_of(node)
        os.kill(guardian, signal.SIGKILL)
        until(lambda: not is_alive(guardian))
        until(lambda: has_guardian(node))
        lease_passes()  # so that it is told of everything, too
        node.send_signal(signal.SIGSTOP)
        until(lambda: not is_alive(first))


def has_guardian(node: subprocess.Popen[bytes]) -> bool:
    try:
        return is_alive(guardian_of(node))
    except (ValueError, OSError):  # none yet
        return False


@contextmanager
def a_locked_database(folder: Path) -> Iterator[None]:
    """Nobody can write, and nobody can beat."""
    with closing(sqlite3.connect(folder / "everwhen.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA busy_timeout = 30000")
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_a_database_that_is_away_for_everybody_ends_nobodys_work(folder: Path) -> None:
    with a_node(folder), a_node(folder, "worker"):
        first = pid_in(folder / "pid-1")
        with a_locked_database(folder):
            lease_passes()
            assert is_alive(first)
        (folder / "go").touch()
        until(lambda: the_job(folder).status == "succeeded", 60)
        job = the_job(folder)
        assert (job.attempt, job.rescues) == (1, 0)


def test_a_node_that_puts_limits_before_work_ends_it_when_its_lease_is_over(tmp_path: Path) -> None:
    write_file(tmp_path, when_cut_off="stop")
    with a_node(tmp_path):
        first = pid_in(tmp_path / "pid-1")
        with a_locked_database(tmp_path):
            until(lambda: not is_alive(first))
        assert is_alive(pid_in(tmp_path / "pid-2"))
        job = the_job(tmp_path)
        assert (job.status, job.attempt, job.rescues) == ("running", 2, 1)
