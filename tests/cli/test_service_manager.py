"""Nodes under a service manager: what they send to a real socket, when, and what their jobs do not inherit."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from everwhen.cli.service_manager import ServiceManager
from everwhen.engine import service as engine_service
from everwhen.engine.service import ServiceOptions
from everwhen.wiring import build_service, open_stack
from tests.environment import without_settings
from tests.targets.running import until

CONFIG = """
service: {shutdown_timeout: 5s}
schedules:
  - {id: environment, after: 1s, run: {command: [sh, -c, "env > part; mv part environment"]}}
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def heard(listener: socket.socket) -> list[str]:
    return listener.recv(4096).decode().splitlines()


def heard_until(listener: socket.socket, word: str) -> list[str]:
    lines: list[str] = []
    while word not in lines:
        lines += heard(listener)
    return lines


def start(folder: Path, role: str) -> subprocess.Popen[str]:
    (folder / "everwhen.yaml").write_text(CONFIG)
    environ = {**without_settings(), "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "200000"}
    command = [str(Path(sys.executable).parent / "everwhen"), role]
    return subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("role", ["up", "api"])
def test_a_node_says_when_it_is_ready_beats_and_says_that_it_stops(
    manager: socket.socket, tmp_path: Path, role: str
) -> None:
    with start(tmp_path, role) as node:
        said = heard_until(manager, "READY=1")
        assert said[-2:] == ["READY=1", said[-1]] and said[-1].startswith("STATUS=")
        heard_until(manager, "WATCHDOG=1")
        if role == "up":
            until((tmp_path / "environment").exists)
            inherited = (tmp_path / "environment").read_text()
            assert "EVERWHEN_JOB_ID=" in inherited
            assert "NOTIFY_SOCKET" not in inherited and "WATCHDOG_" not in inherited
        node.send_signal(signal.SIGTERM)
        assert heard_until(manager, "STOPPING=1")
        assert node.wait(60) == 0, node.stderr


def test_an_abstract_address_and_the_process_that_is_meant_are_understood() -> None:
    name = f"everwhen-{os.getpid()}-{os.urandom(4).hex()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(f"\0{name}")
        listener.settimeout(60)
        environ = {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1", "HOME": "/"}
        other = ServiceManager(environ)
        assert environ == {"HOME": "/"}
        with other.watchdog():  # the beats of process 1 are not ours
            other.ready("here")
        assert heard(listener) == ["READY=1", "STATUS=here"]
        mine = ServiceManager({"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "20000"})
        with mine.watchdog():
            assert [heard(listener) for _ in range(3)] == [["WATCHDOG=1"]] * 3


def test_without_a_service_manager_or_with_one_that_is_gone_nothing_happens(tmp_path: Path) -> None:
    ServiceManager({}).ready("here")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).stopping()


def test_a_node_whose_loop_hangs_is_stuck_and_one_whose_steps_fail_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_service, "STUCK", 0.0)
    stack = open_stack("sqlite://")
    node = build_service(stack, ServiceOptions(check_interval=0.1))
    go = threading.Event()
    try:
        assert not node.is_stuck()
        node.start()
        until(lambda: not node.is_stuck())
        monkeypatch.setattr(node.ticker, "step", lambda _: go.wait(60))
        until(node.is_stuck)
        monkeypatch.setattr(node.ticker, "step", lambda _: 1 / 0)
        go.set()
        until(lambda: not node.is_stuck())
    finally:
        go.set()
        node.stop(wait_for_jobs=False)
        stack.close()
    assert not node.is_stuck()
