"""The instants before which nothing is due, and no job is ready, as far as this process knows.

An index keeps the entries of rows that have moved on until they are vacuumed, and while some old snapshot is open
that may take hours: a search for the earliest next_run_at from the very front then passes hundreds of thousands of
them. With a lower bound it starts behind them. The bound follows the evaluations at a distance; what this process
writes below it lowers it again; what others might have written there (a commit that took longer, a clock that was
set back) is found by a look without bound, every few seconds.

The index on the jobs' ready_at is alike, with one difference: a job may be ready for hours and wait for capacity. So
its bound follows the first that is ready at all, as the look without bound finds it, and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from everwhen.model.instants import SECOND

EARLIEST = -(1 << 55)  # the eleventh century before Christ
DISTANCE = 5 * SECOND  # a new row may be due a second before it was written, and its commit may take a while
LOOK_WITHOUT_BOUND = 10.0  # seconds


@dataclass(slots=True)
class Look:
    """One search: from where, and what it found."""

    at: int
    found: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.at == EARLIEST


class Watermark:
    """Shared by the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = EARLIEST
        self._looked: float | None = None

    @property
    def at(self) -> int:
        return self._at

    @contextmanager
    def schedule_history(self) -> Iterator[Look]:
        """A search for the earliest; now and then one from the very front, which may lower the mark."""
        started = time.monotonic()
        is_whole = self._looked is None or started - self._looked >= LOOK_WITHOUT_BOUND
        look = Look(EARLIEST if is_whole else self._at)
        yield look
        if is_whole:
            self._looked = started
            self.lower(() if look.found is None else (look.found,))

    def raise_to(self, instant: int) -> None:
        """Nothing is due before that instant."""
        with self._lock:
            self._at = max(self._at, instant - DISTANCE)

    def lower(self, instants: Iterable[int | None]) -> None:
        """Something may be due then."""
        earliest = min((at for at in instants if at is not None), default=None)
        if earliest is not None and earliest < self._at:
            with self._lock:
                self._at = min(self._at, earliest)


class Marks:
    """Where the searches of one process begin."""

    __slots__ = ("due", "ready")

    def __init__(self) -> None:
        self.due = Watermark()
        self.ready = Watermark()
