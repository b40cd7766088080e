"""The guardian's own program: run by its path, with nothing but the standard library, so that it is small and at
once there. What it is for, and what it is told, stands in `guardian.py`; how families are found in `family.py`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

PROC = Path("/proc")
VARIABLE = b"EVERWHEN_RUN_MARK="
LOOK = 0.1
PATIENCE = 2.0


def main() -> None:
    node, grace = sys.argv[1:]
    end(runs_at_the_end(0, int(node)), grace=float(grace))


def runs_at_the_end(channel: int, node: int) -> set[bytes]:
    """Which runs were not over when the node was: at the end of the input, or sooner where somebody whom the node
    has forked still holds the other end of it."""
    runs: set[bytes] = set()
    rest = b""
    while True:
        if not select.select([channel], [], [], PATIENCE)[0]:
            if os.getppid() == node:
                continue
            break
        if not (data := os.read(channel, 65_536)):
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            (runs.add if line[:1] == b"+" else runs.discard)(line[1:])
    return runs


def end(runs: set[bytes], *, grace: float) -> None:
    tell(members(runs), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        if not members(runs):
            return
        select.select([], [], [], LOOK)
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
    """Who carries the mark of a run, and who is of a session that one of those leads."""
    sessions = living()
    marked = {pid for pid in sessions if mark_of(pid) in runs}
    return {pid for pid, session in sessions.items() if pid in marked or session in marked}


def living() -> dict[int, int]:
    """The session of every process that has not ended."""
    found: dict[int, int] = {}
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has gone meanwhile
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                found[int(folder.name)] = int(fields[3])
    return found


def mark_of(pid: int) -> bytes:
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or somebody else's
        return b""
    return next((entry.removeprefix(VARIABLE) for entry in entries if entry.startswith(VARIABLE)), b"")


if __name__ == "__main__":
    main()
