"""The changes that a configuration makes: declared against stored, as a value. It decides nothing about slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from everwhen.decide import edit, status
from everwhen.decide.draft import Draft
from everwhen.decide.slots import interval_of
from everwhen.model.changes import Change, Decision
from everwhen.model.declare import Declarations, Declared
from everwhen.model.limits import Shared
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State
from everwhen.model.serialize import fields_of, policy_to_json
from everwhen.timetable.trigger import Once

MANY = 10
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Changed:
    """A schedule whose definition has changed."""

    declared: Declared
    before: Definition
    after: Definition


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The changes to the schedules and policies of the file."""

    created: tuple[Declared, ...] = ()
    changed: tuple[Changed, ...] = ()
    removed: tuple[Schedule, ...] = ()
    switched: tuple[Declared, ...] = ()  # paused, resumed or made valid by the file
    policies: tuple[QuietHoursPolicy, ...] = ()
    removed_policies: tuple[str, ...] = ()
    present: int = 0

    @property
    def is_empty(self) -> bool:
        changes = (self.created, self.changed, self.removed, self.switched, self.policies)
        return not any(changes) and not self.removed_policies

    @property
    def removes_most(self) -> bool:
        """Return whether more than half of ten or more are removed: probably a lost file, not an intention."""
        return self.present >= MANY and 2 * len(self.removed) > self.present


def reconcile(
    declared: Declarations, stored: Iterable[Schedule], policies: Iterable[QuietHoursPolicy]
) -> ConfigChanges:
    """Return the changes that make the stored schedules and policies equal to the declared ones."""
    present = {schedule.state.schedule_id: schedule for schedule in stored}
    known = {policy.policy_id: policy_to_json(policy) for policy in policies}
    names = {one.schedule_id for one in declared.schedules}
    pairs = [(one, present[one.schedule_id]) for one in declared.schedules if one.schedule_id in present]
    return ConfigChanges(
        created=tuple(one for one in declared.schedules if one.schedule_id not in present),
        changed=tuple(filter(None, (_change(one, schedule) for one, schedule in pairs))),
        removed=tuple(schedule for name, schedule in present.items() if name not in names),
        switched=tuple(one for one, schedule in pairs if _needs_switch(one, schedule.state)),
        policies=tuple(p for p in declared.policies if known.get(p.policy_id) != policy_to_json(p)),
        removed_policies=tuple(known.keys() - {policy.policy_id for policy in declared.policies}),
        present=len(present),
    )


def _change(declared: Declared, stored: Schedule) -> Changed | None:
    before = stored.definition
    after = settled(declared.definition, before)
    if after is before or after == before or fields_of(after) == fields_of(before):
        return None
    return Changed(declared, before, after)


def settled(declared: Definition, stored: Definition) -> Definition:
    """Keep the instant of an `after`, which was fixed at creation, as long as its text is the same.

    Keep that of an `at`, too, which release 0.2 rounded up to a second.
    """
    new, old = declared.trigger, stored.trigger
    if not isinstance(new, Once) or not isinstance(old, Once) or (new.kind, new.text) != (old.kind, old.text):
        return declared
    is_rounded = (old.instant, old.fraction) == (new.instant + 1, 0) and new.fraction > 0
    return replace(declared, trigger=old) if old.kind == "after" or is_rounded else declared


def _needs_switch(declared: Declared, state: State) -> bool:
    """Return whether the file changes the status.

    The file pauses and resumes, but never ends a person's pause. A valid declaration ends `invalid`.
    """
    if state.status == "invalid":
        return True
    if declared.is_enabled:
        return state.status == "paused" and state.paused_by == "config"
    return state.status == "active"


def rewrite(
    after: Definition,
    quiet: QuietHoursPolicy | None,
    schedule: Schedule,
    now: int,
    shared: Shared,
    *,
    may_be_past: bool = True,
    actor: str | None = None,
    is_upgrade: bool = False,
) -> Decision:
    """Write a new revision of a schedule; in a file, an instant already past makes it done."""
    plan = Plan(schedule.state.schedule_id, after, quiet)
    return edit.edit(schedule, plan, now, shared, may_be_past=may_be_past, actor=actor, is_upgrade=is_upgrade)


def switch(is_enabled: bool, schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Pause or resume as the file says, given the current state of the row."""
    state = schedule.state
    if not is_enabled and state.status == "active":
        return status.pause(schedule, now, shared, by="config")
    if is_enabled and state.status == "paused" and state.paused_by == "config":
        return status.resume(schedule, now, shared, by="config")
    return Draft(schedule, now, shared).decision()


def switches(declared: Declared) -> list[Change]:
    """Return the changes of status that a declaration requires, in order."""
    return [status.restore, partial(switch, declared.is_enabled)]


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
        slot_at = slot_at + interval_of(plan) if calendar.is_chain else calendar.next_after(slot_at)
    return FiringTimes(found, None if slot_at is None else min(calendar.due_at(slot_at), until))
