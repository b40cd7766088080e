"""The rule which groups (plugins, agents, workflows) a caller may use, decided here for every access path.

A caller that is confined to an owner may use the groups of that owner and the shared ones. To such a caller all other
groups do not exist.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

from everwhen.errors import UnknownGroupError
from everwhen.model.group import Group, Groups, is_anothers, is_longer, is_shared, tenant_of
from everwhen.model.queries import Entry, ScheduleFilter
from everwhen.model.schedule import Definition, Schedule, State, Status
from everwhen.operations.schedules import invalidate_schedule, list_schedules, restore_schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

UNUSABLE = "its owner may not use the"  # how the reason starts
_PAGE = 500
_LOOKED_AT: tuple[Status, ...] = ("active", "paused")

log = logging.getLogger("everwhen")


def may_use(group: Group | None, owner: str | None) -> bool:
    """Return whether a caller may use a group; `owner` is the one that the caller is confined to, None without one."""
    return group is not None and (owner is None or is_shared(group) or group.get("owner") == owner)


def usable_groups(groups: Groups, owner: str | None) -> Groups:
    """Return the groups that a caller may use."""
    if owner is None:
        return groups
    return {key: group for key, group in groups.items() if may_use(group, owner)}


def is_hidden(groups: Groups, name: str, owner: str | None) -> bool:
    """Return whether a group of that name exists but is hidden from this caller; kinds share one name space."""
    found = [group for (_, known), group in groups.items() if known == name]
    return bool(found) and not any(may_use(group, owner) for group in found)


def refuse_unusable(groups: Groups, schedule: Schedule, owner: str) -> None:
    """Raise UnknownGroupError when a caller may not run what a schedule runs, or the group no longer exists.

    A group that is unknown here may be declared by a program, together with the schedules that run it. A submitted
    schedule with an unknown group belongs to a group that was removed.
    """
    kind, name = schedule.definition.target.kind, schedule.definition.group
    if name is None:
        return
    group = groups.get((kind, name))
    is_declared_external = group is None and not _is_submitted(schedule.state)
    if not is_declared_external and not may_use(group, owner):
        raise UnknownGroupError(kind, name)


def _is_submitted(state: State) -> bool:
    """Return whether a schedule came over REST: its uid is its id."""
    return state.uid == state.schedule_id


def invalidate_unusable(runtime: Runtime, groups: Groups) -> list[str]:
    """Stop every submitted schedule that runs what its owner may not use; return their ids.

    An active one becomes invalid; a paused one stays paused beyond the end of its pause.
    """
    found: list[str] = []
    makers: dict[str, str | None] | None = None
    for (kind, name), group in groups.items():
        for entry in _suspects(runtime, kind, name):
            if makers is None:
                makers = _owners_of_tokens(runtime)
            fault = _fault(entry, group, makers)
            if fault is not None:
                schedule_id = entry.schedule.state.schedule_id
                log.warning("schedule %s is invalid: %s", schedule_id, fault)
                invalidate_schedule(runtime, schedule_id, fault)
                found.append(schedule_id)
    return found


def _suspects(runtime: Runtime, kind: str, name: str) -> Iterator[Entry]:
    """Yield schedules of a group that an owner submitted and that fire by themselves, now or when their pause ends."""
    for status in _LOOKED_AT:
        after: str | None = None
        wanted = ScheduleFilter(status=status, group=name, target=kind)
        while page := store_of(runtime).catalogue.states(wanted, limit=_PAGE, after=after):
            after = page[-1].schedule_id
            submitted = [state for state in page if state.owner is not None and _is_submitted(state)]
            if status == "paused":
                submitted = [state for state in submitted if state.resume_at is not None]
            if submitted:
                yield from store_of(runtime).catalogue.entries_of([one.schedule_id for one in submitted])


def stays_unusable(runtime: Runtime, groups: Groups, schedule: Schedule) -> bool:
    """Return whether an invalid schedule still runs what its owner may not use, as far as the groups here show."""
    definition, state = schedule.definition, schedule.state
    if definition.group is None or state.owner is None or not _is_submitted(state):
        return False
    group = groups.get((definition.target.kind, definition.group))
    if group is None:  # its owner is not known here
        return (state.status_reason or "").startswith(UNUSABLE)
    entry = store_of(runtime).catalogue.entry(state.schedule_id)
    return entry is not None and _fault(entry, group, _owners_of_tokens(runtime)) is not None


def _owners_of_tokens(runtime: Runtime) -> dict[str, str | None]:
    return {token.token_id: token.owner for token in store_of(runtime).tokens.all()}


def _fault(entry: Entry, group: Group, makers: dict[str, str | None]) -> str | None:
    """Return why a stored schedule may not use its group, without the name of the group's owner."""
    definition, owner = entry.schedule.definition, entry.schedule.state.owner
    named = f'{definition.target.kind} "{definition.group}"'
    maker = makers.get(entry.token_id or "")
    if is_anothers(group, owner) or not may_use(group, maker):
        return f"{UNUSABLE} {named}: it belongs to another owner, or to none, and is not shared"
    if (tenant := tenant_of(group, owner)) is not None and _is_beyond(definition, group, tenant):
        return f"{UNUSABLE} {named} with limits of its own: it is shared; change anything of the schedule to drop them"
    return None


def _is_beyond(definition: Definition, group: Group, tenant: str) -> bool:
    """Return whether a definition sets what a tenant may not set, or shares what each tenant has of its own."""
    rules = [rule for rule in (definition.guard, definition.breaker) if rule is not None]
    if not all(rule.key.endswith(f"@{tenant}") for rule in rules):
        return True
    if definition.target.kind == "plugin" and json.loads(definition.target.spec).get("tenant") != tenant:
        return True
    return is_longer(definition.timeout, definition.target.kind, group, definition.command)


FaultOf = Callable[[str, Definition], str | None]
"""Returns why a schedule with this id and definition cannot run now; None when it can."""


def restore_valid_schedules(
    runtime: Runtime, fault_of: FaultOf, groups: Callable[[], Groups] = dict
) -> list[str]:
    """Restore every invalid schedule that has no fault any more and whose owner may use its group; return their ids."""
    restored: list[str] = []
    after: str | None = None
    while page := list_schedules(runtime, status="invalid", limit=_PAGE, after=after):
        for schedule in store_of(runtime).catalogue.of_uids({state.uid for state in page}):
            schedule_id = schedule.state.schedule_id
            if stays_unusable(runtime, groups(), schedule):
                continue
            if schedule.plan.fault is None and fault_of(schedule_id, schedule.definition) is None:
                restore_schedule(runtime, schedule_id)
                restored.append(schedule_id)
        after = page[-1].schedule_id
    return restored
