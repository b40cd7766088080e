"""Bringing the store to what a configuration declares, in one transaction between two evaluations.

New schedules are created, changed ones edited, those that left the file removed; what did not change is not touched,
and counters, pauses and running jobs stay. The protocol: work out the changes on a snapshot, then write them with the
number of the configuration that they were worked out against. When another process was faster, its number is
another, nothing is written, and the changes are worked out anew. Whoever dies before the commit has changed nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from everwhen.decide import edit, reconcile, status
from everwhen.decide.reconcile import ConfigChanges
from everwhen.errors import ConfigError, DuplicateScheduleError, RemovalError, UnknownScheduleError
from everwhen.model.declared import Declarations, Declared
from everwhen.model.events import Event
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy
from everwhen.ports.catalogue import Change, NewSchedule, Reconciliation
from everwhen.ports.house import House
from everwhen.timetable.trigger import Once, parse_after

MOST_TRIES = 5
MOST_NAMED = 50


@dataclass(frozen=True, slots=True)
class Applied:
    """What a configuration did, by schedule id."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    switched: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.removed or self.switched)


def preview(house: House, declared: Declarations) -> ConfigChanges:
    """What applying would change; nothing is written."""
    catalogue = house.catalogue
    return reconcile.reconcile(declared, catalogue.of_source("config"), catalogue.policies("config"))


def apply(
    house: House,
    declared: Declarations,
    *,
    actor: str | None = None,
    may_remove_most: bool = False,
) -> Applied:
    """Make the schedules of the file those that are declared; refused whole when it cannot be."""
    for _ in range(MOST_TRIES):
        based_on, digest = house.catalogue.config_revision()
        changes = preview(house, declared)
        if changes.removes_most and not may_remove_most:
            raise RemovalError(len(changes.removed), changes.present)
        _refuse_taken(house, changes)
        if changes.is_empty and digest == declared.digest:
            return Applied()
        if _write(house, _written(declared, changes, based_on, house.clock.now(), actor)):
            house.wake_scheduler()
            house.wake_workers()
            return _applied(changes)
    raise ConfigError("another process reloads the configuration again and again; nothing was changed")


def _write(house: House, changes: Reconciliation) -> bool:
    """Whether it was written; when somebody else was faster, the changes have to be worked out anew."""
    try:
        return house.catalogue.reconcile(house.clock.now(), changes)
    except (UnknownScheduleError, DuplicateScheduleError):
        return False


def _refuse_taken(house: House, changes: ConfigChanges) -> None:
    """An id that came another way (REST, Python) is not taken over by the file."""
    taken = [one for one in changes.created if house.catalogue.get(one.schedule_id) is not None]
    if taken:
        raise ConfigError(
            "\n".join(
                f'{one.place}: a schedule "{one.schedule_id}" was created over REST or in Python; '
                "delete it, or choose another id"
                for one in taken
            )
        )


def _written(
    declared: Declarations, changes: ConfigChanges, based_on: int, now: int, actor: str | None
) -> Reconciliation:
    policies = {policy.policy_id: policy for policy in declared.policies}
    applied = _applied(changes)
    return Reconciliation(
        based_on=based_on,
        digest=declared.digest,
        actor=actor,
        created=[_new(one, policies, now, actor) for one in changes.created],
        changed=_changes(changes, policies, now, actor),
        removed=[
            (gone.state.schedule_id, partial(status.delete, cancel_running=False, by=actor or "config"))
            for gone in changes.removed
        ],
        policies=changes.policies,
        removed_policies=changes.removed_policies,
        places={one.schedule_id: one.place for one in declared.schedules},
        events=[Event("config.reloaded", now, actor=actor, detail=_detail(applied, declared.digest))],
    )


def _new(
    declared: Declared, policies: dict[str, QuietHoursPolicy], now: int, actor: str | None
) -> NewSchedule:
    definition = counted_from(now, declared.definition)
    plan = Plan(declared.schedule_id, definition, _quiet(definition, policies))
    creation = edit.create(
        plan,
        secrets.token_hex(6),
        now,
        is_enabled=declared.is_enabled,
        may_be_past=True,
        actor=actor or "config",
    )
    return NewSchedule(creation, plan, "config")


def _changes(
    changes: ConfigChanges, policies: dict[str, QuietHoursPolicy], now: int, actor: str | None
) -> list[tuple[str, Change]]:
    found: list[tuple[str, Change]] = []
    for change in changes.changed:
        after, before = change.after, change.before
        if after.trigger != before.trigger:  # an `after` whose words stayed means the instant that it meant
            after = counted_from(now, after)
        quiet = _quiet(after, policies)
        decide = partial(reconcile.rewrite, after, quiet, actor=actor or "config")
        found.append((change.declared.schedule_id, decide))
    for declared in changes.switched:
        found += [(declared.schedule_id, decide) for decide in reconcile.switches(declared)]
    return found


def counted_from(now: int, definition: Definition) -> Definition:
    """An `after` counts from here, and not from when the file was read, perhaps by another clock (T6)."""
    trigger = definition.trigger
    if not isinstance(trigger, Once) or trigger.kind != "after":
        return definition
    return replace(definition, trigger=parse_after(trigger.text, now / SECOND))


def _quiet(definition: Definition, policies: dict[str, QuietHoursPolicy]) -> QuietHoursPolicy | None:
    return policies[definition.quiet_hours_id] if definition.quiet_hours_id is not None else None


def _applied(changes: ConfigChanges) -> Applied:
    return Applied(
        tuple(one.schedule_id for one in changes.created),
        tuple(change.declared.schedule_id for change in changes.changed),
        tuple(schedule.state.schedule_id for schedule in changes.removed),
        tuple(one.schedule_id for one in changes.switched),
    )


def _detail(applied: Applied, digest: str) -> dict[str, object]:
    return {
        "digest": digest,
        **{word: _named(getattr(applied, word)) for word in ("created", "changed", "removed", "switched")},
    }


def _named(ids: Sequence[str]) -> dict[str, object]:
    return {"count": len(ids), "ids": list(ids[:MOST_NAMED])}
