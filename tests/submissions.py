"""Schedules as tests and benchmarks submit them: the keys of a schedule and a target, without any surface."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from everwhen.decide import edit
from everwhen.model.changes import Insertion
from everwhen.model.declare import declare
from everwhen.model.defaults import with_defaults
from everwhen.model.schedule import Definition, Plan, State, Target
from everwhen.model.target_kinds import WITH_DEFAULTS
from everwhen.operations.schedules import QuietHoursByName, marked, replace_definition, uids_from
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.occurrences import FirstRun


@dataclass(frozen=True, slots=True)
class Submission:
    """A schedule as a caller submits it."""

    schedule_id: str
    fields: Mapping[str, Any]
    target: Target
    group: str | None = None
    source: str = "api"
    first_run: FirstRun = "immediately"
    may_be_past: bool = False
    uid: str | None = None
    bound_to: str | None = None  # the program whose processes alone take its jobs
    key: str | None = None  # of its caller, with the owner in front

    @property
    def is_enabled(self) -> bool:
        return self.fields.get("enabled", True) is not False


def create_schedules(
    runtime: Runtime, submissions: Iterable[Submission], *, actor: str | None = None
) -> list[State]:
    """Create many schedules in one transaction, all or none."""
    now, uids, quiet = runtime.clock.now(), uids_from(secrets.randbits(48)), QuietHoursByName(runtime)
    new: list[Insertion] = []
    for submission in submissions:
        definition = define(runtime, submission, now)
        plan = Plan(submission.schedule_id, definition, quiet.of(definition))
        creation = edit.create(
            plan,
            submission.uid or next(uids),
            now,
            default_first_run=submission.first_run,
            is_enabled=submission.is_enabled,
            may_be_past=submission.may_be_past,
            actor=actor,
        )
        new.append(Insertion(creation, plan, submission.source, submission.key))
    states = store_of(runtime).catalogue.create(now, new)
    runtime.wake_scheduler()
    return states


def create_schedule(runtime: Runtime, submission: Submission, *, actor: str | None = None) -> State:
    (state,) = create_schedules(runtime, [submission], actor=actor)
    return state


def define(runtime: Runtime, submission: Submission, now: int) -> Definition:
    fields, kind = submission.fields, submission.target.kind
    if kind in WITH_DEFAULTS:  # other kinds have no defaults, and most bulk loads have other kinds
        fields = with_defaults(fields, kind)
    if fields.get("timezone") == "local":  # only the runtime knows the zone of the host
        fields = {**fields, "timezone": runtime.timezone}
    return declare(
        submission.schedule_id,
        fields,
        target=marked(submission.target, submission.source),
        now=now,
        timezone=runtime.timezone,
        group=submission.group,
        bound_to=submission.bound_to,
    )


def update_schedule(runtime: Runtime, submission: Submission, *, actor: str | None = None) -> State:
    """Replace the definition of a schedule by a new revision."""
    name, may_be_past = submission.schedule_id, submission.may_be_past
    definition = define(runtime, submission, runtime.clock.now())
    return replace_definition(runtime, name, definition, may_be_past=may_be_past, actor=actor)
