"""Pipelit's recovery: schedules whose time passed while nobody looked are decided now, by their catch-up policies."""

from __future__ import annotations

from collections.abc import Iterator

from everwhen.engine.ticker import BATCH
from everwhen.ports.house import House
from everwhen.wiring import open_existing_stack


def recover_scheduled_jobs(database: str) -> int:
    """Enqueue what active schedules are behind with; how many they were.

    The start of any scheduler does the same. Calling it again, or from several processes, changes nothing more: a slot
    is decided once. Schedules that are paused, done or dead are left alone.
    """
    stack = open_existing_stack(database)
    try:
        return sum(_decided(stack.house))
    finally:
        stack.close()


def _decided(house: House) -> Iterator[int]:
    for behind in (False, True):
        is_left = True
        while is_left:
            report = house.slots.tick(house.clock.now(), limit=BATCH, behind=behind)
            is_left = report.more
            yield report.schedules
