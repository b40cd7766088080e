"""A clock that can be set under a running process: libfaketime reads its offset from a file.

Only the wall clock is changed. The monotonic clock stays correct in every process, so the proof measures everything
with it.
"""

from __future__ import annotations

from pathlib import Path

from everwhen.clock import SystemClock

_LIBRARY = "usr/lib/*/faketime/libfaketimeMT.so.1"


def faketime() -> str | None:
    """Return the path of the library, if the machine has it."""
    return next(iter(sorted(map(str, Path("/").glob(_LIBRARY)))), None)


class SettableClock:
    """The clock of one machine; its processes see a step at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds = 0.0
        self._write()

    def step(self, seconds: float) -> None:
        self.seconds += seconds
        self._write()

    def environment(self) -> dict[str, str]:
        """Return the variables with which a process uses this clock; none when clocks cannot be set."""
        library = faketime()
        if library is None:
            return {}
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",  # all processes of a machine use one clock: they see a step at once
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def _write(self) -> None:
        # By rename: a process that read half a number would use another time.
        beside = self._path.with_suffix(".new")
        beside.write_text(f"{self.seconds:+.3f}\n")
        beside.chmod(0o644)
        beside.rename(self._path)


class ClockOf(SystemClock):
    """The same clock, for the process of the proof."""

    def __init__(self, clock: SettableClock) -> None:
        self._clock = clock

    def now(self) -> int:
        return super().now() + int(self._clock.seconds * 1_000_000)
