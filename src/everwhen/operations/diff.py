"""What a configuration would change, with the firings of the next week: a dry run of applying it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from everwhen.decide import edit
from everwhen.decide.reconcile import NO_FIRING_TIMES, ConfigChanges, FiringChanges, compare, firings, switch
from everwhen.model.declare import Declarations, Declared
from everwhen.model.fields import FIELDS, TRIGGER_KEYS, schedule_to_json, trigger_to_json
from everwhen.model.instants import DAY
from everwhen.model.limits import Shared
from everwhen.model.masks import masked
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule
from everwhen.operations.apply import KeyChange, compare_keys, preview
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

AHEAD = 7 * DAY
What = Literal["created", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """The change of one schedule."""

    schedule_id: str
    what: What
    place: str
    timezone: str
    keys: tuple[KeyChange, ...]
    firings: FiringChanges


def diff(
    runtime: Runtime, declared: Declarations, progress: Callable[[float], None] | None = None
) -> list[ScheduleChange]:
    """Return everything that applying would change, by schedule, without writing; `progress` gets the share done."""
    now = runtime.clock.now()
    changes = preview(runtime, declared)
    policies = {policy.policy_id: policy for policy in declared.policies}
    stored = {one.state.schedule_id: one for one in store_of(runtime).catalogue.of_source("config")}
    edited = {change.declared.schedule_id: change.after for change in changes.changed}

    def change_of(one: Declared) -> ScheduleChange:
        schedule = stored[one.schedule_id]
        after = edited.get(one.schedule_id, schedule.definition)
        return _changed(one, schedule, after, policies, now)

    steps: list[Callable[[], ScheduleChange]] = [
        partial(_created, one, policies, now) for one in changes.created
    ]
    steps += [partial(_removed, schedule, now) for schedule in changes.removed]
    steps += [partial(change_of, one) for one in _touched(declared, changes, stored)]
    found = []
    for step in steps:
        found.append(step())
        if progress is not None:
            progress(len(found) / len(steps))
    return sorted(found, key=lambda change: change.schedule_id)


def _touched(declared: Declarations, changes: ConfigChanges, stored: dict[str, Schedule]) -> list[Declared]:
    """Return the schedules that are edited or switched, or whose quiet hours change."""
    names = {change.declared.schedule_id for change in changes.changed}
    names |= {one.schedule_id for one in changes.switched}
    other_hours = {policy.policy_id for policy in changes.policies}
    return [
        one
        for one in declared.schedules
        if one.schedule_id in stored
        and (one.schedule_id in names or one.definition.quiet_hours_id in other_hours)
    ]


def _created(one: Declared, policies: dict[str, QuietHoursPolicy], now: int) -> ScheduleChange:
    plan = Plan(one.schedule_id, one.definition, policies.get(one.definition.quiet_hours_id or ""))
    state = edit.create(plan, "", now, is_enabled=one.is_enabled, may_be_past=True).state
    firing = compare(NO_FIRING_TIMES, firings(plan, state, now + AHEAD))
    zone, found = one.definition.zone.name, _compared(one.definition)
    keys = tuple(KeyChange(key, None, _masked_value(key, value)) for key, value in found.items())
    return ScheduleChange(one.schedule_id, "created", one.place, zone, keys, firings=firing)


def _removed(schedule: Schedule, now: int) -> ScheduleChange:
    firing = compare(firings(schedule.plan, schedule.state, now + AHEAD), NO_FIRING_TIMES)
    zone = schedule.definition.zone.name
    return ScheduleChange(schedule.state.schedule_id, "removed", "", zone, (), firings=firing)


def _changed(
    one: Declared, schedule: Schedule, after: Definition, policies: dict[str, QuietHoursPolicy], now: int
) -> ScheduleChange:
    plan = Plan(one.schedule_id, after, policies.get(after.quiet_hours_id or ""))
    decision = edit.edit(schedule, plan, now, Shared(), may_be_past=True)
    decision = switch(one.is_enabled, Schedule(decision.after, plan, schedule.outstanding), now, Shared())
    keys = tuple(
        KeyChange(one.key, _masked_value(one.key, one.before), _masked_value(one.key, one.after))
        for one in compare_keys(_compared(schedule.definition), _compared(after))
    )
    if schedule.state.status != decision.after.status:
        keys += (KeyChange("status", schedule.state.status, decision.after.status),)
    until = now + AHEAD
    firing = compare(firings(schedule.plan, schedule.state, until), firings(plan, decision.after, until))
    return ScheduleChange(one.schedule_id, "changed", one.place, after.zone.name, keys, firings=firing)


def _compared(definition: Definition) -> dict[str, Any]:
    """Return the keys of a schedule that differ from their defaults, and what its group and its budgets add to them."""
    written = schedule_to_json(definition)
    # The target has more than `run` names, such as the `config` of a plugin.
    found = {
        "trigger": trigger_to_json(definition.trigger),
        "target": [definition.target.kind, json.loads(definition.target.spec)],
        "group": definition.group,
        "budgets": {
            one.key: {
                name: value for name, value in one._asdict().items() if name != "key" and value is not None
            }
            for one in definition.budgets
        },
        **{key: value for key, value in written.items() if key not in (*TRIGGER_KEYS, "type", "run")},
    }
    defaults = {key: field.default for key, field in FIELDS.items()}
    return {key: value for key, value in found.items() if value not in (None, {}, defaults.get(key))}


def _masked_value(key: str, value: Any) -> Any:
    return [value[0], masked(value[1])] if key == "target" and value is not None else masked(value, key)
