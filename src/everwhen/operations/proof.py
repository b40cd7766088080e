"""The check of the ledger: every slot exactly once, every count as the jobs make it (L1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from everwhen.model.history import History, ScheduleHistory
from everwhen.runtime import Progress, Runtime
from everwhen.stores.opened import store_of
from everwhen.verify.ledger import LedgerReport, check_ledger


def prove(runtime: Runtime, progress: Progress = lambda _share: None) -> LedgerReport:
    """Check the whole ledger, from one snapshot; the service may run meanwhile."""
    store = store_of(runtime)
    expected = max(sum(store.ledger.counts().schedules.values()), 1)
    with store.ledger.history() as record:
        return check_ledger(_watched(record, expected, progress), runtime.clock.now())


def _watched(record: History, expected: int, progress: Progress) -> History:
    def histories() -> Iterator[ScheduleHistory]:
        for number, history in enumerate(record.histories):
            progress(min(number / expected, 0.99))  # `expected` does not count deleted schedules
            yield history

    return replace(record, histories=histories())
