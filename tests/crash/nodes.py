"""Nodes as processes: started, killed, told to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from everwhen.decide.check_ledger import LedgerReport, check_ledger
from everwhen.model.node import Role
from everwhen.wiring import open_stack

ROOT = Path(__file__).parents[2]


class NodeProcess:
    """One process in one role, ready when it is made."""

    def __init__(self, url: str, role: Role, *, check_interval: float = 0.2) -> None:
        self.role = role
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.node", url, role, str(check_interval)],
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
        assert line, f"the {self.role} ended by itself with {self._process.wait(30)}"
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
        assert self._process.wait(timeout=30) == -signal.SIGKILL
        self._close()

    def stop(self) -> None:
        self._process.communicate("stop\n", timeout=60)
        assert self._process.returncode == 0
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def check(url: str) -> LedgerReport:
    stack = open_stack(url)
    try:
        with stack.house.ledger.history() as history:
            return check_ledger(history, stack.house.clock.now())
    finally:
        stack.close()
