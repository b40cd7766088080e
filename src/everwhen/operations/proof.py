"""Proving the record: every slot exactly once, every count as the jobs make it (L1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from everwhen.decide.check_ledger import LedgerReport, check_ledger
from everwhen.model.history import History, Life
from everwhen.ports.house import House
from everwhen.ports.upkeep import Progress


def prove(house: House, progress: Progress = lambda _share: None) -> LedgerReport:
    """Check the whole ledger, from one snapshot; the service may go on meanwhile."""
    expected = max(sum(house.ledger.counts().schedules.values()), 1)
    with house.ledger.history() as history:
        return check_ledger(_watched(history, expected, progress), house.clock.now())


def _watched(history: History, expected: int, progress: Progress) -> History:
    def lives() -> Iterator[Life]:
        for number, life in enumerate(history.lives):
            progress(
                min(number / expected, 0.99)
            )  # deleted schedules have lives too, and nobody counted them
            yield life

    return replace(history, lives=lives())
