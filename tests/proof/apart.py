"""Namespaces of our own: networks that can be cut and disks that can be filled, of which the machine sees nothing.

The whole proof moves into a network and a mount namespace before it starts anything. The kernel takes both away with
the last process in them, so that nothing is left behind whatever becomes of us.
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
    """Begin again in namespaces of our own, where that is allowed; returns where it is not, or is done."""
    if is_apart() or not may_move():
        return
    again = [*UNSHARE, sys.executable, "-m", "tests.proof", *arguments]
    os.execvpe(again[0], again, {**os.environ, MARK: "1"})


def is_apart() -> bool:
    return os.environ.get(MARK) == "1"


def may_move() -> bool:
    """Whether this user, on this machine, can have namespaces."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def settle_in() -> None:
    """Loopback, and shared memory of our own: killed processes leave theirs behind."""
    command("ip", "link", "set", "lo", "up")
    mount_memory(Path("/dev/shm"), "256m")


def mount_memory(where: Path, size: str) -> None:
    command("mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "proof", str(where))


def command(*fields: str) -> None:
    done = subprocess.run(fields, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise OSError(f"{' '.join(fields)}: {done.stderr.strip()}")
