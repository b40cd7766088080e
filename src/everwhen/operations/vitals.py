"""Counts over the whole database for monitoring: its current condition, and what was decided since a mark."""

from __future__ import annotations

from typing import NamedTuple

from everwhen.model.vitals import Mark, Signs, Tally
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of


class Condition(NamedTuple):
    """The condition of a database, and by how many microseconds its earliest slot is late; 0 while it is paused."""

    signs: Signs
    lag: int
    last_heartbeat_at: int | None


def current_mark(runtime: Runtime) -> Mark:
    """Return the current position, at which counting may begin."""
    return store_of(runtime).vitals.mark()


def tally_since(runtime: Runtime, mark: Mark) -> Tally:
    """Count what was committed since; consecutive tallies count each event and each firing once."""
    return store_of(runtime).vitals.tally(mark)


def current_condition(runtime: Runtime, *, overdue_after: int, most_overdue: int) -> Condition:
    """Return the current condition; overdue are slots that are late by more than `overdue_after`."""
    store, now = store_of(runtime), runtime.clock.now()
    signs = store.vitals.signs(now - overdue_after, most_overdue=most_overdue)
    wake_at = store.slots.next_wake_at()
    lag = 0 if wake_at is None else max(now - wake_at, 0)
    if signs.is_paused:  # nothing may fire, so nothing is late
        signs, lag = signs._replace(overdue=0), 0
    return Condition(signs, lag, store.slots.last_heartbeat_at())
