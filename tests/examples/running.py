"""An example in a folder of its own, and a service that runs there as its README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.test_nodes import stop
from tests.cli.test_up import lines_until
from tests.environment import without_settings

EXAMPLES = Path(__file__).parents[2] / "examples"
BIN = Path(sys.executable).parent


def copied(name: str, folder: Path) -> Path:
    """Return a copy of the example in the folder of a test."""
    return shutil.copytree(EXAMPLES / name, folder / name)


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    """Run a command in the folder of an example; return what it prints on both streams."""
    environ = {**without_settings(), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **variables}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@dataclass(frozen=True, slots=True)
class Up:
    """`everwhen up` in a folder, whose API listens."""

    process: subprocess.Popen[str]
    url: str

    def await_line(self, word: str, count: int = 1) -> list[str]:
        return lines_until(self.process.stderr, word, count)


@contextmanager
def up(folder: Path, *words: str, **variables: str) -> Iterator[Up]:
    """Run `everwhen up` during the block; it has to end well."""
    process = subprocess.Popen(
        [BIN / "everwhen", "up", *words],
        cwd=folder,
        env={**without_settings(), **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = lines_until(process.stderr, "API on", 1)[-1]
        found = re.search(r"http://[\d.]+:\d+", line)
        assert found is not None, line
        yield Up(process, found[0])
    finally:
        stop(process)
