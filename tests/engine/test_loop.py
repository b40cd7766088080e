"""A loop whose steps fail goes on, after pauses that grow only where nobody has waited already."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from everwhen.engine.loop import FIRST_PAUSE, LONGEST_PAUSE, Loop
from everwhen.errors import StoreError, StoreFault


class StopFlag(threading.Event):
    """Is waited for without waiting, and remembers for how long it would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return self.is_set()


def pauses_after(faults: Iterable[StoreFault]) -> list[float]:
    reported, left = StopFlag(), list(faults)

    def step() -> None:
        if not left:
            reported.set()
            return
        raise StoreError("not now", fault=left.pop(0))

    loop = Loop("test", "a test", step, reported)
    loop.start()
    loop.join(60)
    assert not loop.is_alive
    return reported.pauses


def test_pauses_grow_while_the_database_is_away() -> None:
    pauses = pauses_after(["away"] * 6)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, LONGEST_PAUSE, LONGEST_PAUSE])


def test_who_has_waited_for_a_lock_asks_again_at_once() -> None:
    """Each of these steps took as long as the lock may: a pause on top could be just when it is free."""
    pauses = pauses_after(["away", "away", "locked", "locked", "locked"])
    assert pauses == pytest.approx([FIRST_PAUSE, 2 * FIRST_PAUSE, *[FIRST_PAUSE] * 3])
