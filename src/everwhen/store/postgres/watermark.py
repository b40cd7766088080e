"""The instants before which nothing is due, and no job is ready, as far as this process knows.

An index keeps the entries of changed rows until they are vacuumed, which may take hours while an old snapshot is
open: a search for the earliest next_run_at from the very front then passes hundreds of thousands of them. With a
lower bound the search starts behind them. The bound follows the evaluations at a distance. A write of this process
below the bound lowers it again. Rows that others may have written there (a commit that took longer, a clock that was
set back) are found by a search without bound, every few seconds.

The index on the jobs' ready_at is similar, with one difference: a job may be ready for hours and wait for capacity.
So its bound follows only the first job that is ready at all, as the search without bound finds it.
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
    """One search: its lower bound, and what it found."""

    at: int
    found: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.at == EARLIEST


class Watermark:
    """A lower bound, shared by the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = EARLIEST
        self._looked: float | None = None

    @property
    def at(self) -> int:
        return self._at

    @contextmanager
    def search(self) -> Iterator[Look]:
        """Run a search for the earliest; every few seconds one without bound, which may lower the mark."""
        started = time.monotonic()
        is_whole = self._looked is None or started - self._looked >= LOOK_WITHOUT_BOUND
        look = Look(EARLIEST if is_whole else self._at)
        yield look
        if is_whole:
            self._looked = started
            self.lower(() if look.found is None else (look.found,))

    def raise_to(self, instant: int) -> None:
        """Raise the bound: nothing is due before that instant."""
        with self._lock:
            self._at = max(self._at, instant - DISTANCE)

    def lower(self, instants: Iterable[int | None]) -> None:
        """Lower the bound: something may be due at these instants."""
        earliest = min((at for at in instants if at is not None), default=None)
        if earliest is not None and earliest < self._at:
            with self._lock:
                self._at = min(self._at, earliest)


class Marks:
    """The lower bounds of the searches of one process."""

    __slots__ = ("due", "ready")

    def __init__(self) -> None:
        self.due = Watermark()
        self.ready = Watermark()
