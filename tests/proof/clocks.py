"""A clock that can be set under a running process: libfaketime reads how far off it is from a file.

Only the wall clock is off. The monotonic one stays true in every process, which is why all that the proof measures is
measured by it.
"""

from __future__ import annotations

from pathlib import Path

from everwhen.clock import SystemClock

_LIBRARY = "usr/lib/*/faketime/libfaketimeMT.so.1"


def faketime() -> str | None:
    """The library, where the machine has it."""
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
        """What a process needs to go by this clock; nothing where clocks cannot be set."""
        library = faketime()
        if library is None:
            return {}
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",  # all processes of a machine go by one clock: they see a step at once
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def _write(self) -> None:
        # By rename: whoever reads half a number goes by another time.
        beside = self._path.with_suffix(".new")
        beside.write_text(f"{self.seconds:+.3f}\n")
        beside.chmod(0o644)
        beside.rename(self._path)


class ClockOf(SystemClock):
    """The same clock, for ourselves."""

    def __init__(self, clock: SettableClock) -> None:
        self._clock = clock

    def now(self) -> int:
        return super().now() + int(self._clock.seconds * 1_000_000)
