"""The clock port."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall-clock instants for slots, monotonic seconds for sleeps, leases and timeouts."""

    def now(self) -> int:
        """Return the current instant, in microseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back and never jump."""
        ...
