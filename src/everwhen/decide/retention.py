"""Retention: what may be deleted, and when.

The ledger must stay provable after deletions: the checker reads slots from `retained_from` on, and the rows as
they are. So some records outlive their age. The events that say when a schedule was active stay while it exists, and
are deleted with it, all at once. The entry of its last slot stays, because a chain counts its next slot from it. The
events of the system switch and of restores stay for good: they are rare, and chains are counted anew from them. A
clock step stays on record until everything that it moved is old.
"""

from __future__ import annotations

from dataclasses import fields

from everwhen.model.events import Event, EventType
from everwhen.model.history import OF_SLOTS, STARTS, STOPS
from everwhen.model.request import REQUESTS_KEPT
from everwhen.model.retention import LISTENERS_KEPT, Cutoffs, Retention

OF_HISTORIES = STOPS.keys() | STARTS | {"schedule.created", "schedule.updated"}
OF_THE_SYSTEM: frozenset[EventType] = frozenset(("system.paused", "system.resumed", "system.restored"))
_INSTANTS = ("first", "last", "from", "to")


def cutoffs(retention: Retention, now: int) -> Cutoffs:
    """Return the instants before which everything that is over may be deleted."""
    ages = {kept.name: getattr(retention, kept.name) for kept in fields(Retention)}
    unused = max(
        retention.jobs, retention.audit, LISTENERS_KEPT
    )  # by then what it has not heard is deleted, too
    return Cutoffs(
        **{name: now - age for name, age in ages.items()},
        requests=now - REQUESTS_KEPT,
        listeners=now - unused,
    )


def retained_from(before: Cutoffs) -> int:
    """Return the instant before which a slot's job or event may have been deleted."""
    return max(before.jobs, before.audit)


def is_over(event: Event, before: int) -> bool:
    """Return whether all instants of an event lie before that one: its own, its slots', those of a clock step."""
    if event.at >= before or (event.slot_at or 0) >= before:
        return False
    if event.slot_count == 1 and event.type != "scheduler.clock_stepped":
        return True
    named = (event.detail.get(name) for name in _INSTANTS)
    return all(instant < before for instant in named if isinstance(instant, int))


def may_go(event: Event, before: int, *, last_slot_at: int | None) -> bool:
    """Return whether an event may be deleted by itself; `last_slot_at` is its schedule's, None when that is deleted."""
    if event.type in OF_HISTORIES or event.type in OF_THE_SYSTEM or not is_over(event, before):
        return False
    if event.type not in OF_SLOTS or last_slot_at is None:
        return True
    last = event.detail.get("last")
    return max(event.slot_at or 0, last if isinstance(last, int) else 0) < last_slot_at
