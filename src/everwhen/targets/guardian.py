"""The guardian of a node's processes: a small process that ends them when the node dies suddenly, or is frozen.

A node that is killed with SIGKILL ends none of the processes that it started: its runs would continue next to the
runs by which another node replaces them. So it sends a guardian the mark of each run before that starts, and again
when it is over. The end of its input shows the guardian that the node has ended. Then it ends the families whose runs
were not over: SIGTERM, five seconds later SIGKILL. It never touches daemons of runs that were over.

A node that is frozen beyond its lease (SIGSTOP, a machine that swaps) loses its jobs to others, while its processes
continue. So it signals its guardian several times per heartbeat, and states until when its lease lasts. Without
another greeting, the guardian sends SIGTERM shortly before that instant and SIGKILL at it. When the guardian was
frozen together with its node, it ends the processes when both wake up. The node asks whether a run was ended this
way: then its job did not fail, but was lost.

A signal to the node's process group does not end the guardian: it has its own session and blocks SIGTERM, SIGINT and
SIGHUP. Where it does not start, or there is no /proc, nodes work without it.

Rejected: PR_SET_PDEATHSIG. It reaches only the leader, fires at the end of a thread rather than a process, and needs
code between fork and exec, which costs every start more than the program itself. Also rejected: a sweep at the next
start. There may be no next start, and it cannot distinguish a run from a daemon that a run was meant to leave behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from everwhen.model.host_fault import HostFault, NotBegunError, host_fault_of
from everwhen.targets.guardian_process import MARK as MARK
from everwhen.targets.guardian_process import PROC, mark_of, processes, since_boot

PROGRAM = Path(__file__).with_name("guardian_process.py")
SIGN_OFF = 2.0
GRACE = 5.0
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # what a Python may need to start; no mark, no secret

log = logging.getLogger("everwhen")


class Guardian:
    """Starts with the first run; `close` ends it, and the next run starts another. For any thread.

    `grace` is the time between SIGTERM and SIGKILL. `mark` is for processes that belong to the node and to no run:
    they are ended with the node, however it ends. One that `is_absent` watches nothing.
    """

    def __init__(self, *, grace: float = GRACE, is_absent: bool = False) -> None:
        self._grace = grace
        self.mark = secrets.token_hex(8)
        self._runs: set[str] = set()
        self._ended: set[str] = set()  # runs that a guardian reports to have ended
        self._greeting = b""  # the last one, for a guardian that starts later
        self._lock = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._has_begun = False
        self._is_absent = is_absent or not Path("/proc/self/environ").exists()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def begin(self) -> None:
        """Start the guardian: a process with the node's own mark is about to start; raise as `watch` does."""
        with self._lock:
            if self._child is None and not self._is_absent:
                self._replace(is_needed=True)

    def watch(self, mark: str) -> None:
        """Add a run; call this before it starts anything.

        Raise NotBegunError when the host cannot start the guardian, as it could start no other process either.
        """
        with self._lock:
            self._runs.add(mark)
            try:
                self._tell("+", mark, is_needed=True)
            except BaseException:
                self._runs.discard(mark)
                raise

    def forget(self, mark: str) -> None:
        """Remove a run that is over."""
        with self._lock:
            self._runs.discard(mark)
            self._ended.discard(mark)
            self._tell("-", mark)

    def greet(self, seconds: float, margin: float) -> None:
        """Send the guardian the length of the lease; the next greeting is due `margin` seconds before its end.

        A guardian that was killed is replaced.
        """
        with self._lock:
            if self._is_absent:
                return
            self._greeting = _line("=", f"{since_boot() + max(seconds, 0.0):.2f}", f" {margin:.2f}")
            if self._child is not None:
                self._write(self._greeting)

    def has_ended(self, mark: str) -> bool:
        """Return whether a guardian ended this run because it was not greeted in time."""
        with self._lock:
            self._hear()
            return mark in self._ended

    def close(self) -> None:
        """End the guardian, unless a run is in progress: then it stays for as long as this process."""
        with self._lock:
            if self._runs or self._child is None:
                return
            child, self._child = self._child, None
            self._greeting = b""  # it no longer holds when another guardian starts
        _end(child)

    def _tell(self, kind: str, mark: str, *, is_needed: bool = False) -> None:
        if not self._is_absent:
            self._write(_line(kind, mark), is_needed=is_needed)

    def _write(self, line: bytes, *, is_needed: bool = False) -> None:
        try:
            if self._child is not None:
                os.write(_input(self._child), line)
            elif is_needed:
                self._begin()
        except OSError:  # it was ended, or stopped until its input was full
            self._replace(is_needed=is_needed)

    def _replace(self, *, is_needed: bool = False) -> None:
        """Start another guardian, with all current runs. One that the host cannot start now is started with the next
        run, which does not begin without it."""
        self._hear()
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            _end(child)
        try:
            self._begin()
        except OSError as error:
            self._child = None
            fault: HostFault | None = (
                "program" if self._has_begun and _is_gone(error) else host_fault_of(error)
            )
            if fault is not None and is_needed:
                raise NotBegunError(fault, error) from error
            if fault is not None:
                return
            log.warning("no guardian: if this node is killed, the processes that it runs continue: %s", error)
            self._is_absent = True

    def _begin(self) -> None:
        with _deaf():
            self._child = self._started()
        self._has_begun = True
        # A node that is garbage-collected ends its guardian; when the process ends, the guardian's input ends.
        weakref.finalize(self, _end, self._child).atexit = False
        os.set_blocking(_input(self._child), False)
        os.set_blocking(_answers(self._child), False)
        runs = b"".join(_line("+", mark) for mark in (self.mark, *self._runs))
        os.write(_input(self._child), runs + self._greeting)

    def _hear(self) -> None:
        """Read which runs the guardian has ended."""
        if self._child is None:
            return
        with contextlib.suppress(BlockingIOError):
            while said := os.read(_answers(self._child), 65_536):
                self._ended |= self._runs & set(said.decode().split())

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM), str(os.getpid()), str(self._grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            bufsize=0,
        )


