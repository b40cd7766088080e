"""Creating, changing, stopping and listing schedules."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from everwhen.decide import edit, status
from everwhen.decide.check import ScheduleCheckResult, check_schedule
from everwhen.errors import (
    MissingQuietHoursError,
    QuietHoursChangedError,
    TimetableError,
    UnknownScheduleError,
    shown,
)
from everwhen.model.decision import Decision
from everwhen.model.declare import declare
from everwhen.model.declared import Declared
from everwhen.model.fields import WITH_DEFAULTS, with_defaults
from everwhen.model.http_headers import header_fault
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State, Status, Target
from everwhen.model.shared import Shared
from everwhen.ports.catalogue import Change, NewSchedule, ScheduleFilter
from everwhen.ports.house import House
from everwhen.timetable.occurrences import FirstRun

T = TypeVar("T")

MOST_TRIES = 5

Permit = Callable[[Schedule], None]
"""Raises when whoever asks may not do this to that schedule; asked inside the transaction that would do it."""


def anybody(_schedule: Schedule) -> None:
    """Whoever sits at the machine may do everything."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A schedule as somebody submits it."""

    schedule_id: str
    words: Mapping[str, Any]
    target: Target
    group: str | None = None
    source: str = "api"
    first_run: FirstRun = "immediately"
    may_be_past: bool = False
    uid: str | None = field(default=None)

    @property
    def is_enabled(self) -> bool:
        return self.words.get("enabled", True) is not False


def create_schedules(
    house: House, submissions: Iterable[Submission], *, actor: str | None = None
) -> list[State]:
    """Create many schedules in one transaction, all or none."""
    now, uids, quiet = house.clock.now(), uids_from(secrets.randbits(48)), QuietHoursByName(house)
    new = [_new(house, submission, next(uids), quiet, now, actor) for submission in submissions]
    states = house.catalogue.create(now, new)
    house.wake_scheduler()
    return states


def create_declared(
    house: House, declared: Iterable[Declared], *, source: str, actor: str | None = None
) -> list[State]:
    """Create schedules that were read and found valid, in one transaction, all or none."""
    now, uids, quiet = house.clock.now(), uids_from(secrets.randbits(48)), QuietHoursByName(house)
    new: list[NewSchedule] = []
    for one in declared:
        plan = Plan(one.schedule_id, one.definition, quiet.of(one.definition))
        creation = edit.create(plan, next(uids), now, is_enabled=one.is_enabled, actor=actor)
        new.append(NewSchedule(creation, plan, source))
    states = house.catalogue.create(now, new)
    house.wake_scheduler()
    return states


def create_schedule(house: House, submission: Submission, *, actor: str | None = None) -> State:
    (state,) = create_schedules(house, [submission], actor=actor)
    return state


def uids_from(drawn: int) -> Iterator[str]:
    """Twelve hexadecimal digits each, counted on from a number that was drawn: those of one call are neighbours.

    Neighbours share the pages of every index that uids stand in, which more than halves what a bulk load
    writes, and two runs meet less often than as many single draws would. One that was used before is refused
    by the store.
    """
    return (f"{(drawn + further) & 0xFFFF_FFFF_FFFF:012x}" for further in count())


def _new(
    house: House, submission: Submission, uid: str, quiet: QuietHoursByName, now: int, actor: str | None
) -> NewSchedule:
    definition = define(house, submission, now)
    plan = Plan(submission.schedule_id, definition, quiet.of(definition))
    creation = edit.create(
        plan,
        submission.uid or uid,
        now,
        default_first_run=submission.first_run,
        is_enabled=submission.is_enabled,
        may_be_past=submission.may_be_past,
        actor=actor,
    )
    return NewSchedule(creation, plan, submission.source)


def define(house: House, submission: Submission, now: int) -> Definition:
    words, kind = submission.words, submission.target.kind
    if kind in WITH_DEFAULTS:  # the others have none, and a bulk load is of those
        words = with_defaults(words, kind)
    if words.get("timezone") == "local":  # which zone the host has is not known here
        words = {**words, "timezone": house.timezone}
    return declare(
        submission.schedule_id,
        words,
        target=marked(submission.target, submission.source),
        now=now,
        timezone=house.timezone,
        group=submission.group,
    )


def marked(target: Target, source: str) -> Target:
    """A URL that came from outside the configuration file is marked as such, whatever it says of itself: the
    rules about addresses look at that when it is requested. Its headers are looked at here, whichever way it came."""
    if target.kind != "http":
        return target
    words = {**json.loads(target.spec), "source": source}
    for name, value in (words.get("headers") or {}).items():
        if fault := header_fault(name, value):
            raise TimetableError(f'headers: "{shown(name)}" {fault}', key="headers", value=name)
    return Target(target.kind, json.dumps(words))


