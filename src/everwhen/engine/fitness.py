"""The fitness of a node: whether its host lets it begin jobs, and the trials after which it claims jobs again.

A host that has no descriptor, no memory or no process left would fail every job that the node claims, and the node
would claim job after job, also those that healthy nodes could run. So the job that met the fault is given back, and the
node claims nothing until a trial has started a small process, as a job does. Trials come after growing pauses. After a
trial that succeeded the node begins one job, and twice as many with every second that passes: a host with
a little room is not overrun at once, and a node that falls ill again goes on with the longer pauses.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

from everwhen.clock import Clock
from everwhen.model.host_fault import MEANINGS, HostFault, host_fault_of

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
JITTER = 0.25  # of a pause: the nodes of one host do not try together
SLOW_START = 10.0  # seconds: by then any number of jobs may run at once again
WELL_AFTER = 60.0  # seconds without a fault, after which pauses begin anew
LONGEST_TRIAL = 10.0  # seconds
SPARE_PIPES = 3  # what a run needs beside the pipes of its process: its guardian, its watch, a report
LOOK_AGAIN = 0.05

log = logging.getLogger("everwhen")


class Unfit(NamedTuple):
    """Why a node cannot begin jobs, and since when."""

    fault: HostFault
    since: int

    def __str__(self) -> str:
        return (
            f"the host lets this node begin no job: {MEANINGS[self.fault]}; it claims none, and tries again"
        )


class Trial:
    """One small process, started as that of a job is, in surroundings as large as those of a job."""

    def __init__(self) -> None:
        # Where Python is embedded there may be no such program.
        program = [sys.executable, "-I", "-S", "-c", ""]
        self._argv = program if os.access(sys.executable or "", os.X_OK) else [shutil.which("true") or "true"]
        self._process: subprocess.Popen[bytes] | None = None
        self._until = 0.0

    @property
    def is_under_way(self) -> bool:
        return self._process is not None

    def begin(self, now: float) -> HostFault | None:
        """Start the process; return the fault of the host when it cannot be started."""
        try:
            with ExitStack() as stack:
                for _ in range(SPARE_PIPES):
                    for end in os.pipe():
                        stack.callback(os.close, end)
                thread = threading.Thread(target=int, name="everwhen-trial", daemon=True)
                thread.start()
                self._process = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    cwd="/",
                )
        except (OSError, RuntimeError, MemoryError) as error:
            return host_fault_of(error) or "program"
        self._until = now + LONGEST_TRIAL
        return None

    def end(self, now: float) -> tuple[HostFault | None] | None:
        """Return the result in a tuple, as soon as there is one."""
        process = self._process
        assert process is not None
        code = process.poll()
        if code is None and now < self._until:
            return None
        self.close()
        return (None,) if code == 0 else ("processes",)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


class Fitness:
    """Whether a node may claim jobs. `note` and the properties are for any thread, the rest for the one that claims."""

    def __init__(
        self, clock: Clock, trial: Trial | None = None, *, jitter: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock
        self._trial = trial or Trial()
        self._jitter = jitter
        self._lock = threading.Lock()
        self._pause = FIRST_PAUSE
        self._next_at = 0.0
        self._well_since = float("-inf")
        self._most_then = 0  # jobs at once, at that instant
        self.unfit: Unfit | None = None

    def note(self, fault: HostFault) -> None:
        """Note that the host let a job not begin."""
        with self._lock:
            if self.unfit is not None:
                return
            now = self._clock.monotonic()
            if now - self._well_since >= WELL_AFTER:
                self._pause = FIRST_PAUSE
            self.unfit = Unfit(fault, self._clock.now())
            self._wait(now)
        log.error("%s", self.unfit)

    def count_claimable(self, free: int, running: int) -> int:
        """Return how many jobs the node may claim now, of so many free workers."""
        with self._lock:
            if self.unfit is not None:
                return 0
            seconds = self._clock.monotonic() - self._well_since
            if seconds >= SLOW_START:
                return free
            return max(min(free, (self._most_then << int(seconds)) - running), 0)

    def seconds_to_next(self, at_most: float) -> float:
        """Return when the node has to look again, because of a trial or because it may claim more then."""
        now = self._clock.monotonic()
        if self.unfit is None:
            return min(at_most, 1.0) if now - self._well_since < SLOW_START else at_most
        return LOOK_AGAIN if self._trial.is_under_way else min(max(self._next_at - now, LOOK_AGAIN), at_most)

    def step(self, running: int) -> bool:
        """Begin a trial that is due, or see to its end; return True when the node is fit again since this call."""
        if self.unfit is None:
            return False
        now = self._clock.monotonic()
        if not self._trial.is_under_way:
            if now < self._next_at:
                return False
            fault = self._trial.begin(now)
            if fault is not None:
                self._fail(fault, now)
            return False
        ended = self._trial.end(now)
        if ended is None:
            return False
        if ended[0] is not None:
            self._fail(ended[0], now)
            return False
        with self._lock:
            self._most_then, self.unfit, self._well_since = running + 1, None, now
        log.warning("the host lets this node begin jobs again")
        return True

    def close(self) -> None:
        self._trial.close()

    def _fail(self, fault: HostFault, now: float) -> None:
        with self._lock:
            assert self.unfit is not None
            self.unfit = self.unfit._replace(fault=fault)
            self._wait(now)

    def _wait(self, now: float) -> None:
        """Set the next trial; the caller has the lock."""
        self._next_at = now + self._pause * (1 + JITTER * self._jitter())
        self._pause = min(2 * self._pause, LONGEST_PAUSE / (1 + JITTER))
