"""The clock that the shell reads."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall-clock instants for slots, monotonic seconds for sleeps, leases and timeouts."""

    def now(self) -> int:
        """This instant, in microseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back and never jump."""
        ...
