"""Separate namespaces: networks that can be cut and disks that can be filled, invisible to the machine.

The whole proof moves into a network and a mount namespace before it starts anything. The kernel removes both with the
last process in them, so nothing is left, however the proof ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MARK = "EVERWHEN_PROOF_APART"
UNSHARE = ("unshare", "--net", "--mount", "--propagation", "private")


def move_apart(arguments: Sequence[str]) -> None:
    """Start again in separate namespaces; return when that is not allowed, or already done."""
    if is_apart() or not may_move():
        return
    again = [*UNSHARE, sys.executable, "-m", "tests.proof", *arguments]
    os.execvpe(again[0], again, {**os.environ, MARK: "1"})


def is_apart() -> bool:
    return os.environ.get(MARK) == "1"


def may_move() -> bool:
    """Return whether this user, on this machine, can create namespaces."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def settle_in() -> None:
    """Set up loopback, and separate shared memory, because killed processes leave theirs."""
    command("ip", "link", "set", "lo", "up")
    mount_memory(Path("/dev/shm"), "256m")


def mount_memory(where: Path, size: str) -> None:
    command("mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "proof", str(where))


def command(*fields: str) -> None:
    done = subprocess.run(fields, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise OSError(f"{' '.join(fields)}: {done.stderr.strip()}")
