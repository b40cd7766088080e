"""Creating, changing, stopping and listing schedules."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar

from everwhen.decide import edit, status
from everwhen.decide.draft import Draft
from everwhen.decide.outlook import check_schedule
from everwhen.decide.reconcile import settled
from everwhen.errors import (
    MissingQuietHoursError,
    QuietHoursChangedError,
    SourceError,
    TimetableError,
    UnknownScheduleError,
    shown,
)
from everwhen.model.changes import Change, Decision, Insertion, Terms
from everwhen.model.declare import Declared
from everwhen.model.limits import Shared
from everwhen.model.queries import ScheduleFilter
from everwhen.model.reasons import ScheduleCheckResult
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State, Status, Target
from everwhen.model.target_kinds import header_fault
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

T = TypeVar("T")

MOST_TRIES = 5

Permit = Callable[[Schedule], None]
"""Raises when the caller may not make this change to the schedule; called inside the transaction that makes it."""


def anybody(_schedule: Schedule) -> None:
    """Permit everything: the caller is a local user or a program."""


def create_declared(
    runtime: Runtime,
    declared: Iterable[Declared],
    *,
    source: str,
    actor: str | None = None,
    may_be_past: bool = False,
    uid: str | None = None,
) -> list[State]:
    """Create schedules that were read and found valid, in one transaction, all or none; `uid` is one's own."""
    now, uids, quiet = runtime.clock.now(), uids_from(secrets.randbits(48)), QuietHoursByName(runtime)
    new: list[Insertion] = []
    for one in declared:
        plan = Plan(one.schedule_id, one.definition, quiet.of(one.definition))
        is_enabled, own = one.is_enabled, uid or next(uids)
        creation = edit.create(plan, own, now, is_enabled=is_enabled, may_be_past=may_be_past, actor=actor)
        new.append(Insertion(creation, plan, source))
    states = store_of(runtime).catalogue.create(now, new)
    runtime.wake_scheduler()
    return states


def uids_from(drawn: int) -> Iterator[str]:
    """Yield uids of twelve hexadecimal digits, counted up from a random number: those of one call are neighbours.

    Neighbours share the pages of every index on uids, which more than halves what a bulk load writes, and two
    calls collide less often than as many single draws would. The store refuses a uid that exists.
    """
    return (f"{(drawn + further) & 0xFFFF_FFFF_FFFF:012x}" for further in count())


def marked(target: Target, source: str) -> Target:
    """Mark the URL of a target with its source, and check its headers.

    The rules about addresses depend on the source when the URL is requested: a URL from outside the configuration
    file may not reach private networks, whatever its definition says.
    """
    if target.kind != "http":
        return target
    fields = {**json.loads(target.spec), "source": source}
    for name, value in (fields.get("headers") or {}).items():
        if fault := header_fault(name, value):
            raise TimetableError(f'headers: "{shown(name)}" {fault}', key="headers", value=name)
    return Target(target.kind, json.dumps(fields))


