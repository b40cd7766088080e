"""A scheduler that stalls puts that on record: once for each stall, and later where the database is what keeps it."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.model.events import EventType
from everwhen.ports.clock import Clock

Record = Callable[[EventType, dict[str, object]], None]


class StallWatch:
    """Looked at by the heartbeat, which goes on when the loop does not."""

    def __init__(self, clock: Clock, record: Record) -> None:
        self._clock = clock
        self._record = record
        self._is_stalled = False
        self._untold: list[dict[str, object]] = []

    def look(self, reason: str | None) -> None:
        """Whether it stalls, and why."""
        if reason is not None and not self._is_stalled:
            self._untold.append({"reason": reason, "noticed_at": self._clock.now()})
        self._is_stalled = reason is not None

    def tell(self) -> None:
        """Put on record what is not there yet; StoreError, and it is kept for the next time."""
        while self._untold:
            self._record("scheduler.stalled", self._untold[0])
            del self._untold[0]
