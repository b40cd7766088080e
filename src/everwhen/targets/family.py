"""Which processes belong to a run, and how they are ended; this module starts none and reads no output.

A run's leader begins its own session, so that its children belong to its process group and its session. A child can
leave both: an interactive shell makes groups, `setsid` makes a session. But every process inherits the environment,
and in it the run's mark. Where Linux shows its processes under /proc, a member is a process of the group, of the
session, or with the mark. On other systems only the group counts.

The kernel does not reuse a process id while its process, its group or its session has a member. A pid could be reused
only between the check and the signal; the pids of a machine take far longer to wrap around.

Rejected: PR_SET_CHILD_SUBREAPER. It would make this process the parent of every orphan of every library that the host
uses, and waiting for those takes their exit codes from the code that started them. So init waits for an ended orphan;
only where everwhen itself is init (a container) does it wait for the orphans of its runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

MARK = "EVERWHEN_RUN_MARK"
_PROC = Path("/proc")


class _Entry(NamedTuple):
    pid: int
    is_zombie: bool
    parent: int
    group: int
    session: int


class Family:
    """The processes of one run: those of its leader's group and session, and those with its mark."""

    def __init__(self, leader: int, mark: str) -> None:
        self._leader = leader
        self._mark = f"{MARK}={mark}".encode()

    def has_group(self) -> bool:
        """Return whether the group has a member; ended members count until their parent has waited for them."""
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # a member that changed its user
            return True
        return True

    def signal(self, number: signal.Signals) -> int:
        """Signal every member; return how many there were."""
        members = self.members()
        if self._leader in members or self.has_group():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return len(members)

    def members(self) -> list[int]:
        """Return the live members. Reads every process of the machine: for ending runs, not for every run."""
        if not (_PROC / "self" / "stat").exists():
            return [self._leader] if self.has_group() else []
        entries = [entry for entry in map(_entry, _pids()) if entry is not None and self._is_member(entry)]
        for entry in entries:
            if entry.is_zombie and entry.parent == os.getpid() and entry.pid != self._leader:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(entry.pid, os.WNOHANG)  # it was orphaned, and this process is init
        return [entry.pid for entry in entries if not entry.is_zombie]

    def _is_member(self, entry: _Entry) -> bool:
        if self._leader in (entry.pid, entry.group, entry.session):
            return True
        try:
            environment = (_PROC / str(entry.pid) / "environ").read_bytes()
        except OSError:
            return False  # gone, or of another user
        return self._mark in environment.split(b"\0")


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _entry(pid: int) -> _Entry | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name is in brackets and may contain any byte, brackets too.
    state, parent, group, session = line.rpartition(b")")[2].split()[:4]
    return _Entry(pid, state in (b"Z", b"X"), int(parent), int(group), int(session))
