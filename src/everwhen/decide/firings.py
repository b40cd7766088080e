"""What a change does to the firings of the next days: which stay, move, vanish or appear. Pure arithmetic on slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everwhen.model.instants import SECOND
from everwhen.model.schedule import Plan, State
from everwhen.timetable.trigger import Every

MOST = 10_000


@dataclass(frozen=True, slots=True)
class FiringChanges:
    """Instants at which a schedule fires; a pair has moved from the first to the second."""

    kept: int = 0
    moved: tuple[tuple[int, int], ...] = ()
    vanished: tuple[int, ...] = ()
    appeared: tuple[int, ...] = ()

    @property
    def is_same(self) -> bool:
        return not (self.moved or self.vanished or self.appeared)


def compare(before: Sequence[int], after: Sequence[int]) -> FiringChanges:
    """What becomes of firings. Where as many appear as vanish they have moved, each to its successor's place.

    >>> compare([1, 5, 9], [1, 6, 10]).moved
    ((5, 6), (9, 10))
    """
    kept = set(before) & set(after)
    vanished = [instant for instant in before if instant not in kept]
    appeared = [instant for instant in after if instant not in kept]
    if vanished and len(vanished) == len(appeared):
        return FiringChanges(len(kept), moved=tuple(zip(vanished, appeared, strict=True)))
    return FiringChanges(len(kept), vanished=tuple(vanished), appeared=tuple(appeared))


def firings(plan: Plan, state: State, until: int) -> list[int]:
    """When the schedule is due from its next slot on, closed times left out; a chain as if runs took no time."""
    found: list[int] = []
    slot_at = state.next_slot_at
    if state.status != "active":
        return found
    calendar = plan.calendar(state.anchor_at)
    while slot_at is not None and len(found) < MOST:
        due_at = calendar.due_at(slot_at)
        if due_at >= until:
            break
        if calendar.closed_reason(due_at) is None:
            found.append(due_at)
        slot_at = _following(plan, slot_at) if calendar.is_chain else calendar.next_after(slot_at)
    return found


def _following(plan: Plan, slot_at: int) -> int:
    trigger = plan.definition.trigger
    assert isinstance(trigger, Every)
    return slot_at + trigger.seconds * SECOND