def quiet_hours_of(house: House, definition: Definition) -> QuietHoursPolicy | None:
    """The policy that a definition names; one that is not there is refused."""
    return QuietHoursByName(house).of(definition)


class QuietHoursByName:
    """The policies as they are now, read when the first is asked for."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._policies: dict[str, QuietHoursPolicy] | None = None

    def of(self, definition: Definition) -> QuietHoursPolicy | None:
        wanted = definition.quiet_hours_id
        if wanted is None:
            return None
        policies = self.read()
        if wanted not in policies:
            raise MissingQuietHoursError(wanted)
        return policies[wanted]

    def read(self) -> dict[str, QuietHoursPolicy]:
        """All of them. Asked for before a transaction, which must not wait for another."""
        if self._policies is None:
            self._policies = {policy.policy_id: policy for policy in self._house.catalogue.policies()}
        return self._policies


def with_quiet_hours(house: House, work: Callable[[QuietHoursByName], T]) -> T:
    """Do it by the policies as they are; once more, a few times, when one of them was changed before the commit."""
    for _ in range(MOST_TRIES - 1):
        try:
            return work(QuietHoursByName(house))
        except QuietHoursChangedError:
            continue
    return work(QuietHoursByName(house))


def update_schedule(house: House, submission: Submission, *, actor: str | None = None) -> State:
    """Replace the definition of a schedule by a new revision."""
    definition = define(house, submission, house.clock.now())

    def update(quiet: QuietHoursByName) -> State:
        policy = quiet.of(definition)

        def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
            plan = Plan(schedule.state.schedule_id, definition, policy)
            return edit.edit(schedule, plan, now, shared, may_be_past=submission.may_be_past, actor=actor)

        return _change(house, submission.schedule_id, change)

    return with_quiet_hours(house, update)


def pause_schedule(
    house: House,
    schedule_id: str,
    *,
    by: str = "person",
    actor: str | None = None,
    note: str | None = None,
    until: int | None = None,
    permit: Permit = anybody,
) -> State:
    def pause(schedule: Schedule, now: int, shared: Shared) -> Decision:
        return status.pause(schedule, now, shared, by=by, actor=actor, note=note, until=until)

    return _change(house, schedule_id, pause, permit)


def resume_schedule(house: House, schedule_id: str, *, by: str | None = None) -> State:
    return _change(house, schedule_id, lambda s, now, shared: status.resume(s, now, shared, by=by))


def revive_schedule(
    house: House, schedule_id: str, *, by: str | None = None, permit: Permit = anybody
) -> State:
    return _change(house, schedule_id, lambda s, now, shared: status.revive(s, now, shared, by=by), permit)


def invalidate_schedule(house: House, schedule_id: str, reason: str) -> State:
    return _change(house, schedule_id, lambda s, now, shared: status.invalidate(s, now, shared, reason))


def restore_schedule(house: House, schedule_id: str) -> State:
    return _change(house, schedule_id, status.restore)


def delete_schedule(
    house: House,
    schedule_id: str,
    *,
    cancel_running: bool = False,
    by: str | None = None,
    permit: Permit = anybody,
) -> None:
    def delete(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        return status.delete(schedule, now, shared, cancel_running=cancel_running, by=by)

    house.catalogue.delete(house.clock.now(), schedule_id, delete)
    house.wake_workers()


def check(house: House, schedule_id: str) -> ScheduleCheckResult:
    """Would it fire now? (herdctl's question)"""
    schedule = get_schedule(house, schedule_id)
    return check_schedule(schedule, house.clock.now(), house.catalogue.shared_of(schedule))


def get_schedule(house: House, schedule_id: str) -> Schedule:
    schedule = house.catalogue.get(schedule_id)
    if schedule is None:
        raise UnknownScheduleError(schedule_id)
    return schedule


def list_schedules(
    house: House,
    *,
    status: Status | None = None,
    group: str | None = None,
    owner: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> list[State]:
    """Schedules by id, a page at a time; `after` is the last id of the page before."""
    return house.catalogue.states(ScheduleFilter(status, group, owner), limit=limit, after=after)


def pause_system(house: House, *, by: str | None = None) -> None:
    """Nothing fires or is claimed until the system is resumed."""
    house.catalogue.set_system_paused(house.clock.now(), True, by)


def resume_system(house: House, *, by: str | None = None) -> None:
    house.catalogue.set_system_paused(house.clock.now(), False, by)
    house.wake_scheduler()


def _change(house: House, schedule_id: str, change: Change, permit: Permit = anybody) -> State:
    def permitted(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        return change(schedule, now, shared)

    decision = house.catalogue.change(house.clock.now(), schedule_id, permitted)
    house.wake_scheduler()
    house.wake_workers()
    return decision.after
