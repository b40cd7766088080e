"""The guardian's own program: run by its path, with the standard library only, so that it is small and starts fast.

`guardian.py` describes its purpose, its input, and how families are found.

Every line of its input contains the instant at which it was written, in time since boot, which continues while a
machine sleeps and which cannot be set. So the guardian distinguishes a node that was frozen from one whose lines it
itself read late.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

PROC = Path("/proc")
MARK = "EVERWHEN_RUN_MARK"
LOOK = 0.1
PATIENCE = 1.0  # at most this long after waking up the deadline is checked
SHORTEST_LOOK = 0.01


def main() -> None:
    node, grace = sys.argv[1:]
    watch = Watch(int(node))
    watch.last()
    end(watch.runs, grace=float(grace))


def since_boot() -> float:
    """Return the seconds since the machine was started, sleep included; a node without a free descriptor asks, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Watch:
    """The runs of one node, and the deadline of its next greeting."""

    def __init__(self, node: int, channel: int = 0, answers: int = 1) -> None:
        self.runs: set[bytes] = set()
        self._node, self._channel, self._answers = node, channel, answers
        self._rest = b""
        self._deadline: float | None = None  # none before the first greeting
        self._margin = 0.0  # from SIGTERM to SIGKILL
        self._is_warned = False
        os.set_blocking(channel, False)

    def last(self) -> None:
        """Return when the node is gone.

        That is at the end of the input, or sooner if a process that the node forked still holds the other end of it.
        """
        while True:
            is_readable = bool(select.select([self._channel], [], [], self._pause())[0])
            if is_readable and not self._read():
                return
            if not is_readable and os.getppid() != self._node:
                return
            self._look(since_boot())

    def _pause(self) -> float:
        if self._deadline is None:
            return PATIENCE
        due = self._deadline if self._is_warned else self._deadline - self._margin
        return min(max(due - since_boot(), SHORTEST_LOOK), PATIENCE)

    def _read(self) -> bool:
        """Read everything that was written so far; return False at the end of the input."""
        while True:
            try:
                data = os.read(self._channel, 65_536)
            except BlockingIOError:
                return True
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line[:1], line[1:].split())

    def _take(self, kind: bytes, parts: list[bytes]) -> None:
        if kind == b"-":
            self.runs.discard(parts[0])
            return
        self._look(float(parts[1]))  # a node that writes after its deadline was frozen until now
        if kind == b"+":
            self.runs.add(parts[0])
        else:
            self._deadline, self._margin, self._is_warned = float(parts[0]), float(parts[2]), False

    def _look(self, now: float) -> None:
        """End the runs when the node sent no signal in time."""
        if self._deadline is None or now < self._deadline - self._margin:
            return
        if now < self._deadline:
            if not self._is_warned:
                self._is_warned = True
                self._answer()
                tell(members(self.runs), signal.SIGTERM)
            return
        self._deadline = None
        self._answer()
        kill(self.runs)

    def _answer(self) -> None:
        """Report which runs are ended, so that the node does not take that for their own failure."""
        with contextlib.suppress(OSError):
            os.write(self._answers, b"".join(run + b"\n" for run in self.runs))


def end(runs: set[bytes], *, grace: float) -> None:
    tell(members(runs), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        if not members(runs):
            return
        select.select([], [], [], LOOK)
    kill(runs)


def kill(runs: set[bytes]) -> None:
    for _ in range(50):  # a family that forks faster than it is killed is given up in the end
        if not tell(members(runs), signal.SIGKILL):
            return
        select.select([], [], [], LOOK)


def tell(pids: set[int], number: signal.Signals) -> int:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
    return len(pids)


def members(runs: set[bytes]) -> set[int]:
    """Return the processes with the mark of a run, and those of a session that one of them leads."""
    sessions = {pid: session for pid, is_over, _, _, session in processes() if not is_over}
    marked = {pid for pid in sessions if mark_of(pid) in runs}
    return {pid for pid, session in sessions.items() if pid in marked or session in marked}


def processes() -> list[tuple[int, bool, int, int, int]]:
    """Return the id, whether it has ended, the parent, the group and the session of every process."""
    found = []
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # The name is in brackets and may contain any byte, brackets too.
            state, *numbers = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:4]
            parent, group, session = map(int, numbers)
            found.append((int(folder.name), state in (b"Z", b"X"), parent, group, session))
    return found


def mark_of(pid: int) -> bytes:
    begin = f"{MARK}=".encode()
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or of another user
        return b""
    return next((entry.removeprefix(begin) for entry in entries if entry.startswith(begin)), b"")


if __name__ == "__main__":
    main()
