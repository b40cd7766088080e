"""The effect of a change on the firings of the next days: which stay, move, vanish or appear. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from everwhen.model.instants import SECOND
from everwhen.model.schedule import Plan, State
from everwhen.timetable.trigger import Every

MOST = 10_000


class FiringTimes(NamedTuple):
    """All instants before `until` at which a schedule fires; None: there are no later ones."""

    instants: Sequence[int] = ()
    until: int | None = None


NO_FIRING_TIMES = FiringTimes()


@dataclass(frozen=True, slots=True)
class FiringChanges:
    """The difference between two sets of firings; a pair in `moved` is the old and the new instant.

    `until`: the comparison ends there, because there are very many firings; None: it covers all that were requested.
    """

    kept: int = 0
    moved: tuple[tuple[int, int], ...] = ()
    vanished: tuple[int, ...] = ()
    appeared: tuple[int, ...] = ()
    until: int | None = None

    @property
    def is_same(self) -> bool:
        return not (self.moved or self.vanished or self.appeared)


def compare(before: FiringTimes, after: FiringTimes) -> FiringChanges:
    """Compare firings. Where as many appear as vanish, each vanished one has moved to the new one of the same rank.

    >>> compare(FiringTimes([1, 5, 9]), FiringTimes([1, 6, 10])).moved
    ((5, 6), (9, 10))
    """
    until = min((one.until for one in (before, after) if one.until is not None), default=None)
    old, new = _before(before, until), _before(after, until)
    kept = set(old) & set(new)
    vanished = [instant for instant in old if instant not in kept]
    appeared = [instant for instant in new if instant not in kept]
    if vanished and len(vanished) == len(appeared):
        return FiringChanges(len(kept), moved=tuple(zip(vanished, appeared, strict=True)), until=until)
    return FiringChanges(len(kept), vanished=tuple(vanished), appeared=tuple(appeared), until=until)


def _before(firings: FiringTimes, until: int | None) -> Sequence[int]:
    return firings.instants if until is None else [at for at in firings.instants if at < until]


def firings(plan: Plan, state: State, until: int) -> FiringTimes:
    """Return when the schedule is due from its next slot on, outside closed times; a chain as if runs took no time."""
    found: list[int] = []
    slot_at = state.next_slot_at
    if state.status != "active":
        return NO_FIRING_TIMES
    calendar = plan.calendar(state.anchor_at)
    for _ in range(MOST):  # counts slots in closed times as well
        if slot_at is None or calendar.due_at(slot_at) >= until:
            return FiringTimes(found)
        due_at = calendar.due_at(slot_at)
        if calendar.closed_reason(due_at) is None:
            found.append(due_at)
        slot_at = _following(plan, slot_at) if calendar.is_chain else calendar.next_after(slot_at)
    return FiringTimes(found, None if slot_at is None else min(calendar.due_at(slot_at), until))


def _following(plan: Plan, slot_at: int) -> int:
    trigger = plan.definition.trigger
    assert isinstance(trigger, Every)
    return slot_at + trigger.seconds * SECOND