class QuietHoursByName:
    """The current policies, read when the first one is needed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._policies: dict[str, QuietHoursPolicy] | None = None

    def of(self, definition: Definition) -> QuietHoursPolicy | None:
        """Return the policy that a definition names; refuse a name that does not exist."""
        return None if definition.quiet_hours_id is None else policy_of(definition, self.read())

    def read(self) -> dict[str, QuietHoursPolicy]:
        """Return all policies. Call it before a transaction, which must not wait for another one."""
        if self._policies is None:
            policies = store_of(self._runtime).catalogue.policies()
            self._policies = {policy.policy_id: policy for policy in policies}
        return self._policies


def policy_of(definition: Definition, policies: Mapping[str, QuietHoursPolicy]) -> QuietHoursPolicy | None:
    """Return the policy that a definition names; refuse a name that does not exist."""
    wanted = definition.quiet_hours_id
    if wanted is not None and wanted not in policies:
        raise MissingQuietHoursError(wanted)
    return None if wanted is None else policies[wanted]


def with_quiet_hours(runtime: Runtime, work: Callable[[QuietHoursByName], T]) -> T:
    """Do the work with the current policies; retry a few times when one of them changes before the commit."""
    for _ in range(MOST_TRIES - 1):
        try:
            return work(QuietHoursByName(runtime))
        except QuietHoursChangedError:
            continue
    return work(QuietHoursByName(runtime))


def replace_definition(
    runtime: Runtime,
    schedule_id: str,
    definition: Definition,
    *,
    may_be_past: bool = False,
    actor: str | None = None,
) -> State:
    """Write a new revision of a schedule."""

    def update(quiet: QuietHoursByName) -> State:
        policy = quiet.of(definition)

        def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
            plan = Plan(schedule.state.schedule_id, definition, policy)
            return edit.edit(schedule, plan, now, shared, may_be_past=may_be_past, actor=actor)

        return change_schedule(runtime, schedule_id, change)

    return with_quiet_hours(runtime, update)


def rewrite_schedule(
    runtime: Runtime,
    schedule_id: str,
    rewrite: Callable[[Schedule], Declared],
    *,
    source: str,
    actor: str | None = None,
) -> State:
    """Write a new revision of a schedule of that source, made from the stored one; the same one changes nothing."""

    def change(schedule: Schedule, declared: Declared, now: int, shared: Shared, plan: Plan) -> Decision:
        may_be_past = schedule.definition.trigger == declared.definition.trigger
        return edit.edit(schedule, plan, now, shared, may_be_past=may_be_past, actor=actor)

    return _rewrite(runtime, schedule_id, rewrite, change, source)


def replace_schedule(runtime: Runtime, declared: Declared, *, source: str, actor: str | None = None) -> State:
    """Give a schedule of that source this definition; its counters stay, and the same one changes nothing.

    One that is done or dead begins anew. The instant of an `after` stays as long as its text is the same.
    """

    def rewrite(schedule: Schedule) -> Declared:
        if schedule.state.status in ("done", "dead"):
            return declared
        return replace(declared, definition=settled(declared.definition, schedule.definition))

    def change(schedule: Schedule, declared: Declared, now: int, shared: Shared, plan: Plan) -> Decision:
        return edit.edit(schedule, plan, now, shared, actor=actor)

    return _rewrite(runtime, declared.schedule_id, rewrite, change, source)


Rewrite = Callable[[Schedule, Declared, int, Shared, Plan], Decision]


def _rewrite(
    runtime: Runtime,
    schedule_id: str,
    rewrite: Callable[[Schedule], Declared],
    change: Rewrite,
    source: str,
) -> State:
    """Change a definition in one transaction; a schedule that was invalid is then valid."""
    entry = store_of(runtime).catalogue.entry(schedule_id)
    if entry is None:
        raise UnknownScheduleError(schedule_id)
    if entry.source != source:
        raise SourceError(f'schedule "{schedule_id}"', entry.source)

    def attempt(quiet: QuietHoursByName) -> State:
        quiet.read()  # before the transaction

        def decide(schedule: Schedule, now: int, shared: Shared) -> Decision:
            declared = rewrite(schedule)
            if declared.definition == schedule.definition and schedule.state.status not in ("done", "dead"):
                return Draft(schedule, now, shared).decision()
            policy = quiet.of(declared.definition)
            plan = Plan(schedule.state.schedule_id, declared.definition, policy)
            return change(schedule, declared, now, shared, plan)

        def restore(schedule: Schedule, now: int, shared: Shared) -> Decision:
            if schedule.state.status == "dead":
                return status.revive(schedule, now, shared)
            return status.restore(schedule, now, shared)

        return store_of(runtime).catalogue.change(runtime.clock.now(), schedule_id, decide, restore).after

    state = with_quiet_hours(runtime, attempt)
    runtime.wake_scheduler()
    runtime.wake_workers()
    return state


def pause_schedule(
    runtime: Runtime,
    schedule_id: str,
    *,
    by: str = "person",
    actor: str | None = None,
    note: str | None = None,
    until: int | None = None,
    permit: Permit = anybody,
) -> State:
    pause = partial(status.pause, by=by, actor=actor, note=note, until=until)
    return change_schedule(runtime, schedule_id, pause, permit)


def resume_schedule(runtime: Runtime, schedule_id: str, *, by: str | None = None) -> State:
    return change_schedule(runtime, schedule_id, partial(status.resume, by=by))


def revive_schedule(
    runtime: Runtime,
    schedule_id: str,
    *,
    by: str | None = None,
    permit: Permit = anybody,
    terms: Terms | None = None,
) -> State:
    """Start a schedule anew that is done or dead; `terms`: within the quota of the token that asks."""
    return change_schedule(runtime, schedule_id, partial(status.revive, by=by), permit, terms)


def invalidate_schedule(runtime: Runtime, schedule_id: str, reason: str) -> State:
    return change_schedule(runtime, schedule_id, partial(status.invalidate, reason=reason))


def restore_schedule(runtime: Runtime, schedule_id: str) -> State:
    return change_schedule(runtime, schedule_id, status.restore)


def delete_schedule(
    runtime: Runtime,
    schedule_id: str,
    *,
    cancel_running: bool = False,
    by: str | None = None,
    permit: Permit = anybody,
) -> None:
    def delete(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        return status.delete(schedule, now, shared, cancel_running=cancel_running, by=by)

    store_of(runtime).catalogue.delete(runtime.clock.now(), schedule_id, delete)
    runtime.wake_workers()


def check(runtime: Runtime, schedule_id: str) -> ScheduleCheckResult:
    """Return whether the schedule would fire now, or the first reason why not."""
    schedule = get_schedule(runtime, schedule_id)
    return check_schedule(schedule, runtime.clock.now(), store_of(runtime).catalogue.shared_of(schedule))


def find_schedule(runtime: Runtime, schedule_id: str) -> Schedule | None:
    """Return one schedule as it is now; None when there is none."""
    return store_of(runtime).catalogue.get(schedule_id)


def get_schedule(runtime: Runtime, schedule_id: str) -> Schedule:
    schedule = find_schedule(runtime, schedule_id)
    if schedule is None:
        raise UnknownScheduleError(schedule_id)
    return schedule


def list_schedules(
    runtime: Runtime,
    *,
    status: Status | None = None,
    group: str | None = None,
    owner: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> list[State]:
    """List schedules by id, one page at a time; `after` is the last id of the previous page."""
    return store_of(runtime).catalogue.states(ScheduleFilter(status, group, owner), limit=limit, after=after)


def pause_system(runtime: Runtime, *, by: str | None = None) -> None:
    """Pause the system: nothing fires or is claimed until it is resumed."""
    store_of(runtime).catalogue.set_system_paused(runtime.clock.now(), True, by)


def resume_system(runtime: Runtime, *, by: str | None = None) -> None:
    store_of(runtime).catalogue.set_system_paused(runtime.clock.now(), False, by)
    runtime.wake_scheduler()


def change_schedule(
    runtime: Runtime, schedule_id: str, change: Change, permit: Permit = anybody, terms: Terms | None = None
) -> State:
    def permitted(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        return change(schedule, now, shared)

    decision = store_of(runtime).catalogue.change(runtime.clock.now(), schedule_id, permitted, terms=terms)
    runtime.wake_scheduler()
    runtime.wake_workers()
    return decision.after
