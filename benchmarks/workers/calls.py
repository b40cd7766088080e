"""The functions that jobs call, of everwhen and of its peers alike, and the file where they note their starts."""

import os
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

NOTES = "EVERWHEN_BENCH_NOTES"  # the variable that names the file
MODULE = "benchmarks.workers.calls"
_open: dict[str, int] = {}
_begun: set[str] = set()


def nothing() -> None:
    """Do nothing."""


def begin() -> None:
    """Note the first call of the process; the others do nothing."""
    path = os.environ[NOTES]
    if path not in _begun:
        _begun.add(path)
        put(f"begin {time()!r}")


def note_run(run: Any) -> None:
    """Note which slot this is, and when the function was called; for everwhen."""
    now = time()
    put(f"{run.schedule_id} {run.slot_at.timestamp()!r} {now!r}")


def note_name(name: str) -> None:
    """Note when the function was called; for peers, which pass the name."""
    put(f"{name} {time()!r}")


def put(line: str) -> None:
    """Append a line by one system call, so that threads and processes may share the file."""
    path = os.environ[NOTES]
    channel = _open.get(path)
    if channel is None:
        channel = _open[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(channel, f"{line}\n".encode())


def named(function: str) -> str:
    """Return the name by which a node finds a function of this module."""
    return f"{MODULE}:{function}"


class Notes:
    """A file for the functions that this process, or one that it starts, will call."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path = folder / f"notes{number}"
        self.path.touch()
        os.environ[NOTES] = str(self.path)

    def read(self) -> Iterator[list[str]]:
        """Yield the fields of each whole line."""
        for line in self.path.read_text().split("\n")[:-1]:
            yield line.split(" ")

    def __len__(self) -> int:
        return self.path.read_bytes().count(b"\n")

    def close(self) -> None:
        channel = _open.pop(str(self.path), None)
        if channel is not None:
            os.close(channel)
        self.path.unlink()