def _is_gone(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError | PermissionError)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Block the signals to stop, so that a process started meanwhile inherits the mask from its first moment on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _line(kind: str, word: str, more: str = "") -> bytes:
    """Build a line for the guardian, with the instant at which it was written."""
    return f"{kind}{word} {since_boot():.2f}{more}\n".encode()


def _answers(child: subprocess.Popen[bytes]) -> int:
    assert child.stdout is not None
    return child.stdout.fileno()


def _input(child: subprocess.Popen[bytes]) -> int:
    assert child.stdin is not None
    return child.stdin.fileno()


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(SIGN_OFF)
    if child.stdout is not None:
        child.stdout.close()


# Which processes belong to a run, and how they are ended; this module starts none and reads no output.
#
# A run's leader begins its own session, so that its children belong to its process group and its session. A
# child can leave both: an interactive shell makes groups, `setsid` makes a session. But every process
# inherits the environment, and in it the run's mark. Where Linux shows its processes under /proc, a member is
# a process of the group, of the session, or with the mark. On other systems only the group counts.
#
# The kernel does not reuse a process id while its process, its group or its session has a member. A pid could
# be reused only between the check and the signal; the pids of a machine take far longer to wrap around.
#
# Rejected: PR_SET_CHILD_SUBREAPER. It would make this process the parent of every orphan of every library
# that the host uses, and waiting for those takes their exit codes from the code that started them. So init
# waits for an ended orphan; only where everwhen itself is init (a container) does it wait for the orphans of
# its runs.


class Family:
    """The processes of one run: those of its leader's group and session, and those with its mark."""

    def __init__(self, leader: int, mark: str) -> None:
        self._leader = leader
        self._mark = mark.encode()

    def has_group(self) -> bool:
        """Return whether the group has a member; ended members count until their parent has waited for them."""
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # a member that changed its user
            pass
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
        if not (PROC / "self" / "stat").exists():
            return [self._leader] if self.has_group() else []
        found = []
        for pid, is_over, parent, group, session in processes():
            if self._leader not in (pid, group, session) and mark_of(pid) != self._mark:
                continue
            if not is_over:
                found.append(pid)
            elif parent == os.getpid() and pid != self._leader:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)  # it was orphaned, and this process is init
        return found
