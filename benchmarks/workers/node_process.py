"""A process of `everwhen` for a worker of a benchmark, with its configuration in a file."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep

LOOK_EVERY = 0.005
PATIENCE = 60.0
READY = b"Ctrl-C stops"
ENDING_SECONDS = 90  # a stop waits half a minute for running jobs, and a busy machine for longer


class Node:
    """A process that is ready when it is created; its output goes to a file, so that no pipe fills up."""

    def __init__(self, fields: Sequence[str], config: Path) -> None:
        self.log = config.with_suffix(f".{monotonic()}.log")
        command = [sys.executable, "-m", "everwhen", *fields, "--config", str(config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=os.environ
            )
        await_that(lambda: READY in self.log.read_bytes() or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise RuntimeError(f"the node ended: {self.log.read_text(errors='replace')[-300:]}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Stop it in its orderly way."""
        self.process.terminate()
        try:
            self.process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def await_that(is_so: Callable[[], object]) -> float:
    """Wait until the condition holds, and return that instant of the monotonic clock."""
    deadline = monotonic() + PATIENCE
    while not is_so():
        if monotonic() > deadline:
            raise TimeoutError(f"nothing happened within {PATIENCE:g} s")
        sleep(LOOK_EVERY)
    return monotonic()
