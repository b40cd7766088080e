"""Nodes as processes: started, killed, told to stop."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everwhen.model.node import Role
from everwhen.store.opened import store_of
from everwhen.verify.ledger import LedgerReport, check_ledger
from everwhen.wiring import Stack, open_stack

ROOT = Path(__file__).parents[2]
LEASE = 0.9
SEED = int(os.environ.get("EVERWHEN_SEED", "2026"))


def fate(name: str) -> random.Random:
    """Where the moments of death of one test come from."""
    return random.Random(f"{SEED} {name}")


class NodeProcess:
    """One process in one role, ready when it is made."""

    def __init__(
        self,
        url: str,
        role: Role,
        *,
        check_interval: float = 0.2,
        lease: float = LEASE,
        has_own_clock: bool = False,
    ) -> None:
        self.role = role
        fields = [str(check_interval), str(lease), *(["own-clock"] if has_own_clock else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.node", url, role, *fields],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.says = [self.line()]
        while self.says[-1] != "ready":
            self.says.append(self.line())

    def line(self) -> str:
        """The next thing it says; it is alive, so it comes."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the {self.role} ended by itself with {self._process.wait(60)}"
        return line.strip()

    def heard(self, beginning: str) -> str:
        """The first thing that it has said, or says next, that begins so."""
        for said in self.says:
            if said.startswith(beginning):
                return said
        while not (said := self.line()).startswith(beginning):
            pass
        return said

    def live_for(self, seconds: float) -> None:
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"the {self.role} ended by itself")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(timeout=60) == -signal.SIGKILL
        self._close()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def step_clock(self, seconds: float) -> None:
        """Set its clock; it has one of its own."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"step {seconds}\n")
        self._process.stdin.flush()
        self.heard("stepped")

    def stop(self) -> int:
        """How many slots it has fired, as far as it knows."""
        said, _ = self._process.communicate("stop\n", timeout=60)
        assert self._process.returncode == 0
        self._close()
        return int(said.split("fired ")[1])

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def running(url: str, *roles: Role, **how: Any) -> Iterator[list[NodeProcess]]:
    """Nodes, started side by side; those that a test has not ended itself are killed, also where it fails."""
    nodes: list[NodeProcess] = []
    try:
        with ThreadPoolExecutor() as starting:
            nodes += starting.map(lambda role: NodeProcess(url, role, **how), roles)
        yield nodes
    finally:
        for node in nodes:
            if not node.has_ended:
                node.kill()


@contextmanager
def opened(url: str) -> Iterator[Stack]:
    stack = open_stack(url)
    try:
        yield stack
    finally:
        stack.close()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """The deadline is for a broken build only."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.05)


def check(url: str) -> LedgerReport:
    with opened(url) as stack, store_of(stack.runtime).ledger.history() as history:
        return check_ledger(history, stack.runtime.clock.now())
