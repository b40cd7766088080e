"""A process that is kept running: started, killed, frozen, and started again as by a supervisor."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESTART_AFTER = 0.5


def with_us(command: Sequence[str]) -> list[str]:
    """Return the same command, killed by the kernel when this process ends."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *command]


@dataclass
class Absence:
    """The time from the end of a process until its successor reports that it is at work."""

    began: float
    ended: float = float("inf")


@dataclass
class Supervised:
    """One program under one name, through all its starts. `ready` is the line that it prints when it is at work."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    ready: str
    may_end: bool = False  # another project's program, which may end for its own reasons
    is_wanted: bool = True
    starts: int = 0
    ended_early: list[str] = field(default_factory=list)  # e.g. the database was away at its start
    ended_late: list[str] = field(default_factory=list)  # unrequested ends of a process that was at work
    absences: list[Absence] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None
    _log_begins_at: int = 0
    _start_again: float = 0.0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_at_work(self) -> bool:
        return self.is_alive and self.ready in self.said

    @property
    def said(self) -> str:
        """Return the output since the last start."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self._log_begins_at)
            return log.read().decode(errors="replace")

    def supervise(self) -> None:
        """Start the process if it is wanted and not running; one that ended by itself is started after a short
        pause."""
        self._note_absence()
        if self.is_alive or not self.is_wanted:
            return
        if self._process is not None:
            self._note_end(self._process)
        elif time.monotonic() >= self._start_again:
            self._start()

    def kill(self, *, with_children: bool = False) -> None:
        """Kill the process as by `kill -9`; it stays down until it is wanted again."""
        self.is_wanted = False
        process, self._process = self._process, None
        if process is None:
            return
        if with_children:
            process.send_signal(signal.SIGSTOP)  # it can neither fork nor report a death meanwhile
            for pid in _descendants(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()

    def revive(self) -> None:
        self.is_wanted = True
        self._start_again = 0.0
        self.supervise()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_alive:
            self._process.send_signal(number)

    def ask_to_leave(self) -> None:
        """Ask the process to stop, as an operator does."""
        self.is_wanted = False
        self.signal(signal.SIGTERM)

    def left(self, patience: float) -> str | None:
        """Wait until the process that was asked to stop has ended; return what went wrong, if anything."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            status = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"{self.name} did not stop within {patience:g} s of SIGTERM; it said: {self._last_lines()}"
        return f"{self.name} ended with {status}: {self._last_lines()}" if status else None

    def _start(self) -> None:
        self.starts += 1
        self._log_begins_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                with_us(self.command),
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _note_absence(self) -> None:
        is_known = bool(self.absences) and self.absences[-1].ended == float("inf")
        if not is_known and not self.is_alive:
            self.absences.append(Absence(time.monotonic()))
        elif is_known and self.is_at_work:
            self.absences[-1].ended = time.monotonic()

    def _note_end(self, process: subprocess.Popen[bytes]) -> None:
        fields = f"{self.name} ended with {process.returncode}: {self._last_lines()}"
        is_late = self.ready in self.said and not self.may_end
        (self.ended_late if is_late else self.ended_early).append(fields)
        self._process = None
        self._start_again = time.monotonic() + RESTART_AFTER

    def _last_lines(self) -> str:
        return " / ".join(self.said.strip().splitlines()[-3:])


def _descendants(pid: int) -> list[int]:
    """Return all descendants of the process."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [one for child in children for one in (child, *_descendants(child))]
