"""Starts `tests.store.child`, talks to it, and leaves none behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0


class Child:
    """A process with two pipes. A line that does not come fails the test through its timeout."""

    def __init__(self, verb: str, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.store.child", verb, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)

    def ends_well(self) -> None:
        assert self._process.wait(PATIENCE_SECONDS) == 0

    def clear_away(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(PATIENCE_SECONDS)


@contextmanager
def a_child(verb: str, *arguments: object) -> Iterator[Child]:
    child = Child(verb, *arguments)
    try:
        yield child
    finally:
        child.clear_away()
