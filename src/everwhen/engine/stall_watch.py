"""The watch over a scheduler's stalls: each is recorded once, and later if the database itself causes it."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.clock import Clock
from everwhen.model.events import EventType

Record = Callable[[EventType, dict[str, object]], None]


class StallWatch:
    """Called by the heartbeat, which continues when the loop does not."""

    def __init__(self, clock: Clock, record: Record) -> None:
        self._clock = clock
        self._record = record
        self._is_stalled = False
        self._untold: list[dict[str, object]] = []

    def look(self, reason: str | None) -> None:
        """Note whether the scheduler stalls, and why."""
        if reason is not None and not self._is_stalled:
            self._untold.append({"reason": reason, "noticed_at": self._clock.now()})
        self._is_stalled = reason is not None

    def tell(self) -> None:
        """Record the stalls that are not recorded yet; on StoreError they are kept for the next call."""
        while self._untold:
            self._record("scheduler.stalled", self._untold[0])
            del self._untold[0]
