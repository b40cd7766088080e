"""What may be forgotten, and when.

The ledger must stay provable whatever is gone (L1): the checker looks at slots from `retained_from` on, and at the
rows as they stand. So some things outlive their age. The events that say when a schedule was active stay while it
lives, and go with it, all at once. The entry of its last slot stays, from which a chain counts its next. The system
switch and restores, which are rare, count chains anew, and stay for good. And a clock that was set is on record until
everything that it moved is old.
"""

from __future__ import annotations

from everwhen.model.events import Event, EventType
from everwhen.model.retention import Cutoffs, Retention

OF_HISTORIES: frozenset[EventType] = frozenset(
    (
        "schedule.created",
        "schedule.updated",
        "schedule.deleted",
        "schedule.paused",
        "schedule.resumed",
        "schedule.revived",
        "schedule.invalidated",
        "schedule.restored",
        "schedule.done",
        "schedule.died",
    )
)
OF_THE_SYSTEM: frozenset[EventType] = frozenset(("system.paused", "system.resumed", "system.restored"))
OF_SLOTS: frozenset[EventType] = frozenset(("schedule.skipped", "schedule.missed", "schedule.caught_up"))
_INSTANTS = ("first", "last", "from", "to")


def cutoffs(retention: Retention, now: int) -> Cutoffs:
    """Everything that was over before these instants may be deleted."""
    return Cutoffs(
        jobs=now - retention.jobs,
        audit=now - retention.audit,
        breaker_transitions=now - retention.breaker_transitions,
        messages=now - retention.messages,
        output=now - retention.output,
    )


def retained_from(before: Cutoffs) -> int:
    """Of slots before this instant a job or an event may be gone."""
    return max(before.jobs, before.audit)


def is_over(event: Event, before: int) -> bool:
    """Whether all that an event speaks of lies before that instant: its own, its slots', those of a set clock."""
    if event.at >= before or (event.slot_at or 0) >= before:
        return False
    if event.slot_count == 1 and event.type != "scheduler.clock_stepped":
        return True
    named = (event.detail.get(name) for name in _INSTANTS)
    return all(instant < before for instant in named if isinstance(instant, int))


def may_go(event: Event, before: int, *, last_slot_at: int | None) -> bool:
    """Whether an event may be forgotten by itself; `last_slot_at` is its schedule's, None where that is gone."""
    if event.type in OF_HISTORIES or event.type in OF_THE_SYSTEM or not is_over(event, before):
        return False
    return event.type not in OF_SLOTS or last_slot_at is None or _last_slot(event) < last_slot_at


def _last_slot(event: Event) -> int:
    last = event.detail.get("last")
    return max(event.slot_at or 0, last if isinstance(last, int) else 0)
