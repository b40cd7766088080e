"""The guardian of a node's processes: a small process that ends them when the node is gone without a word, or frozen.

A node that is killed with SIGKILL ends nothing that it started: its runs would go on beside those by which another
node replaces them. So it tells a guardian the mark of each run before that starts, and when it is over. The guardian
hears of the node's end by the end of its input, and ends the families whose runs were not over: SIGTERM, five seconds
later SIGKILL. Daemons of runs that were over are left alone, as ever.

A node that is frozen beyond its lease (SIGSTOP, a machine that swaps) loses its jobs to others, while its processes go
on. So it greets its guardian with every heartbeat, and says until when its lease lasts. Not greeted again, the guardian
sends SIGTERM shortly before that and SIGKILL then; what froze it together with its node, it ends when both wake up. The
node asks whether a run was ended so: then its job did not fail, but was lost (R8).

It cannot be told apart from its node by signals to a whole group: it has a session of its own and is deaf to all but
SIGKILL. Where it does not start, or there is no /proc, nodes work without it.

Rejected: PR_SET_PDEATHSIG. It reaches the leader alone, dies with a thread rather than a process, and needs code
between fork and exec, which costs every start more than the program itself. A sweep at the next start: there may be
none, and it cannot tell a run from a daemon that a run was to leave behind.
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

from everwhen.targets.guardian_process import since_boot

PROGRAM = Path(__file__).with_name("guardian_process.py")
SIGN_OFF = 2.0
GRACE = 5.0
_ENVIRONMENT = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)  # what a Python may need to start at all; no mark, no secret

log = logging.getLogger("everwhen")


class Guardian:
    """Begins with the first run; `close` ends it, and the run after that begins another. For any thread.

    `grace` lies between SIGTERM and SIGKILL. `mark` is for what belongs to the node and to no run: it is ended with
    the node, whatever its end.
    """

    def __init__(self, *, grace: float = GRACE) -> None:
        self._grace = grace
        self.mark = secrets.token_hex(8)
        self._runs: set[str] = set()
        self._ended: set[str] = set()  # runs that a guardian says it has ended
        self._greeting = b""  # the last one, for a guardian that begins later
        self._lock = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_absent = not Path("/proc/self/environ").exists()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def begin(self) -> None:
        """Be there: something with the node's own mark is about to start."""
        with self._lock:
            if self._child is None and not self._is_absent:
                self._replace()

    def watch(self, mark: str) -> None:
        """A run begins; to be told before it starts anything."""
        with self._lock:
            self._runs.add(mark)
            self._tell(_line("+", mark))

    def forget(self, mark: str) -> None:
        """A run is over."""
        with self._lock:
            self._runs.discard(mark)
            self._ended.discard(mark)
            self._tell(_line("-", mark))

    def greet(self, seconds: float, margin: float) -> None:
        """The node lives, and its lease lasts that long: to be told again before SIGTERM, `margin` before its end.

        A guardian that somebody has killed is replaced.
        """
        with self._lock:
            if self._is_absent:
                return
            self._greeting = _line("=", f"{since_boot() + max(seconds, 0.0):.2f}", f" {margin:.2f}")
            if self._child is not None:
                self._tell(self._greeting)

    def has_ended(self, mark: str) -> bool:
        """Whether a guardian ended this run because it was not greeted in time."""
        with self._lock:
            self._hear()
            return mark in self._ended

    def close(self) -> None:
        """Let it go, unless somebody still runs: then it stays for as long as this process."""
        with self._lock:
            if self._runs or self._child is None:
                return
            child, self._child = self._child, None
            self._greeting = b""  # what it says is over when another begins
        _end(child)

    def _tell(self, line: bytes) -> None:
        if self._is_absent:
            return
        try:
            if self._child is None:
                self._begin()
            else:
                os.write(_input(self._child), line)
        except OSError:  # somebody ended it, or stopped it until its input was full
            self._replace()

    def _replace(self) -> None:
        """Have another, told of everything that runs."""
        self._hear()
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            _end(child)
        try:
            self._begin()
        except OSError as error:
            log.warning("nobody would end what this node runs if it were killed: %s", error)
            self._child, self._is_absent = None, True

    def _begin(self) -> None:
        with _deaf():
            self._child = self._started()
        # A node that is dropped without a word takes its guardian along; at the end of the process its input ends.
        weakref.finalize(self, _end, self._child).atexit = False
        os.set_blocking(_input(self._child), False)
        os.set_blocking(_answers(self._child), False)
        runs = b"".join(_line("+", mark) for mark in (self.mark, *self._runs))
        os.write(_input(self._child), runs + self._greeting)

    def _hear(self) -> None:
        """Take in which runs the guardian has ended."""
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


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile inherits a mask that no signal to stop gets through, from its first moment on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _line(kind: str, word: str, more: str = "") -> bytes:
    """A line for the guardian, with the moment at which it was written."""
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
