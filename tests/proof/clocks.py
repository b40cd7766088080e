"""A clock that can be set under a running process: a small preloaded library adds an offset, which lies in a file.

Only the wall clock is changed. The monotonic clock stays correct in every process, so the proof measures everything
with it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from everwhen.clock import SystemClock

_SOURCE = Path(__file__).with_name("settable_clock.c")
_LIBRARY = "settable_clock.so"


def compiler() -> str | None:
    """Return the path of the C compiler, if the machine has one: without it no clock can be set."""
    return shutil.which("cc")


class SettableClock:
    """The clock of one machine; its processes see a step at once. `path` is the file of its offset."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds = 0.0
        path.touch(0o644)
        self._write()

    def step(self, seconds: float) -> None:
        self.seconds += seconds
        self._write()

    def environment(self) -> dict[str, str]:
        """Return the variables with which a process uses this clock; none when clocks cannot be set."""
        library = _library(self._path.parent)
        if library is None:
            return {}
        return {"LD_PRELOAD": str(library), "EVERWHEN_PROOF_CLOCK": str(self._path)}

    def _write(self) -> None:
        # In place, because processes have mapped the file: eight bytes are written as one.
        with self._path.open("r+b", buffering=0) as file:
            file.write(int(self.seconds * 1_000_000).to_bytes(8, "little", signed=True))


def _library(folder: Path) -> Path | None:
    """Return the library, compiled once for each world, in its folder."""
    library, cc = folder / _LIBRARY, compiler()
    if cc is None:
        return None
    if not library.exists():
        command = [cc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
        subprocess.run(command, check=True, timeout=60)
    return library


class ClockOf(SystemClock):
    """The same clock, for the process of the proof."""

    def __init__(self, clock: SettableClock) -> None:
        self._clock = clock

    def now(self) -> int:
        return super().now() + int(self._clock.seconds * 1_000_000)
